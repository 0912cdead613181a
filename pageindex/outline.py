"""The headings of a document as nested sections: which contains which, the lines of each, what each is called.

A long text below one heading is divided into parts. Novels, transcripts and word lists have few headings, and a section
is the unit of ranking, of citation and of what is given to read: without parts such a text is one hit, and at most one
of its places is shown.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from pageindex.blocks import Block, BlockKind, Inline
from pageindex.node import PART_LEVEL
from pageindex.summary import summarize
from pageindex.text import github_slug
from pageindex.units import read_units


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the document itself, or the beginning of a part."""

    level: int  # 1 to 6; PART_LEVEL; 0 for the file
    title: str  # plain text on one line, without `{#id}` and closing `#`; may be empty
    anchor_id: str  # the id that it is given; empty without one
    line: int  # its first line, 1-based, counted in the file


def name_anchors(headings: Iterable[Heading]) -> dict[int, str]:
    """Map lines of headings to their `{#id}` or slug; repeats get `-1`, `-2` ..., counted as github-slugger does."""
    used: dict[str, int] = {}
    anchors: dict[int, str] = {}
    for heading in sorted(headings, key=lambda heading: heading.level == PART_LEVEL):  # a link means no part
        base = anchor = heading.anchor_id or github_slug(heading.title) or "section"
        while anchor in used:
            used[base] += 1
            anchor = f"{base}-{used[base]}"
        used[anchor] = 0
        anchors[heading.line] = anchor
    return anchors


MAX_SECTION_CHARS = 20_000  # ten pages; a text with headings hardly ever has as much below one
PART_CHARS = 3_000  # a page and a half, about as much as is asked for in one question
MAX_TITLE_CHARS = 60


def find_headings(blocks: Iterable[Block]) -> list[Heading]:
    """Return the headings among the outermost blocks of a document: not those inside a list, a quote or a note."""
    return [
        Heading(int(block.info), block.texts[0].line, block.content, block.first)
        for block in blocks
        if block.kind is BlockKind.HEADING
    ]


def divide(blocks: Sequence[Block], lines: Sequence[str], first: int) -> Iterator[Heading]:
    """Yield a heading for each further part of the own text of a section or file, if that is long.

    The section keeps what comes before the first of them. A part begins with a block; within a paragraph or a list
    that is longer than two parts, with a line or an item.

    Args:
        blocks: of the text.
        lines: of the text, with their ends.
        first: the line of the file that it begins with.
    """
    starts = [*accumulate(map(len, lines), initial=0)]  # in characters; at last where the text ends
    if starts[-1] <= MAX_SECTION_CHARS:
        return
    # Rather a last part that is up to half as long again than one of a few lines.
    cuts = [first]
    for line in _find_beginnings(blocks, starts, first):
        length, left = starts[line - first] - starts[cuts[-1] - first], starts[-1] - starts[line - first]
        if length >= PART_CHARS and left >= PART_CHARS / 2:
            cuts.append(line)
    parts = cut_blocks(blocks, [*cuts, first + len(lines)])
    for line, part in zip(cuts[1:], parts[1:], strict=True):
        yield Heading(PART_LEVEL, first_words(part), "", line)


def first_words(blocks: Sequence[Block]) -> str:
    """Return what a part is called.

    >>> from pageindex.blocks import read_blocks
    >>> first_words(read_blocks("It rains.")), first_words(read_blocks("The keeper writes down each ship. " * 3))
    ('It rains…', 'The keeper writes down each ship. The keeper writes down…')
    >>> len(first_words(read_blocks("x" * 60))), len(first_words(read_blocks("x" * 59)))
    (60, 60)
    """
    words = summarize(read_units(blocks))[: 2 * MAX_TITLE_CHARS]
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
    r"""Return the blocks of each part of a document; a list or paragraph that goes on in the next part is cut.

    Args:
        blocks: the outermost ones, in the order of lines.
        firsts: the first line of each part, and the line behind the last.

    >>> from pageindex.blocks import read_blocks
    >>> parts = cut_blocks(read_blocks("one\ntwo\nthree\nfour\n\n- a\n- b\n- c\n"), [1, 3, 4, 7, 9])
    >>> [[(block.first, block.last) for block in part] for part in parts]
    [[(1, 2)], [(3, 3)], [(4, 4), (6, 6)], [(7, 8)]]
    >>> [part[0].texts[0].line for part in parts[:3]], [len(part[-1].blocks) for part in parts[2:]]
    (['one two', 'three', 'four'], [1, 2])
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
