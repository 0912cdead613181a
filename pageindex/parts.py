"""A long text below one heading, in parts.

Novels, transcripts and word lists have few headings, and a section is the unit of ranking, of citation and of what is
given to read: without parts such a text is one hit, and at most one of its places is shown.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, islice, pairwise

from pageindex.markdown import BlockKind, Heading, Markdown, References, may_hold_table
from pageindex.node import PART_LEVEL
from pageindex.summary import prose_sentences

MAX_SECTION_CHARS = 20_000  # ten pages; what is written with headings hardly ever has so much below one
PART_CHARS = 3_000  # a page and a half, about as much as is asked for in one question
MAX_TITLE_CHARS = 60
TITLE_WITHIN_CHARS = 500  # a title is read from so many: Markdown that nobody wrote makes reading more of it slow

_ITEM = re.compile(r"[-*+] |\d{1,9}[.)] ")


def divide(markdown: Markdown, text: str, first: int) -> Iterator[Heading]:
    """Where the own text of a section (or file) that begins in line `first` goes on in another part; none if short.

    The section keeps what comes before the first of them. A part begins with a block; within a paragraph or a list
    that is longer than two parts, with a line or an item.
    """
    if len(text) <= MAX_SECTION_CHARS:
        return
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    # Rather a last part that is up to half as long again than one of a few lines.
    cuts = [0]
    for line in _find_beginnings(markdown, text, first, starts):
        if starts[line] - starts[cuts[-1]] >= PART_CHARS and len(text) - starts[line] >= PART_CHARS / 2:
            cuts.append(line)
    for line, end in pairwise([*cuts[1:], len(starts) - 1]):
        part = text[starts[line] : starts[end]]
        yield Heading(PART_LEVEL, _first_words(part, markdown.references), None, first + line, 0)


def _first_words(text: str, references: References) -> str:
    """Return what a part is called."""
    text = text.lstrip()[:TITLE_WITHIN_CHARS]
    words = " ".join(islice(prose_sentences(text, references), 5)) or text.partition("\n")[0]
    if len(words) >= MAX_TITLE_CHARS:
        words = words[: MAX_TITLE_CHARS - 1]  # one less for the sign of what follows
        words = words[: words.rfind(" ")] if " " in words else words
    return words.rstrip(" .…") + "…"


def _find_beginnings(markdown: Markdown, text: str, first: int, starts: list[int]) -> Iterator[int]:
    """Yield the lines of the text, 0-based and rising, in which a part may begin."""
    end = first + len(starts) - 1
    low = bisect_left(markdown.blocks, first, key=lambda block: block.line)
    high = bisect_left(markdown.blocks, end, low, key=lambda block: block.line)
    beginnings = [block.line - first for block in markdown.blocks[low:high]]
    for block, (line, after) in zip(markdown.blocks[low:high], pairwise([*beginnings, len(starts) - 1]), strict=True):
        yield line
        if starts[after] - starts[line] > 2 * PART_CHARS:
            inner = range(line + 1, after)
            if block.kind is BlockKind.LIST:
                yield from (line for line in inner if _ITEM.match(text, starts[line]))
            elif block.kind is BlockKind.PARAGRAPH and not may_hold_table(text[starts[line] : starts[after]]):
                yield from inner
