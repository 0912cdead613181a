"""Where in a section the answer stands: the lines of the passage that matched, and its sentence that answers.

A passage is what a person would point at: a paragraph with what it introduces, an item of a list, a row of a table. It
is looked for in the chunk that matched, by the question's words, each weighed by its rarity. Where no part of the chunk
stands out, the chunk is the passage; where a section has nothing else, the section is.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from pageindex.markdown import BlockKind, fence_after, read_blocks
from pageindex.node import Node, NodeKind, Span
from retriever.lexical.tokens import TermFinder
from retriever.store.reading import StoredChunk
from retriever.text import cut, split_sentences

# Of the words that a chunk shares with the question, by their rarity: what one part of it must have to stand for it.
LEAST_SHARE = 0.5
# Chunks have some hundred characters a line; a line that is longer than this is not read for its parts.
MAX_READ_CHARS = 20_000
MAX_SENTENCE_CHARS = 300

_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")  # of a heading
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
class PassagePart:
    """A paragraph, an item of a list, a row of a table, a block of code."""

    span: Span
    last: int
    """The last line of what it introduces; its own where it introduces nothing."""

    @classmethod
    def of(cls, first: int, last: int) -> "PassagePart":
        """One that introduces nothing."""
        return cls(Span(first, last), last)


def find_passage(node: Node, chunk: StoredChunk | None, rarity: Mapping[str, float], terms: TermFinder) -> Passage:
    """The passage of a section that answers.

    Args:
        node: the section.
        chunk: what of it matched; None where it has no chunk.
        rarity: the question's words, as BM25 reads them, and what each weighs.
        terms: finds these words in texts.
    """
    assert node.span is not None, "only nodes with lines are found"
    whole = node.body_span or node.span
    if chunk is None:
        return Passage(whole, "")
    matched = chunk.span
    lines = node.text.split("\n")
    top = node.span.first

    def text_of(span: Span) -> str:
        return "\n".join(lines[span.first - top : span.last - top + 1])

    body = text_of(matched)
    if len(body) > MAX_READ_CHARS:  # a piece of a line that is a page
        return Passage(matched, find_sentence(chunk.text, rarity, terms))
    header = (
        chunk.text.split("\n", 2)[:2] if chunk.text.startswith("|") and not body.startswith(chunk.text[:80]) else []
    )
    is_code = reduce(fence_after, lines[: matched.first - top], "")
    parts = [] if is_code else list(split_parts("\n".join([*header, body]), matched.first - len(header)))
    chosen = Span(parts[0].span.first, parts[-1].span.last) if parts else matched
    weights = [weigh(text_of(part.span), rarity, terms) for part in parts]
    most = max(weights, default=0.0)
    if most and most >= LEAST_SHARE * weigh(text_of(chosen), rarity, terms):
        best = parts[weights.index(most)]
        chosen = Span(best.span.first, best.last)
    sentence = find_sentence(text_of(chosen), rarity, terms)
    heading = 0 if node.kind is NodeKind.FILE else 2 if _UNDERLINE.match(lines[1] if len(lines) > 1 else "") else 1
    above = lines[max(heading, node.front_matter_lines) : chosen.first - top]
    if not "".join([*above, *lines[chosen.last - top + 1 :]]).strip():
        chosen = whole  # it has nothing else
    return Passage(chosen, sentence)


def split_parts(body: str, first: int) -> Iterator[PassagePart]:
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
            yield PassagePart(Span(introduction.first, last) if is_one else introduction, last)
            introduction = None
            if is_one:
                continue
        if block.kind is BlockKind.PARAGRAPH and _INTRODUCES.search(lines[last - first]):
            introduction = Span(block.line, last)
        elif block.kind not in (BlockKind.HEADING, BlockKind.DEFINITIONS):
            starts = find_starts(block.kind.value, lines[block.line - first : last - first + 1])
            for start, end in pairwise([*starts, last - block.line + 1]):
                yield PassagePart.of(block.line + start, block.line + end - 1)
    if introduction is not None:
        yield PassagePart(introduction, introduction.last)


def find_starts(kind: str, lines: Sequence[str]) -> list[int]:
    """The first line of each item of a `list` or row of a `table`, counted from 0; of another block, its own."""
    if kind == "table":
        return list(range(2, len(lines))) or [0]  # below the header and its dashes
    starts, fence = [0], ""
    if kind == "list":
        for number, line in enumerate(lines):
            fence = fence_after(fence, line)
            if number and not fence and _ITEM.match(line):
                starts.append(number)
    return starts


def weigh(text: str, rarity: Mapping[str, float], terms: TermFinder) -> float:
    """The words of the question that a text has, by their rarity."""
    found = terms.find(text)
    return sum(weight for word, weight in rarity.items() if word in found)


def find_sentence(text: str, rarity: Mapping[str, float], terms: TermFinder) -> str:
    """The sentence of a passage with most of the question's words, else the line of its code or table that has."""
    lines = [line for line in text.split("\n") if line.strip("|-: \t") and not line.lstrip().startswith("#")]
    for pieces in (split_sentences(text), lines):
        weights = [weigh(piece, rarity, terms) for piece in pieces]
        if any(weights):
            return cut(_ROW.sub(" | ", pieces[weights.index(max(weights))].strip("| \t")), MAX_SENTENCE_CHARS)
    return ""
