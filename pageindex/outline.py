"""The headings of a document as nested sections: which contains which, the lines of each, what each is called.

A long text below one heading is divided into parts. Novels, transcripts and word lists have few headings, and a section
is the unit of ranking, of citation and of what is given to read: without parts such a text is one hit, and at most one
of its places is shown.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from pageindex.blocks import Block, BlockKind, Inline
from pageindex.node import PART_LEVEL, Span
from pageindex.summary import summarize
from pageindex.units import read_units

MAX_SLUG_CHARS = 100  # of one heading in an id; anchors are not cut


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the document itself, or the beginning of a part."""

    level: int  # 1 to 6; PART_LEVEL
    title: str  # plain text on one line, without `{#id}` and closing `#`; may be empty
    anchor_id: str | None  # the id that it is given, None without one
    line: int  # its first line, 1-based, counted in the file


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
MOST_UNITS = 5  # that a part is called by


def find_headings(blocks: Iterable[Block]) -> list[Heading]:
    """Return the headings among the outermost blocks of a document: not those inside a list, a quote or a note."""
    return [
        Heading(int(block.info), block.texts[0].line, block.content or None, block.first)
        for block in blocks
        if block.kind is BlockKind.HEADING
    ]


def divide(blocks: Sequence[Block], starts: Sequence[int], first: int) -> Iterator[Heading]:
    """Yield a heading for each further part of a long own text of a section or file.

    The section keeps what comes before the first of them. A part begins with a block; within a paragraph or a list
    that is longer than two parts, with a line or an item.

    Args:
        blocks: of the text.
        starts: where its lines begin, in characters, and where it ends.
        first: the line of the file that it begins with.
    """
    # Rather a last part that is up to half as long again than one of a few lines.
    cuts = [first]
    for line in _find_beginnings(blocks, starts, first):
        length, left = starts[line - first] - starts[cuts[-1] - first], starts[-1] - starts[line - first]
        if length >= PART_CHARS and left >= PART_CHARS / 2:
            cuts.append(line)
    parts = cut_blocks(blocks, [*cuts, first + len(starts) - 1])
    for line, part in zip(cuts[1:], parts[1:], strict=True):
        yield Heading(PART_LEVEL, first_words(part), None, line)


def first_words(blocks: Sequence[Block]) -> str:
    """Return what a part is called."""
    words = summarize(islice(read_units(blocks), MOST_UNITS))[: 2 * MAX_TITLE_CHARS]
    if len(words) >= MAX_TITLE_CHARS:
        words = words[: MAX_TITLE_CHARS - 1]  # one less for the sign of what follows
        words = words[: words.rfind(" ")] if " " in words else words
    return words.rstrip(" .…") + "…"


def _find_beginnings(blocks: Sequence[Block], starts: Sequence[int], first: int) -> Iterator[int]:
    """Yield the lines, rising, in which a part may begin."""
    ends = [block.first for block in blocks[1:]] + [first + len(starts) - 1]
    for block, end in zip(blocks, ends, strict=False):  # of no blocks there is one end
        yield block.first
        if starts[end - first] - starts[block.first - first] > 2 * PART_CHARS:
            if block.kind is BlockKind.LIST:
                yield from (item.first for item in block.blocks[1:])
            elif block.kind is BlockKind.PARAGRAPH:
                yield from range(block.first + 1, block.last + 1)


def cut_blocks(blocks: Sequence[Block], firsts: Sequence[int]) -> list[list[Block]]:
    """Return the blocks of each part of a document; a list or paragraph that goes on in the next part is cut.

    Args:
        blocks: the outermost ones, in the order of lines.
        firsts: the first line of each part, and the line behind the last.
    """
    parts: list[list[Block]] = []
    place = 0
    for first, end in pairwise(firsts):
        part: list[Block] = []
        while place < len(blocks) and blocks[place].first < end:
            if blocks[place].last >= first:
                part.append(_clip(blocks[place], first, end))
            if blocks[place].last >= end:
                break
            place += 1
        parts.append(part)
    return parts


def _clip(block: Block, first: int, end: int) -> Block:
    """Return what of a block stands in the lines from `first` to before `end`."""
    if first <= block.first and block.last < end:
        return block
    clipped = replace(block, first=max(block.first, first), last=min(block.last, end - 1))
    clipped.blocks = [inner for inner in block.blocks if first <= inner.first < end]
    if block.kind is BlockKind.PARAGRAPH and block.texts:
        lines = block.texts[0].text.split("\n")[clipped.first - block.first : clipped.last - block.first + 1]
        clipped.texts = (Inline("\n".join(lines)),)
    return clipped
