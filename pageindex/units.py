"""A section's text as units: what a person would point at as the answer.

A unit is a paragraph, an item of a list, a row of a table, a definition, a `Default:`-like line, a block of code with
the paragraph that introduces it, a quoted block, or a property of the front matter. Each knows its lines, its plain
text, what it has to be read below (the sentence that introduces a list, the header of a table), and the term that it
defines or the key that it sets. A list is also one unit as a whole, for questions that ask for all of it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise, zip_longest
from textwrap import dedent

from pageindex.markdown import (
    ATTRIBUTES,
    MAX_INLINE_CHARS,
    TAB,
    Block,
    BlockKind,
    drop_notation,
    fence_after,
    read_blocks,
)
from pageindex.node import Node, NodeKind, Span
from pageindex.plain_text import CELL, as_label, join_cells, plain_text, read_lines, split_row

MAX_TERM_WORDS = 6
LONG_BLOCK = 20  # lines: longer code and items are cut, and of a longer `<details>` its summary is a unit by itself
JOINT = "; "  # between two items of a whole list

_SIGN = r"(?:[ \t]+[\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]+(?=[ \t]))?"  # before the words: `- \u2705 Fast`
_ITEM = re.compile(rf"\A[ \t>]*(?:[-*+]|\d{{1,9}}[.)])(?=[ \t]|$){_SIGN}")
_CONTENTS = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[[^\[\]\n]{1,300}\]\(#[^()\s]{1,300}\)[ \t]*$")
_IMAGE = re.compile(rf"!\[[^\[\]]{{0,999}}+\](?:\([^()\n]{{0,999}}+\)|\[[^\[\]]{{0,999}}+\])?+(?:{ATTRIBUTES})?")
_EMPTY_LINK = re.compile(r"\[\s*\]\([^()\n]{0,999}\)")  # what is left of a badge
_INTRODUCES = re.compile(r"[:\uff1a][*_]*\s*$|\b(?:following|as follows|folgende\w*)\b", re.IGNORECASE)
# `**Options**` in a line of its own, as people write a heading that no outline shows.
_LABEL = re.compile(r"[ \t>]*\*\*(?=\S)(?:[^*\n]{1,80}(?<![\s.!])|[^*\n]{1,200}\?)\*\*[:\uff1a]?[ \t]*$")
# `**term**: text`, `**term:** text`, `**term**, text`, `[**term**](link): text`, `_term_ is`; without a mark
# `term - text`, `key: value`.
# References have a type between both: `**name** `string | null` (optional) - text`, `name {string} text`.
_MARKED_TERM = re.compile(
    r"""\[?(\*\*|__|`|\*|_)(?P<term>(?:(?!\1)[^\n]){1,80}?)
        (?: [:\uff1a]\1(?=\s|$)
          | \1(?:\]\([^()\s]*\))?
            (?: (?<=\*\*),(?=\s)
              | (?:[ ](?:`[^`\n]{1,300}`|\([^()\n]{1,60}\))){0,3}
                (?: :?[ ]?(?:[:\u2013\u2014=]|-(?=\s)) | (?<=optional\)|required\))(?=\s|$) )
              | [ ]\{[^{}\n]{1,200}\}(?=\s|$)
              | \s+(?:is|are|means|ist|sind|bedeutet)\s ) )""",
    re.VERBOSE,
)
_PLAIN_TERM = re.compile(r"(?P<term>[^\W_][^:\n.!?|,;]{0,60}?)(?::(?=\s|$)|\s[-\u2013\u2014]\s)")
_DEFINED_BELOW = re.compile(r"^[ ]{0,3}:[ \t]+(?=\S)")
_FIELD = re.compile(r"(?P<term>[\w][\w .-]{0,60}?)[ \t]*[:=][ \t]*(?P<value>.*)$")
_INTRODUCED = (BlockKind.LIST, BlockKind.TABLE, BlockKind.CODE)
# What another program puts a file in place of: mdBook inside of code.
_INCLUDE = re.compile(r"[ \t]*\{\{#[^{}\n]{0,300}\}\}[ \t]*$")
_HTML_ROW = re.compile(r"[ \t]*(?:<table\b[^<>]{0,300}>[ \t]*)?<tr\b", re.IGNORECASE)
_HTML_CELL = re.compile(r"<t[dh]\b[^<>]{0,300}>", re.IGNORECASE)
_TAG = re.compile(r"[ \t>]*<[A-Z][\w.]{0,60}[ \t]*$")
# Data: YAML, JSON, what such a tag of MDX is given in lines of their own, and a part of it by itself.
_DATA = re.compile(
    r"""[ \t>]*(?:[`~]{3,}[ \t]*(?i:ya?ml|json) | [{}\[\]][,{}\[\]]*[ \t]*$ | ["']?\w{1,60}["']?:[ \t])""",
    re.VERBOSE,
)
_DATA_ENDS = re.compile(r"[ \t]*[\])}>/`~,;]+[ \t]*$")
_DATA_COMMENT = re.compile(r"[ \t]*(?:#|//)")
_FOLD, _FOLD_END = (re.compile(tag, re.IGNORECASE) for tag in (r"\s*<details\b", r".*</details>\s*$"))
_NO_TEXT = re.compile(r"\s*<(?:!--|script|style)", re.IGNORECASE)
_MARKER_LINE = re.compile(r"[ \t>]*(?:/{3,}|:{3,}|!{3}|\?{3})[^\n]{0,200}$")


class UnitKind(Enum):
    """What a unit is, as questions ask for it."""

    PARAGRAPH = "paragraph"
    ITEM = "item"
    LIST = "list"  # all items of a list, or all rows of a table, with what introduces them
    ROW = "row"
    DEFINITION = "definition"  # a term and what it means
    PROPERTY = "property"  # `Default: on`: a key and its value
    CODE = "code"
    QUOTE = "quote"
    FIELD = "field"  # of the front matter


@dataclass(frozen=True, slots=True)
class Unit:
    """What a person would point at."""

    kind: UnitKind
    span: Span
    """Its lines in the file; of code, with the paragraph that introduces it."""
    text: str
    """As a page shows it, on one line."""
    lead: str = ""
    """What it is read below, as plain text: what introduces a list, the item above an inner one, a table's header."""
    term: str = ""
    """What it defines, or the key that it sets; empty where it does neither."""

    @property
    def in_full(self) -> str:
        """Return the text below its lead."""
        return f"{self.lead} {self.text}" if self.lead else self.text


@dataclass(frozen=True, slots=True)
class UnitBlock:
    """A block of a section with what it is read below."""

    kind: BlockKind
    span: Span
    lines: Sequence[str]
    text: str
    """As a page shows them, on one line."""
    begin: int
    """The first line of the paragraph that introduces it; its own where none does."""
    lead: str = ""
    """That paragraph, as plain text; for code, the paragraph before it in any case."""
    term: str = ""
    """The marked term that this paragraph begins with."""


def split_units(node: Node) -> tuple[Unit, ...]:
    """Return the units of a node's own text in the order of lines; a whole list stands before its items.

    The heading is in none, nor is what a page does not show: comments, definitions of links, the marks of callouts.
    """
    if node.span is None:
        return ()
    own = split_text(node.body, node.span.first + node.front_matter_lines)
    return (*read_properties(node), *own)


def split_text(text: str, first: int, *, cuts_items: bool = True) -> list[Unit]:
    """Return the units of Markdown that begins in the line `first` of its file.

    A long item of a list is cut into its blocks if `cuts_items`; those inside of it are not: somebody may nest a
    thousand.
    """
    units: list[Unit] = []
    lines = text.split("\n")
    for block in read_unit_blocks(text, first):
        match block.kind:
            case BlockKind.PARAGRAPH if _TAG.match(block.lines[0]) and len(block.lines) > 1:
                units += _read_code(block)
            case BlockKind.PARAGRAPH:
                units += _read_paragraph(block)
            case BlockKind.LIST:
                units += _read_list(block, cuts_items=cuts_items)
            case BlockKind.TABLE:
                units += _read_table(block)
            case BlockKind.CODE:
                units += _read_code(block)
            case BlockKind.OTHER:
                begin = block.span.first - first
                block = _unfold(block, lines[begin : begin + LONG_BLOCK])
                is_quote = block.lines[0].lstrip().startswith(">")
                kind, span = UnitKind.QUOTE if is_quote else UnitKind.PARAGRAPH, Span(block.begin, block.span.last)
                units += _make(kind, span, block.text, block.lead)
    return units


def read_unit_blocks(text: str, first: int) -> Iterator[UnitBlock]:
    """Yield the blocks of a text that a page shows, but for headings, each with what introduces it.

    A paragraph that ends with a colon introduces the list, table or code behind it, a label any block. With code it is
    one block.
    """
    introduction: UnitBlock | None = None
    above, is_label = "", False
    for marked, lines in _part_introductions(_cut_blocks(text, first)):
        shown, span = plain_text(lines), Span(marked.line, marked.line + len(lines) - 1)
        if not shown and marked.kind is not BlockKind.HEADING:
            continue
        block = UnitBlock(marked.kind, span, lines, shown, marked.line)
        is_tab = TAB.match(lines[-1]) is not None
        if introduction and is_tab:
            block = replace(block, begin=introduction.begin, text=f"{above} {shown}")
        elif introduction and (block.kind is BlockKind.HEADING or not (is_label or block.kind is BlockKind.CODE)):
            yield introduction
        if introduction and (block.kind in _INTRODUCED or is_label):
            block = replace(block, begin=introduction.begin, lead=above, term=_find_marked_term(introduction.lines[0]))
        elif block.kind is BlockKind.CODE:
            block = replace(block, lead=above)
        introduction = None
        above = block.text if block.kind is BlockKind.PARAGRAPH else ""
        is_bold = len(lines) == 1 and _LABEL.match(lines[0]) is not None
        above = as_label(above).strip() if is_bold else above
        is_label = is_tab or is_bold  # which answers nothing itself
        if above and (is_label or _INTRODUCES.search(block.lines[-1])):
            introduction = block
        elif block.kind is not BlockKind.HEADING:
            yield block
    if introduction:
        yield introduction


def _cut_blocks(text: str, first: int) -> Iterator[tuple[Block, list[str]]]:
    """Yield the blocks of a text, with their lines, but for comments and the marks of callouts."""
    lines = drop_notation(text).split("\n")
    blocks = read_blocks(text, first)
    starts = [block.line - first for block in blocks]
    for block, (start, end) in zip(blocks, pairwise([*starts, len(lines)]), strict=True):
        own = lines[start : _end_of_text(lines, start, end)]
        row = next((number for number, line in enumerate(own) if _HTML_ROW.match(line)), None)
        if row is not None and block.kind is BlockKind.OTHER:
            if row:
                yield block, own[:row]
            block, own = Block(BlockKind.TABLE, block.line + row), own[row:]
        is_mark = len(own) == 1 and _MARKER_LINE.match(own[0])
        if not (is_mark or _NO_TEXT.match(own[0])):
            yield block, own


def _part_introductions(blocks: Iterable[tuple[Block, list[str]]]) -> Iterator[tuple[Block, list[str]]]:
    """Yield blocks, a list's last item by itself where it introduces what stands behind the list.

    So many write steps (`1. Install it:`) and properties (`- **Type:**`), whose code or list they do not indent.
    """
    for (block, lines), (behind, following) in pairwise([*blocks, (Block(BlockKind.OTHER, 0), [""])]):
        is_introduced = behind.kind in _INTRODUCED or TAB.match(following[0])
        if block.kind is BlockKind.LIST and is_introduced and _INTRODUCES.search(lines[-1]):
            start = _cut_items(lines)[-1][0]
            if start:
                yield block, lines[: _end_of_text(lines, 0, start)]
            block, lines = Block(BlockKind.PARAGRAPH, block.line + start), lines[start:]
        yield block, lines


def _read_paragraph(block: UnitBlock) -> Iterator[Unit]:
    """Yield a paragraph; as a definition, if it begins with a marked term or is a term above `: text`.

    Where each line begins with one (`**Type:** int`, `**Default:** 80`), they are properties.
    """
    lines = block.lines
    if len(lines) > 1 and all(_MARKED_TERM.match(line.strip()) for line in lines):
        for number, line in enumerate(lines):
            span = Span(block.span.first + number if number else block.begin, block.span.first + number)
            yield from _make(UnitKind.PROPERTY, span, plain_text([line]), block.lead, find_term(line.strip()))
        return
    term = _find_marked_term(lines[0])
    if len(lines) > 1 and _DEFINED_BELOW.match(lines[1]):
        term = plain_text(lines[:1])
        meaning = plain_text([_DEFINED_BELOW.sub("", line, count=1) for line in lines[1:]])
        block = replace(block, text=f"{term}{'' if term.endswith(('?', '!', ':')) else ':'} {meaning}")
    kind, span = UnitKind.DEFINITION if term else UnitKind.PARAGRAPH, Span(block.begin, block.span.last)
    yield from _make(kind, span, block.text, block.lead, term)


def _unfold(block: UnitBlock, lines: Sequence[str]) -> UnitBlock:
    """Return all of a short `<details>` for the block that begins it, of which a blank line ends the HTML.

    Args:
        block: which is returned as it is where it begins none.
        lines: of the text, LONG_BLOCK from the block's first on.
    """
    if not _FOLD.match(lines[0]):
        return block
    count = next((number for number, line in enumerate(lines, start=1) if _FOLD_END.match(line)), 0)
    if count <= len(block.lines):
        return block
    span = Span(block.span.first, block.span.first + count - 1)
    return replace(block, span=span, lines=lines[:count], text=plain_text(lines[:count]))


def _read_code(block: UnitBlock) -> Iterator[Unit]:
    """Yield code with the paragraph that introduces it, without lines that stand for another file.

    Of long code, what stands between blank lines is a unit of its own: a setting with its comment, a function.
    """
    is_fenced = fence_after("", block.lines[0]) != ""
    parts = _cut_code(block.lines) if len(block.lines) > LONG_BLOCK else [(0, len(block.lines))]
    for start, end in parts:
        kept = [line for line in block.lines[start:end] if not _INCLUDE.match(line)]
        begin = block.span.first + start if start else block.begin
        if start or not is_fenced:
            kept = [block.lines[0] if is_fenced else "```", *kept]
        text = plain_text(kept)
        lead, term = ("", "") if start else (block.lead, block.term)
        yield from _make(UnitKind.CODE, Span(begin, block.span.first + end - 1), text, lead, term)


def _cut_code(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return where the parts of code begin and end: blank lines part them, but within a function, a tag or a list.

    There the next line is indented. Data is indented as well: there each blank line counts, and what is still long is
    cut into its entries.
    """
    is_data = bool(_TAG.match(lines[0]) or _DATA.match(lines[0]))
    margin = _indentation(lines[0])
    starts = [0]
    for number, (before, line) in enumerate(pairwise(lines), start=1):
        if line.strip() and not before.strip() and (is_data or _indentation(line) <= margin):
            starts.append(number)
    parts = list(pairwise([*starts, len(lines)]))
    if is_data:
        parts = [entry for start, end in parts for entry in _cut_data(lines, start, end)]
    return [(start, _end_of_text(lines, start, end)) for start, end in parts]


def _cut_data(lines: Sequence[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of data: its outermost entries, each with the comment above it; of a long one its inner ones."""
    pending = [(start, end)]
    while pending:
        start, end = pending.pop()
        places = [n for n in range(start + 1, end) if lines[n].strip() and not _DATA_ENDS.match(lines[n])]
        depths = Counter(_indentation(lines[place]) for place in places)
        depth = min((depth for depth, count in depths.items() if count > 1), default=None)
        entries = [
            place
            for place in places
            if _indentation(lines[place]) == depth and not _DATA_COMMENT.match(lines[place - 1])
        ]
        if end - start > LONG_BLOCK and len(entries) > 1:
            # The first stays with the key that opens the data, and not with a tag, whose name says nothing.
            first = entries[0] if _TAG.match(lines[start]) else start
            pending += reversed([*pairwise([first, *entries[1:], end])])
        else:
            yield start, end


def _indentation(line: str) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip())


def _end_of_text(lines: Sequence[str], start: int, end: int) -> int:
    """Return the end of the lines from `start` on without blank ones before it."""
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return end


def read_prose(text: str) -> Iterator[str]:
    """Yield each paragraph, item and quote of a text as inline Markdown, without pictures and what no page shows."""
    for block, lines in _cut_blocks(text, 1):
        parts = [(0, len(lines))] if block.kind in (BlockKind.PARAGRAPH, BlockKind.OTHER) else []
        for start, end in _cut_items(lines) if block.kind is BlockKind.LIST else parts:
            markdown = "\n".join(lines[start:end])[:MAX_INLINE_CHARS]
            markdown = _EMPTY_LINK.sub("", _IMAGE.sub("", markdown))
            yield "\n".join(line for line, is_code in read_lines(markdown) if not is_code)


def _cut_items(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return where each item of a list begins and ends, inner ones among them."""
    starts, fence = [0], ""
    for number, line in enumerate(lines):
        fence = fence_after(fence, line)
        if number and not fence and _ITEM.match(line):
            starts.append(number)
    return list(pairwise([*starts, len(lines)]))


def _count_inside(lines: Sequence[str], parts: Sequence[tuple[int, int]], place: int) -> int:
    """Return how many items behind one stand inside of it; 0 where together they are longer than LONG_BLOCK."""
    first = parts[place][0]
    for count, (start, end) in enumerate(parts[place + 1 : place + LONG_BLOCK + 2]):
        if _indentation(lines[start]) <= _indentation(lines[first]):
            return count
        if end - first > LONG_BLOCK:
            return 0
    return len(parts) - place - 1


def _read_list(block: UnitBlock, *, cuts_items: bool) -> Iterator[Unit]:
    """Yield a list as a whole, then its items, a long one block by block; an inner item is read below the outer one."""
    lines, top = block.lines, block.span.first
    parts = _cut_items(lines)
    if len(parts) > 2 and not block.lead and all(map(_CONTENTS.match, filter(str.strip, lines))):
        return
    texts = [plain_text(lines[start:end]) for start, end in parts]
    if len(parts) > 1:
        yield from _make(UnitKind.LIST, Span(block.begin, block.span.last), JOINT.join(filter(None, texts)), block.lead)
    outer: list[tuple[int, str]] = []  # (indentation, text) of the items that an inner one stands in
    for place, ((start, end), text) in enumerate(zip(parts, texts, strict=True)):
        # `Default:` says nothing without the items inside of it.
        count = _count_inside(lines, parts, place) if _INTRODUCES.search(text) else 0
        shown = JOINT.join(filter(None, texts[place + 1 : place + 1 + count]))
        end = _end_of_text(lines, start, parts[place + count][1])
        indentation = _indentation(lines[start])
        while outer and outer[-1][0] >= indentation:
            outer.pop()
        item = _ITEM.sub("", lines[start]).strip()
        term = find_term(item)
        kind = UnitKind.DEFINITION if _MARKED_TERM.match(item) else UnitKind.PROPERTY
        lead = " ".join(filter(None, [block.lead, *(above for _, above in outer)]))
        first = top + start if len(parts) > 1 else block.begin
        if cuts_items and end - start > LONG_BLOCK:
            text = plain_text([item])
            inside = "\n".join([item, dedent("\n".join(lines[start + 1 : end]))])
            for unit in split_text(inside, top + start, cuts_items=False):
                above = unit.lead or (text if unit.text != text else "")
                yield replace(unit, lead=f"{lead} {above}".strip())
        else:
            whole = f"{text} {shown}".rstrip()
            yield from _make(kind if term else UnitKind.ITEM, Span(first, top + end - 1), whole, lead, term)
        outer.append((indentation, text))


def _read_table(block: UnitBlock) -> Iterator[Unit]:
    """Yield a table as a whole, then its rows, each below the names of the cells that it has; the first is its term.

    The cells of a single row are properties, too, with the columns as keys: `| Default | Type |` above `| 80 | int |`.
    """
    names, numbered = _read_rows(block)
    rows = [cells for _, cells in numbered]
    header = join_cells(names)
    if len(rows) > 1:
        lead = f"{block.lead} {header}".strip()
        whole = JOINT.join(filter(None, map(join_cells, rows))).replace(f":{CELL}", ": ")
        yield from _make(UnitKind.LIST, Span(block.begin, block.span.last), whole, lead)
    for span, cells in numbered:
        held = [(name, cell) for name, cell in zip_longest(names, cells, fillvalue="") if cell]
        lead = CELL.join(name for name, _ in held) if len(held) > 1 and header else header
        is_term = len(held) > 1 and len(cells[0].split()) <= MAX_TERM_WORDS
        text = CELL.join(cell for _, cell in held) if header else join_cells(cells).replace(f":{CELL}", ": ")
        for name, cell in held if len(rows) == 1 < len(held) else ():
            if name:
                yield Unit(UnitKind.PROPERTY, span, f"{name}: {cell}", block.lead, name)
        yield from _make(UnitKind.ROW, span, text, lead, cells[0] if is_term else "")


def _read_rows(block: UnitBlock) -> tuple[list[str], list[tuple[Span, list[str]]]]:
    """Return the names of a table's columns, and the rows with their lines.

    In HTML the first cell may go over several rows (`rowspan`): a shorter row begins with those of the row above.
    """
    lines, top = block.lines, block.span.first
    starts = [number for number, line in enumerate(lines) if _HTML_ROW.match(line)]
    if not starts:
        numbered = enumerate(lines[2:], start=top + 2)
        return split_row(lines[0]), [(Span(number, number), split_row(line)) for number, line in numbered]
    rows: list[tuple[Span, list[str]]] = []
    for start, end in pairwise([*starts, len(lines)]):
        cells = [plain_text(cell.split("\n")) for cell in _HTML_CELL.split("\n".join(lines[start:end]))[1:]]
        above = rows[-1][1][: max(0, len(rows[0][1]) - len(cells))] if rows else []
        rows.append((Span(top + start, top + end - 1), [*above, *cells]))
    has_names = any("<th" in line.lower() for line in lines[: len(rows[0][0])])
    return (rows[0][1], rows[1:]) if has_names else ([], rows)


def find_term(text: str) -> str:
    """Return the term that a line of Markdown begins with and then explains, as plain text; empty where it has none.

    >>> find_term("**snapshot**: the files of one run")
    'snapshot'
    >>> find_term("Default: on")
    'Default'
    """
    found = _MARKED_TERM.match(text) or _PLAIN_TERM.match(text)
    term = plain_text([found["term"]]).strip(" :*_`") if found else ""
    return term if len(term.split()) <= MAX_TERM_WORDS else ""


def _find_marked_term(line: str) -> str:
    text = _ITEM.sub("", line).strip()
    return find_term(text) if _MARKED_TERM.match(text) else ""


def find_term_of_line(line: str) -> str:
    """Do as `find_term` for a line that may be an item of a list or a row of a table, whose first cell it is."""
    if line.lstrip().startswith("|"):
        first = split_row(line)[0]
        return first if len(first.split()) <= MAX_TERM_WORDS else ""
    return find_term(_ITEM.sub("", line).strip())


def read_properties(node: Node) -> Iterator[Unit]:
    """Yield the properties of the front matter, each with the lines of its value; no titles, which stand above all."""
    if node.kind is not NodeKind.FILE or node.front_matter_lines < 2 or node.span is None:
        return
    lines = node.text.split("\n", node.front_matter_lines)[1 : node.front_matter_lines - 1]
    starts = [number for number, line in enumerate(lines) if _FIELD.match(line)]
    for start, end in pairwise([*starts, len(lines)]):
        found = _FIELD.match(lines[start])
        if found is None:
            continue
        inner = (line.strip().removeprefix("- ") for line in lines[start + 1 : end])
        value = ", ".join(filter(None, [found["value"].strip().strip("\"'"), *inner]))
        span = Span(node.span.first + 1 + start, node.span.first + end)
        if value.strip("[]{}") and not found["term"].lower().endswith("title"):
            yield Unit(UnitKind.FIELD, span, f"{found['term']}: {value}", term=found["term"])


def _make(kind: UnitKind, span: Span, text: str, lead: str = "", term: str = "") -> Iterator[Unit]:
    """Yield the unit if a page shows anything of it."""
    if text:
        yield Unit(kind, span, text, lead if lead != text else "", term)
