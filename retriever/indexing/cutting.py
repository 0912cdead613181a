"""The blocks of a node's text (paragraphs, lists, tables, code), and where one may be cut that is too long; pure."""

import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token


class BlockKind(Enum):
    """What decides where a block may be cut."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    CODE = "code"
    TABLE = "table"
    DEFINITIONS = "definitions"
    """Where the links of the text lead (`[label]: target`): no page shows them."""
    OTHER = "other"
    """Quotes, HTML, rules."""


@dataclass(frozen=True, slots=True)
class Block:
    """A run of a text's characters: a Markdown block with the blank lines after it, or a part of one."""

    start: int
    """Its first character, counted from 0."""
    end: int
    """Behind its last character."""
    kind: BlockKind
    header: tuple[int, int] | None = None
    """From where to where the header of the table stands that this is a later part of."""


def blocks(text: str) -> list[Block]:
    """The top-level blocks, in order; what is in none of them is blank.

    Of the parser, only the lines are believed that a block begins and ends on: so what it drops inside (whatever is
    nested deeper than 20) or has no token for (definitions of links) is kept.
    """
    lines = text.split("\n")
    begins: list[tuple[int, BlockKind]] = []
    done = 0
    for token in _top_level(text):
        first, last = token.map or (done, done)
        begins += _unclaimed(lines, done, first)
        begins.append((first, _KINDS.get(token.type, BlockKind.OTHER)))
        done = last
    begins += _unclaimed(lines, done, len(lines))
    starts = line_starts(text)
    ends = [line for line, _ in begins[1:]] + [len(lines)] * bool(begins)
    return [Block(starts[line], starts[end], kind) for (line, kind), end in zip(begins, ends, strict=True)]


def line_starts(text: str) -> Sequence[int]:
    """Where each line starts, in characters, and at last where the text ends."""
    starts = array("q", [0])  # a list has 40 bytes for each
    starts.extend(match.end() for match in re.finditer("\n", text))
    starts.append(len(text))
    return starts


def cut(text: str, block: Block) -> list[Block]:
    """The block in two parts or more, at the coarsest places that its kind allows.

    A list is cut at its outermost items, code at blank lines, a table at its rows, a paragraph at its sentences; what
    has no such place, at a finer one, in the end between two words or inside one.

    Raises:
        ValueError: the block is a single character.
    """
    if block.end - block.start < 2:
        raise ValueError(f"a single character cannot be cut: {text[block.start : block.end]!r}")
    inside = text[block.start : block.end]
    if block.kind is BlockKind.TABLE and not block.header and (rows := _row_starts(inside)):
        header = (block.start, block.start + rows[0])
        first, *others = _parts(block, rows[1:] or rows)
        return [first, *(replace(part, header=header) for part in others)]
    places = next(filter(None, (find(inside) for find in _PLACES[block.kind])))
    return _parts(block, places)


def _parts(block: Block, places: Sequence[int]) -> list[Block]:
    """The block, cut at these places (in characters from its start)."""
    bounds = [block.start, *(block.start + place for place in places), block.end]
    return [Block(start, end, block.kind, block.header) for start, end in pairwise(bounds)]


def _row_starts(table: str) -> list[int]:
    """Where the rows below the header and its dashes start."""
    return _matches_end(_LINE_END, table)[1:]


def _item_starts(text: str) -> list[int]:
    """Where the items of the outermost list start that has another one than that at the very beginning."""
    starts: dict[int, list[int]] = {}
    for match in _ITEM.finditer(text):
        if match.start():
            starts.setdefault(len(match[1].expandtabs(4)), []).append(match.start())
    return starts[min(starts)] if starts else []


def _after_blank_lines(text: str) -> list[int]:
    return _matches_end(_BLANK_LINES, text)


def _after_lines(text: str) -> list[int]:
    return _matches_end(_LINE_END, text)


def _after_sentences(text: str) -> list[int]:
    return _matches_end(_SENTENCE_END, text)


def _middle(text: str) -> list[int]:
    """Behind the space that is nearest to the middle; the middle itself where there is no space."""
    middle = len(text) // 2
    before = max(text.rfind(" ", 0, middle), text.rfind("\n", 0, middle))
    after = min((place for space in " \n" if (place := text.find(space, middle)) >= 0), default=len(text))
    nearest = min(before, after, key=lambda place: abs(place - middle))
    return [nearest + 1] if 0 < nearest < len(text) - 1 else [middle]


def _matches_end(pattern: re.Pattern[str], text: str) -> list[int]:
    return [match.end() for match in pattern.finditer(text) if match.end() < len(text)]


_LINE_END = re.compile(r"\n")
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_SENTENCE_END = re.compile(r"[.!?][\"')\]*_]*\s+|[\u3002\uff01\uff1f]\s*")
_ITEM = re.compile(r"^([ \t]*)(?:[-*+]|\d{1,9}[.)])(?=[ \t]|$)", re.MULTILINE)
_PLACES: dict[BlockKind, tuple[Callable[[str], list[int]], ...]] = {
    BlockKind.HEADING: (_middle,),
    BlockKind.PARAGRAPH: (_after_sentences, _middle),
    BlockKind.LIST: (_item_starts, _after_blank_lines, _after_lines, _after_sentences, _middle),
    BlockKind.CODE: (_after_blank_lines, _after_lines, _middle),
    BlockKind.TABLE: (_after_sentences, _middle),
    BlockKind.DEFINITIONS: (_after_lines, _middle),
    BlockKind.OTHER: (_after_blank_lines, _after_lines, _after_sentences, _middle),
}
_KINDS = {
    "heading_open": BlockKind.HEADING,
    "paragraph_open": BlockKind.PARAGRAPH,
    "bullet_list_open": BlockKind.LIST,
    "ordered_list_open": BlockKind.LIST,
    "fence": BlockKind.CODE,
    "code_block": BlockKind.CODE,
    "table_open": BlockKind.TABLE,
}


def _unclaimed(lines: Sequence[str], first: int, end: int) -> list[tuple[int, BlockKind]]:
    """A block for lines that are in no token, from the first that is not blank; none when all of them are."""
    line = next((number for number in range(first, end) if lines[number].strip()), None)
    if line is None:
        return []
    are_hidden = all(map(_is_hidden, filter(str.strip, lines[line:end])))
    return [(line, BlockKind.DEFINITIONS if are_hidden else BlockKind.OTHER)]


def _is_hidden(line: str) -> bool:
    """Whether a line outside of all tokens is shown nowhere; a footnote of one word is a definition to CommonMark."""
    return line.lstrip().startswith("[") and not line.lstrip().startswith("[^")


def _top_level(text: str) -> list["Token"]:
    # A carriage return ends a line for the parser, and would shift its line numbers against ours.
    state = _top_level_state()(text.replace("\r", " "), _parser(), {}, [])
    state.md.block.tokenize(state, 0, state.lineMax)
    return [token for token in state.tokens if token.map]


@cache
def _top_level_state() -> "type[StateBlock]":
    """The parser's state, keeping the tokens that open a top-level block alone: a table has three for each cell."""
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

    class TopLevel(StateBlock):
        def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
            """Give the rule a token to fill in."""
            self.level -= nesting < 0
            token = Token(ttype, tag, nesting)
            if self.level == 0 and nesting >= 0:
                self.tokens.append(token)
            self.level += nesting > 0
            return token

    return TopLevel


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # 40 ms: not needed by --help, which reads the settings of chunking
    from markdown_it.rules_block import list_block

    from pageindex.blocks import plain_items_at_once

    parser = MarkdownIt("commonmark").enable("table")
    parser.block.ruler.at("list", plain_items_at_once(list_block), {"alt": ["paragraph", "reference", "blockquote"]})
    return parser
