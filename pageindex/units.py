"""A section's text as units: what a person would point at as the answer.

A unit is a paragraph, an item of a list, a row of a table, a definition, a `Default:`-like line, a block of code with
the paragraph that introduces it, a quoted block, or a property of the front matter. Each knows its lines, its plain
text, what it has to be read below (the sentence that introduces a list, the header of a table), and the term that it
defines or the key that it sets. A list is also one unit as a whole, for questions that ask for all of it. What is
longer than a person reads at a glance is cut at its sentences.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise, takewhile, zip_longest

from pageindex.blocks import CODE, Block, BlockKind, Inline, show_html
from pageindex.front_matter import FrontMatter
from pageindex.node import JOINT, MAX_LEAD_CHARS, MAX_TERM_WORDS, MAX_UNIT_CHARS, Unit, UnitKind
from pageindex.text import CELL, Span, as_label, cut_text, join_cells, split_sentences

PART_CHARS = 400  # of the parts of a longer one
LONG_BLOCK = 20  # lines: longer code, items and quotes are cut


@dataclass(frozen=True, slots=True)
class _Lead:
    """The text before the next block, which that may be read below."""

    line: int
    text: str
    is_label: bool = False
    """Whether it says nothing by itself: `**Options**`, the title of a tab."""
    introduces: bool = False
    """Whether it says that something follows; see `introduces`."""
    units: tuple[Unit, ...] = ()
    """Those of the paragraph that it is, which are its own unless the next block has them."""


def read_units(blocks: Sequence[Block], lead: _Lead | None = None) -> Iterator[Unit]:
    """Yield the units of neighboring blocks in the order of lines; a whole list stands before its items.

    Headings are in none, nor is what a page does not show. A list, table or code is read below the paragraph before it,
    a quote below one that introduces it, any block below a label. Code is one unit with what introduces it.
    """
    item = ""  # the last one of a list, which code is read below, and a list that it introduces
    for block in gather_items(blocks):
        is_titled = block.kind in (BlockKind.CONTAINER, BlockKind.COMPONENT) and block.content != "text"
        text = "" if is_titled else show_block(block)
        if not (text or is_titled or block.kind in _REPLACED):
            # Pictures: each is found by its words, and introduces nothing.
            for span, shown in ((inner.span, text) for inner in block.walk() for text in inner.texts):
                if lead and not lead.is_label:
                    yield from lead.units
                    lead = None
                yield from _make(UnitKind.PARAGRAPH, span, shown.line, linked=shown.linked)
            continue
        begun = block.kind is BlockKind.HEADING or (block.kind is BlockKind.PARAGRAPH and is_label(block.texts[0]))
        if lead and lead.units and _stands_alone(lead, block, text, begun):
            yield from lead.units
            lead = replace(lead, units=()) if text and not begun else None
        if is_titled:
            lead, item = _add_title(lead, block), ""
            if block.blocks:
                yield from read_units(block.blocks, lead)
                lead = None
            continue
        own, lead = _find_lead(lead, block, item), None
        # So many write steps (`1. Install it:`), whose code and lists they do not indent.
        item = show_block(block.blocks[-1]) if block.kind is BlockKind.LIST and block.blocks else ""
        if begun or block.kind is BlockKind.PARAGRAPH:
            term = find_marked_term(block.texts[0])
            units = tuple(_make_parts(UnitKind.DEFINITION if term else UnitKind.PARAGRAPH, block, own, term))
            above = f"{own.text} {as_label(text) if begun else text}".strip()
            lead = _Lead(own.line, above, begun, introduces(text), units)
        elif text:
            yield from _read_block(block, own)
    yield from lead.units if lead else ()  # nothing stands behind it


_REPLACED = (BlockKind.HEADING, BlockKind.CODE, BlockKind.INCLUDE)  # what they introduce may stand in another file


def _stands_alone(lead: _Lead, block: Block, text: str, begun: bool) -> bool:
    """Return whether a paragraph that introduces something is a unit beside the block behind it.

    So is a label between two others: of a page of bold lines, two at most are read together.
    """
    is_titled = block.kind in (BlockKind.CONTAINER, BlockKind.COMPONENT)
    if is_titled and not block.info:
        return block.content == "closing"
    joins = block.kind in (BlockKind.CODE, BlockKind.COMPONENT) or block.content in ("tab", "tab-item")
    is_read_with_it = lead.is_label or (lead.introduces and joins)
    return not is_read_with_it or not (text or is_titled) or (begun and bool(lead.units[0].lead))


def _find_lead(lead: _Lead | None, block: Block, item: str) -> _Lead:
    """Return what a block is read below: a label, what introduces it, or the last sentence or item before it."""
    is_code = block.kind is BlockKind.CODE
    if lead and (lead.is_label or (lead.introduces and (is_code or block.kind is BlockKind.QUOTE))):
        return lead
    if lead and block.kind in (BlockKind.LIST, BlockKind.TABLE):
        fits = len(lead.text) <= MAX_LEAD_CHARS
        line = lead.line if fits or lead.introduces else block.first
        return replace(lead, line=line, text=lead.text if fits else split_sentences(lead.text)[-1])
    above = lead.text if lead else item
    is_below = is_code or (block.kind is BlockKind.LIST and _is_colon(item))
    return _Lead(block.first, above if is_below else "", introduces=True)


def _add_title(lead: _Lead | None, block: Block) -> _Lead | None:
    """Return what introduces the blocks in or behind a container: its title, below what introduces that."""
    title = as_label(block.info).strip()
    if not title:
        return lead
    above = lead or _Lead(block.first, "")
    text = f"{above.text} {title}".strip()
    units = _make(UnitKind.PARAGRAPH, Span(above.line, above.line), text)
    return _Lead(above.line, text, is_label=True, units=tuple(units))


def show_block(block: Block) -> str:
    """Return what a page shows of a block, on one line."""
    match block.kind:
        case BlockKind.PARAGRAPH | BlockKind.HEADING | BlockKind.TERM if block.texts:
            return block.texts[0].line
        case BlockKind.ROW:
            return join_cells([cell.line for cell in block.texts])
        case BlockKind.CODE:
            return " ".join(block.content.split())
        case BlockKind.HTML:
            return show_html(block.content)
    between = JOINT if block.kind in (BlockKind.LIST, BlockKind.TABLE) else " "
    inside = between.join(filter(None, (show_block(inner).rstrip(between.strip()) for inner in block.blocks)))
    return f"{as_label(block.info)}{inside}" if inside else block.info


def _read_block(block: Block, lead: _Lead) -> Iterator[Unit]:
    """Yield the units of a block below what introduces it."""
    match block.kind:
        case BlockKind.LIST:
            yield from _read_list(block, lead)
        case BlockKind.TABLE:
            yield from _read_table(block, lead)
        case BlockKind.CODE:
            yield from _read_code(block, lead)
        case BlockKind.TERMS:
            yield from _read_terms(block, lead)
        case BlockKind.FOOTNOTE:
            yield from read_units(block.blocks, lead)
        case BlockKind.QUOTE if block.last - block.first > LONG_BLOCK:
            yield from read_units(block.blocks, _add_title(lead, block))
        case kind:
            made = UnitKind.QUOTE if kind is BlockKind.QUOTE else UnitKind.PARAGRAPH
            yield from _make_parts(made, block, lead)


def _make_parts(kind: UnitKind, block: Block, lead: _Lead, term: str = "") -> Iterator[Unit]:
    """Yield a block as one unit, or in parts where it is long, each with its own lines."""
    text = show_block(block)
    if len(text) <= MAX_UNIT_CHARS:
        yield from _make(kind, Span(lead.line, block.last), text, lead.text, term, count_linked([block]))
        return
    label = as_label(block.info)
    for inner in (inner for inner in block.walk() if not inner.blocks):
        is_code = inner.kind is BlockKind.CODE
        inside = inner.texts[0].text if inner.texts else inner.content if is_code else show_block(inner)
        place, done = inner.first + (is_code and bool(inner.info)), 0
        for start, end in cut_text(inside, PART_CHARS):
            part = inside[start:end]
            begin = start + len(part) - len(part.lstrip())
            place += inside.count("\n", done, begin)
            done = begin
            span = Span(place, place + part.strip().count("\n")) if inner.texts or is_code else inner.span
            yield from _make(kind, span, label + " ".join(part.split()), lead.text, term)
            label = term = ""


def _cut_long(text: str) -> Iterator[str]:
    """Yield a text that may be long in parts."""
    if len(text) <= MAX_UNIT_CHARS:
        yield text
    else:
        yield from (text[start:end].strip() for start, end in cut_text(text, PART_CHARS))


# Code.


def _read_code(block: Block, lead: _Lead) -> Iterator[Unit]:
    """Yield code with the paragraph that introduces it.

    Of long code, what stands between blank lines is a unit of its own: a setting with its comment, a function. A long
    line is cut where its clauses end.
    """
    lines = block.content.split("\n")
    top = block.first + bool(block.info)
    is_long = block.last - block.first >= LONG_BLOCK
    for start, end in _cut_code(lines) if is_long else [(0, len(lines))]:
        begin = top + start if start else lead.line
        last = top + end - 1 if is_long else block.last
        text = " ".join(" ".join(lines[start:end]).split())
        above = "" if start else lead.text
        is_wide = max(map(len, lines[start:end]), default=0) > MAX_UNIT_CHARS
        for part in _cut_long(text) if is_wide else [text]:
            yield from _make(UnitKind.CODE, Span(begin, last), part, above)


def _cut_code(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where the parts of code begin and end: blank lines part them, but within a function, a tag or a list.

    There the next line is indented. What is still long is cut before the last of its least indented lines.
    """
    margin = min((_indentation(line) for line in lines if line.strip()), default=0)
    starts = [0]
    for number, (before, line) in enumerate(pairwise(lines), start=1):
        if line.strip() and not before.strip() and _indentation(line) <= margin:
            starts.append(number)
    for start, end in pairwise([*starts, len(lines)]):
        while end - start > LONG_BLOCK:
            window = range(start + 1, start + LONG_BLOCK + 1)
            # More than closing signs, and not what the comment above it explains.
            begins = [
                place
                for place in window
                if lines[place].strip(" \t])}>/`~,;") and not lines[place - 1].lstrip().startswith(("#", "//"))
            ]
            cut = min(begins or window, key=lambda place: (_indentation(lines[place]), -place))
            yield start, _end_of_text(lines, start, cut)
            start = cut
        yield start, _end_of_text(lines, start, end)


def _indentation(line: str) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip())


def _end_of_text(lines: Sequence[str], start: int, end: int) -> int:
    """Return the end of the lines from `start` on without blank ones before it."""
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return end


# Lists.

# What items begin with that people write without Markdown: `b)`, `(iv)`, `3、`, a bullet, a number in a circle.
_SIGN = re.compile(
    r"^(?:[(\uff08]?(?:[^\W_]|\d{1,3}|[ivx]{1,5}|[一二三四五六七八九十]{1,3})[)\uff09]"
    r"|(?:\d{1,3}|[一二三四五六七八九十]{1,3})、|[•‣∙■□▪◆○●◦・①-⑳])",
    re.MULTILINE,
)


def gather_items(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield copies of blocks, neighboring paragraphs that begin with signs of one kind as a list."""
    copies = (replace(block, blocks=[*gather_items(block.blocks)]) for block in blocks)
    for sign, run in groupby(chain.from_iterable(map(_cut_lines, copies)), _read_sign):
        items = [*run]
        if sign and len(items) > 1:
            listed = [replace(item, kind=BlockKind.ITEM, texts=(), blocks=[item]) for item in items]
            items = [Block(BlockKind.LIST, items[0].first, items[-1].last, blocks=listed)]
        yield from items


def _cut_lines(block: Block) -> Iterator[Block]:
    """Yield a paragraph cut before each line that begins with a sign, if several do; another block as it is."""
    text = block.texts[0].text if block.texts and block.kind is BlockKind.PARAGRAPH else ""
    starts = [found.start() for found in _SIGN.finditer(text)]
    if len(starts) < 2:
        yield block
        return
    for start, end in pairwise(sorted({0, *starts, len(text)})):
        first, part = block.first + text.count("\n", 0, start), text[start:end].rstrip()
        yield Block(BlockKind.PARAGRAPH, first, first + part.count("\n"), [Inline(part)])


def _read_sign(block: Block) -> str:
    """Return the kind of the sign that a paragraph begins with: the categories of its last two characters."""
    found = block.kind is BlockKind.PARAGRAPH and _SIGN.match(show_block(block))
    return "".join(map(unicodedata.category, found[0][-2:])) if found else ""


def list_items(block: Block) -> Iterator[tuple[int, Block]]:
    """Yield (depth, item) of a list and of those inside of it, in the order of lines."""
    for item in block.blocks:
        yield 0, item
        for inner in item.blocks:
            if inner.kind is BlockKind.LIST:
                yield from ((depth + 1, below) for depth, below in list_items(inner))


def _read_list(block: Block, lead: _Lead) -> Iterator[Unit]:
    """Yield a list as a whole, then its items, a long one block by block; an inner item is read below the outer one."""
    items = [*list_items(block)]
    # What a page shows of each without the lists inside of it.
    owns = [[inner for inner in item.blocks if inner.kind is not BlockKind.LIST] for _, item in items]
    texts = [" ".join(filter(None, map(show_block, own))) for own in owns]
    if len(items) > 1:
        whole, number = JOINT.join(filter(None, texts)), block.blocks[0].content
        yield from _make(UnitKind.LIST, Span(lead.line, block.last), whole, lead.text, number=number)
    # A sentence that does not say that items follow would be noise before each.
    is_above_each = lead.is_label or lead.introduces or len(items) == 1
    outer: list[str] = []  # the texts of the items that an inner one stands in
    for (depth, item), own, text in zip(items, owns, texts, strict=True):
        del outer[depth:]
        above = " ".join(filter(None, [lead.text if is_above_each else "", *outer]))
        outer += [""] * (depth - len(outer)) + [text]
        above_inner = takewhile(lambda inner: inner.kind is not BlockKind.LIST, item.blocks)
        first = item.first if len(items) > 1 else lead.line
        end = max([item.first, *(inner.last for inner in above_inner)])
        if end - item.first >= LONG_BLOCK:
            for place, unit in enumerate(read_units(own)):
                inside = unit.lead or (show_block(own[0]) if place else "")
                yield unit._replace(lead=f"{above} {inside}".strip(), number="" if place else item.content)
            continue
        # `Default:` says nothing without the items inside of it.
        if has_inner := _is_colon(text) and end < item.last < item.first + LONG_BLOCK:
            text, end = show_block(item), item.last
        begins = next((inner.texts[0] for inner in item.blocks if inner.texts), Inline(""))
        term = find_term(begins)
        kind = UnitKind.DEFINITION if find_marked_term(begins) else UnitKind.PROPERTY if term else UnitKind.ITEM
        if len(text) <= MAX_UNIT_CHARS or has_inner:
            yield from _make(kind, Span(first, end), text, above, term, count_linked(item.blocks), item.content)
        else:
            part = Block(BlockKind.ITEM, first, end, blocks=own)
            begun, *others = _make_parts(kind, part, _Lead(first, above), term)
            yield from (begun._replace(number=item.content), *others)


def _read_terms(block: Block, lead: _Lead) -> Iterator[Unit]:
    """Yield the terms of a list of definitions, each with what it means."""
    term = block
    for inner in block.blocks:
        if inner.kind is BlockKind.TERM:
            term = inner
        else:
            name = show_block(term)
            text = f"{as_label(name)}{show_block(inner)}"
            yield Unit(UnitKind.DEFINITION, Span(term.first, inner.last), text, lead.text, name)


# Tables.


def _read_table(block: Block, lead: _Lead) -> Iterator[Unit]:
    """Yield a table as a whole, then its rows, each below the names of the cells that it has; the first is its term."""
    names, *rows = [[cell.line for cell in row.texts] for row in block.blocks]
    header, above = join_cells(names), f"{lead.text} {as_label(block.info)}".strip()
    if len(rows) != 1 or above:
        whole = JOINT.join(filter(None, map(join_cells, rows)))
        names_above = f"{above} {header}".strip() if rows else above
        yield from _make(UnitKind.LIST, Span(lead.line, block.last), whole or header, names_above)
    for row, cells in zip(block.blocks[1:], rows, strict=True):
        held = [(name, cell) for name, cell in zip_longest(names, cells, fillvalue="") if cell]
        titles = CELL.join(name for name, _ in held) if len(held) > 1 and header else header
        term = cells[0] if len(held) > 1 and len(cells[0].split()) <= MAX_TERM_WORDS else ""
        text = CELL.join(cell for _, cell in held)
        if len(text) <= MAX_UNIT_CHARS:
            yield from _make(UnitKind.ROW, row.span, text, titles, term)
            continue
        (first_name, first), *others = held
        for name, cell in others or held:  # a question asks for one of its cells
            beside = [(first_name, first[:PART_CHARS])] if others else []
            for part in _cut_long(cell):
                shown = [*beside, (name, part)]
                keys = CELL.join(key for key, _ in shown)
                yield from _make(UnitKind.ROW, row.span, CELL.join(own for _, own in shown), keys, term)


# Terms, labels, introductions.

# What follows a marked term that is explained: `**term**: text`, `**term**, text`, `_term_ is`; references have a type
# between both: `**name** `string | null` (optional) - text`, `name {string} text`.
_EXPLAINS = re.compile(
    rf"""(?:[ ](?:{CODE}|\([^()\n]{{1,60}}\))){{0,3}}
        (?: :?[ ]?(?:[:\uff1a\u2013\u2014=]|-(?=\s)) | (?<=optional\)|required\))(?=\s|$) )
      | [ ]\{{[^{{}}\n]{{1,200}}\}}(?=\s|$)
      | \s+(?:is|are|means|ist|sind|bedeutet)\s""",
    re.VERBOSE,
)
# Without a mark: `term - text`, `key: value`.
_PLAIN_TERM = re.compile(r"(?P<term>[^\W_][^:\uff1a\n.!?|,;]{0,60}?)(?::(?=\s|$)|\uff1a|\s[-\u2013\u2014]\s)")
_COLONS = (":", "\uff1a")


def find_term(inline: Inline) -> str:
    """Return the term that a text begins with and then explains; empty where it has none.

    >>> find_term(Inline("Default: on"))
    'Default'
    """
    if marked := find_marked_term(inline):
        return marked
    found = _PLAIN_TERM.match(inline.line)
    term = found["term"].strip() if found else ""
    return term if len(term.split()) <= MAX_TERM_WORDS else ""


def find_marked_term(inline: Inline) -> str:
    """Return the bold, emphasized or code term that a text begins with and then explains; empty without one."""
    if not inline.term or len(inline.term) > MAX_TERM_CHARS:
        return ""
    has_colon = inline.term.endswith(_COLONS)
    is_explained = (has_colon and inline.rest[:1] in ("", " ", "\n")) or _EXPLAINS.match(inline.rest) is not None
    is_explained = is_explained or (inline.is_bold and inline.rest[:2] in (", ", ",\n"))
    term = inline.term.strip(" :\uff1a*_`")
    return term if is_explained and len(term.split()) <= MAX_TERM_WORDS else ""


MAX_TERM_CHARS = 80


def is_label(inline: Inline) -> bool:
    """Return whether a paragraph is bold as a whole, as people write a heading that no outline shows."""
    is_short = len(inline.term) <= MAX_TERM_CHARS and not inline.term.endswith((".", "!"))
    return inline.is_bold and inline.rest.strip() in ("", *_COLONS) and is_short


def introduces(text: str) -> bool:
    """Return whether a paragraph introduces what stands behind it: it ends with a colon, or as no sentence does."""
    return _is_colon(text) or text[-1:].isalnum()


def _is_colon(text: str) -> bool:
    return text.rstrip("*_ ").endswith(_COLONS)


def read_properties(matter: FrontMatter, lines: Sequence[str]) -> Iterator[Unit]:
    """Yield the properties of the front matter in these lines, each with its own; no titles, which stand above all."""
    last = len(lines) - 1  # that of the closing fence
    starts = [number for number, line in enumerate(lines[:last]) if line[:1].isalpha()]
    for start, end in pairwise([*starts, last]):
        name = lines[start].replace("=", ":").partition(":")[0].strip()
        values = (value for key, value in matter.fields if name.lower() in key.split("."))
        text = ", ".join(filter(None, values))
        if text and not name.lower().endswith("title"):
            yield Unit(UnitKind.FIELD, Span(start + 1, end), f"{name}: {text}", term=name)


def count_linked(blocks: Sequence[Block]) -> int:
    """Return how many characters of some blocks, and not of lists in them, are the texts of links."""
    return sum(
        sum(text.linked for text in block.texts) + count_linked(block.blocks)
        for block in blocks
        if block.kind is not BlockKind.LIST
    )


def _make(
    kind: UnitKind, span: Span, text: str, lead: str = "", term: str = "", linked: int = 0, number: str = ""
) -> Iterator[Unit]:
    """Yield the unit if a page shows anything of it."""
    if text:
        yield Unit(kind, span, text, lead if lead != text else "", term, linked, number)
