"""Where in a section the answer stands: the lines of the passage that matched, and its sentence that answers.

A passage is what a person would point at: a paragraph with what it introduces, an item of a list, a row of a table. It
is looked for in the chunk that matched, by the question's words, each weighed by its rarity. Where no part of the chunk
stands out, the chunk is the passage; where a section has nothing else, the section is.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pageindex.markdown import BlockKind, read_blocks
from pageindex.node import Node, Span
from retriever.lexical.tokens import tokenize
from retriever.store.reading import StoredChunk
from retriever.text import cut, split_sentences

# Of the words that a chunk shares with the question, by their rarity: what one part of it must have to stand for it.
LEAST_SHARE = 0.5
# Of a longer section only the chunk is read for its parts: markdown-it reads 8 MB a second.
MAX_READ_CHARS = 20_000
MAX_SENTENCE_CHARS = 300

_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_FENCE = re.compile(r"[ \t>]*(?:`{3}|~{3})")
_ROW = re.compile(r"\s*\|\s*")
_INTRODUCES = re.compile(r"[:\uff1a][*_]*\s*$")


@dataclass(frozen=True, slots=True)
class Passage:
    """What of a section is cited."""

    span: Span
    """Its lines in the file, as it was indexed."""
    sentence: str
    """The sentence of it with most of the question's words, as plain text; empty where it has none of them."""


@dataclass(frozen=True, slots=True)
class Part:
    """A paragraph, an item of a list, a row of a table, a block of code."""

    span: Span
    last: int
    """The last line of what it introduces; its own where it introduces nothing."""

    @classmethod
    def of(cls, first: int, last: int) -> "Part":
        """One that introduces nothing."""
        return cls(Span(first, last), last)

    def clip(self, to: Span) -> "Part":
        """What of it is within these lines, some of which it has."""
        return Part(Span(max(self.span.first, to.first), min(self.span.last, to.last)), min(self.last, to.last))


def find_passage(node: Node, chunk: StoredChunk | None, rarity: Mapping[str, float]) -> Passage:
    """The passage of a section that answers.

    Args:
        node: the section.
        chunk: what of it matched; None where it has no chunk.
        rarity: the question's words, as BM25 reads them, and what each weighs.
    """
    assert node.span is not None, "only nodes with lines are found"
    if chunk is None:
        return Passage(node.span, "")
    matched = chunk.span
    lines = node.text.split("\n")
    top = node.span.first

    def text_of(span: Span) -> str:
        return "\n".join(lines[span.first - top : span.last - top + 1])

    if len(text_of(matched)) > MAX_READ_CHARS:  # a piece of a line that is a page
        return Passage(matched, find_sentence(chunk.text, rarity))
    if is_read := len(node.text) <= MAX_READ_CHARS:
        parts = list(split_parts(node.body, top + node.front_matter_lines))
    else:
        parts = list(split_parts(text_of(matched), matched.first))
    inside = [part.clip(matched) for part in parts if part.span.overlap(matched)]
    if not inside:
        return Passage(matched, "")
    chosen = Span(inside[0].span.first, inside[-1].span.last)
    weights = [weigh(text_of(part.span), rarity) for part in inside]
    most = max(weights)
    if most and most >= LEAST_SHARE * weigh(text_of(chosen), rarity):
        best = inside[weights.index(most)]
        chosen = Span(best.span.first, best.last)
    sentence = find_sentence(text_of(chosen), rarity)
    if is_read and chosen.first <= parts[0].span.first and chosen.last >= parts[-1].span.last:
        chosen = node.span  # it has nothing else
    return Passage(chosen, sentence)


def split_parts(body: str, first: int) -> Iterator[Part]:
    """The parts of a text that begins in the line `first` of its file; headings and definitions of links are in none.

    A paragraph that ends with a colon introduces the list or table that follows it, and is one part with code.
    """
    lines = body.split("\n")
    blocks = read_blocks(body, first)
    introduction: Span | None = None
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        last = after.line - 1 if after else first + len(lines) - 1
        while last > block.line and not lines[last - first].strip():
            last -= 1
        if introduction is not None:
            is_one = block.kind is BlockKind.CODE
            yield Part(Span(introduction.first, last) if is_one else introduction, last)
            introduction = None
            if is_one:
                continue
        if block.kind is BlockKind.PARAGRAPH and _INTRODUCES.search(lines[last - first]):
            introduction = Span(block.line, last)
        elif block.kind not in (BlockKind.HEADING, BlockKind.DEFINITIONS):
            starts = find_starts(block.kind, lines[block.line - first : last - first + 1])
            for start, end in pairwise([*starts, last - block.line + 1]):
                yield Part.of(block.line + start, block.line + end - 1)
    if introduction is not None:
        yield Part(introduction, introduction.last)


def find_starts(kind: BlockKind, lines: Sequence[str]) -> list[int]:
    """The first line of each item of a list or row of a table, counted from 0; of another block, its own."""
    if kind is BlockKind.TABLE:
        return list(range(2, len(lines))) or [0]  # below the header and its dashes
    starts, in_code = [0], False
    if kind is BlockKind.LIST:
        for number, line in enumerate(lines):
            in_code ^= bool(_FENCE.match(line))
            if number and not in_code and _ITEM.match(line):
                starts.append(number)
    return starts


def weigh(text: str, rarity: Mapping[str, float]) -> float:
    """The words of the question that a text has, by their rarity."""
    found = set(tokenize(text))
    return sum(weight for word, weight in rarity.items() if word in found)


def find_sentence(text: str, rarity: Mapping[str, float]) -> str:
    """The sentence of a passage with most of the question's words, else the line of its code or table that has."""
    lines = [line for line in text.split("\n") if line.strip("|-: \t") and not line.lstrip().startswith("#")]
    for pieces in (split_sentences(text), lines):
        weights = [weigh(piece, rarity) for piece in pieces]
        if any(weights):
            return cut(_ROW.sub(" | ", pieces[weights.index(max(weights))].strip("| \t")), MAX_SENTENCE_CHARS)
    return ""
