"""The headings of a document as nested sections: which contains which, the lines of each, what each is called.

A long text below one heading is divided into parts. Novels, transcripts and word lists have few headings, and a section
is the unit of ranking, of citation and of what is given to read: without parts such a text is one hit, and at most one
of its places is shown.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from pageindex.markdown import BlockKind, Heading, References, line_starts, read_blocks
from pageindex.node import PART_LEVEL, Span
from pageindex.summary import prose_sentences

MAX_SLUG_CHARS = 100  # of one heading in an id; anchors are not cut


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the lines up to the next heading of any level."""

    heading: Heading  # what it begins with
    # The position in the outline of the nearest earlier heading of a lower level; None below the file itself.
    parent: int | None
    span: Span  # its own lines, child sections excluded
    slug: str  # names it among its siblings: unique there
    anchor: str  # names it in the file: unique there


def outline(headings: Sequence[Heading], line_count: int) -> tuple[Section, ...]:
    """Return the sections of a file of `line_count` lines, in the order of lines."""
    if not headings:
        return ()
    sections = []
    above: list[tuple[int, int]] = []  # (level, position) of the headings around this one, levels rising
    seen: Counter[tuple[int | None, str]] = Counter()
    ends = [heading.line - 1 for heading in headings[1:]] + [line_count]
    for position, (heading, end, anchor) in enumerate(zip(headings, ends, unique_anchors(headings), strict=True)):
        while above and above[-1][0] >= heading.level:
            above.pop()
        parent = above[-1][1] if above else None
        above.append((heading.level, position))
        slug = github_slug(heading.title)[:MAX_SLUG_CHARS] or "section"
        seen[parent, slug] += 1
        if seen[parent, slug] > 1:  # repeats below the same parent; `~` is in no slug otherwise
            slug = f"{slug}~{seen[parent, slug]}"
        sections.append(Section(heading, parent, Span(heading.line, end), slug, anchor))
    return tuple(sections)


def unique_anchors(headings: Iterable[Heading]) -> list[str]:
    """Return each heading's `{#id}`, else its slug; repeats get `-1`, `-2` ..., counted as github-slugger does."""
    used: dict[str, int] = {}
    anchors: dict[int, str] = {}
    # Parts last: a link means a heading.
    for place, heading in sorted(enumerate(headings), key=lambda item: item[1].level == PART_LEVEL):
        base = heading.anchor_id or github_slug(heading.title) or "section"
        anchor = base
        while anchor in used:
            used[base] += 1
            anchor = f"{base}-{used[base]}"
        used[anchor] = 0
        anchors[place] = anchor
    return [anchors[place] for place in range(len(anchors))]


def github_slug(title: str) -> str:
    """Return the title as GitHub makes a fragment of it: lower case, letters, digits, `_` and `-`, spaces as `-`."""
    words = ("Mn", "Mc", "Me", "Pc", "Nl")  # categories of what is in words besides letters and digits
    kept = (char for char in title.lower() if char in " -" or char.isalnum() or unicodedata.category(char) in words)
    return "".join(kept).replace(" ", "-")


MAX_SECTION_CHARS = 20_000  # ten pages; a text with headings hardly ever has as much below one
PART_CHARS = 3_000  # a page and a half, about as much as is asked for in one question
MAX_TITLE_CHARS = 60
TITLE_WITHIN_CHARS = 500  # that a title is read from: generated Markdown makes reading more of it slow

_ITEM = re.compile(r"[-*+] |\d{1,9}[.)] ")


def divide(text: str, first: int, references: References) -> Iterator[Heading]:
    """Yield a heading for each further part of the own text of a section or file, from line `first` on; none if short.

    The section keeps what comes before the first of them. A part begins with a block; within a paragraph or a list
    that is longer than two parts, with a line or an item.
    """
    if len(text) <= MAX_SECTION_CHARS:
        return
    starts = line_starts(text)
    # Rather a last part that is up to half as long again than one of a few lines.
    cuts = [0]
    for line in _find_beginnings(text, starts):
        if starts[line] - starts[cuts[-1]] >= PART_CHARS and len(text) - starts[line] >= PART_CHARS / 2:
            cuts.append(line)
    for line, end in pairwise([*cuts[1:], len(starts) - 1]):
        part = text[starts[line] : starts[end]]
        yield Heading(PART_LEVEL, _first_words(part, references), None, first + line, 0)


def _first_words(text: str, references: References) -> str:
    """Return what a part is called."""
    text = text.lstrip()[:TITLE_WITHIN_CHARS]
    words = " ".join(islice(prose_sentences(text, references), 5)) or text.partition("\n")[0]
    if len(words) >= MAX_TITLE_CHARS:
        words = words[: MAX_TITLE_CHARS - 1]  # one less for the sign of what follows
        words = words[: words.rfind(" ")] if " " in words else words
    return words.rstrip(" .…") + "…"


def _find_beginnings(text: str, starts: Sequence[int]) -> Iterator[int]:
    """Yield the lines of the text, 0-based and rising, in which a part may begin."""
    blocks = read_blocks(text, 0)
    beginnings = [block.line for block in blocks]
    for block, (line, after) in zip(blocks, pairwise([*beginnings, len(starts) - 1]), strict=True):
        yield line
        if starts[after] - starts[line] > 2 * PART_CHARS:
            inner = range(line + 1, after)
            if block.kind is BlockKind.LIST:
                yield from (line for line in inner if _ITEM.match(text, starts[line]))
            elif block.kind is BlockKind.PARAGRAPH:
                yield from inner
