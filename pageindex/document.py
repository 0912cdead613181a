"""One document as nodes: its file node, its sections in the order of lines, and its links."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from pageindex.blocks import Block, BlockKind, Markdown, line_starts, read_markdown
from pageindex.dialects import COMMONMARK, get_dialect
from pageindex.front_matter import FrontMatter
from pageindex.links import Link, find_links
from pageindex.node import Node, NodeKind, Span
from pageindex.outline import (
    MAX_SECTION_CHARS,
    Heading,
    Section,
    cut_blocks,
    divide,
    find_headings,
    outline,
)
from pageindex.summary import summarize
from pageindex.text import count_lines, fold_words
from pageindex.units import read_properties, read_units

MAX_VALUE_CHARS = 300  # of a property; what is longer is a text, and nobody asks for it by its whole wording


@dataclass(frozen=True, slots=True)
class Placed:
    """A node and its place."""

    node: Node
    """The node."""
    parent_id: str | None
    """The node that contains it; None for the file's own node, which belongs to a folder."""


@dataclass(frozen=True)
class Document:
    """A parsed document."""

    path: str
    """Relative to the indexed folder."""
    title: str
    """The file node's title."""
    front_matter: FrontMatter
    """Empty without one."""
    nodes: tuple[Placed, ...]
    """The file's node, then its sections in the order of lines; parents come before their children."""
    links: tuple[tuple[str, Link], ...]
    """(id of the node whose lines hold it, link), in the order of lines."""
    warnings: tuple[str, ...]
    """Parts that were not understood, as clauses."""
    tags: tuple[str, ...] = ()
    """Of the front matter, then of the text, without `#`, each once, whatever its case."""

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Return (key, value) of the front matter; each other name as `aliases`, each tag of the document as `tags`."""
        named = ("aliases", "alias", "tags", "tag")
        fields = self.front_matter.fields
        others = ((key, value[:MAX_VALUE_CHARS]) for key, value in fields if key not in named)
        aliases = (("aliases", alias) for alias in self.front_matter.aliases)
        return (*others, *aliases, *(("tags", tag) for tag in self.tags))


def parse_document(path: str, text: str, id_prefix: str = "", dialect: str = COMMONMARK.name) -> Document:
    """Parse `text` (LF line ends, no NUL) into the nodes and links of the document at `path` (relative, with `/`).

    Args:
        path: of the file, below the indexed folder.
        text: of the file.
        id_prefix: what the ids begin with before the path.
        dialect: the name of that of its folder.
    """
    markdown = read_markdown(text, get_dialect(dialect, path))
    starts, headings = line_starts(text), find_headings(markdown.blocks)
    sections = _cut_sections(markdown, headings, starts)
    firsts = [1, *(section.span.first for section in sections), len(markdown.lines) + 1]
    owns = [text[starts[first - 1] : starts[end - 1]] for first, end in pairwise([*firsts[:-1], len(starts)])]
    cut = cut_blocks(markdown.blocks, firsts)
    file_node = _make_file_node(id_prefix + path, path, owns[0], markdown, cut[0])
    placed = [Placed(file_node, None)]
    for section, own_text, blocks in zip(sections, owns[1:], cut[1:], strict=True):
        parent = file_node if section.parent is None else placed[section.parent + 1].node
        # A parent that the title only repeats, such as the file of a top heading, is not named twice.
        is_repeated = parent.title == section.heading.title
        below = [block for block in blocks if block.kind is not BlockKind.HEADING]
        units = tuple(read_units(below))
        node = Node(
            id=f"{parent.id}{'#' if parent is file_node else '/'}{section.slug}",
            kind=NodeKind.SECTION,
            path=path,
            title=section.heading.title,
            level=section.heading.level,
            breadcrumb=parent.breadcrumb if is_repeated else (*parent.breadcrumb, parent.title),
            span=section.span,
            text=own_text,
            anchor=section.anchor,
            summary=summarize(units),
            blocks=tuple(blocks),
            units=units,
        )
        placed.append(Placed(node, parent.id))

    found, own_tags = find_links(text for block in markdown.blocks for inner in block.walk() for text in inner.texts)
    links = tuple((placed[bisect_right(firsts, link.line, 1, len(sections) + 1) - 1].node.id, link) for link in found)
    matter = markdown.front_matter
    warnings = (matter.warning,) if matter.warning else ()
    tags: dict[str, str] = {}
    for tag in (*matter.tags, *own_tags):
        tags.setdefault(tag.casefold(), tag)
    return Document(path, file_node.title, matter, tuple(placed), links, warnings, tuple(tags.values()))


def find_holders(nodes: Sequence[Placed]) -> dict[str, str]:
    """Map each node of a document that has no text of its own to the node whose text is shown in its place.

    That is the first one below it that has text; else the nearest one above it, or the first below that. A node is left
    out when there is none: a document of headings alone is shown as it is, the file by its first heading.
    """
    shown: dict[str, str] = {}
    for placed in reversed(nodes):  # from the last child to its parent: the first one with text stays
        if placed.node.has_text:
            shown[placed.node.id] = placed.node.id
        if placed.parent_id is not None and placed.node.id in shown:
            shown[placed.parent_id] = shown[placed.node.id]
    for placed in nodes:
        if placed.node.id not in shown and placed.parent_id in shown:
            shown[placed.node.id] = shown[placed.parent_id]
    holders = {node_id: holder for node_id, holder in shown.items() if node_id != holder}
    file, *sections = (placed.node for placed in nodes)
    if file.span is None and sections:  # it has no lines that could be cited
        holders.setdefault(file.id, sections[0].id)
    return holders


def _make_file_node(node_id: str, path: str, text: str, markdown: Markdown, blocks: Sequence[Block]) -> Node:
    matter = markdown.front_matter
    metadata_lines = 0 if matter.warning else matter.lines
    title, above = name_document(path, matter.title, find_headings(markdown.blocks))
    properties = read_properties(matter, markdown.lines) if metadata_lines else ()
    units = tuple(read_units(blocks))
    return Node(
        id=node_id,
        kind=NodeKind.FILE,
        path=path,
        title=title,
        level=0,
        breadcrumb=above,
        span=Span(1, count_lines(text)) if text else None,
        text=text,
        front_matter_lines=metadata_lines,
        summary=summarize(units),
        blocks=tuple(blocks),
        units=(*properties, *units),
    )


def _cut_sections(markdown: Markdown, headings: Sequence[Heading], starts: Sequence[int]) -> tuple[Section, ...]:
    """Return the sections of a document whose lines start there; long ones are divided."""
    firsts = [markdown.front_matter.lines + 1, *(heading.line for heading in headings), len(markdown.lines) + 1]
    parts: list[Heading] = []
    for (first, end), blocks in zip(pairwise(firsts), cut_blocks(markdown.blocks, firsts), strict=True):
        if starts[end - 1] - starts[min(first, end) - 1] > MAX_SECTION_CHARS:
            parts += divide(blocks, [starts[line - 1] for line in range(first, end + 1)], first)
    return outline(sorted((*headings, *parts), key=lambda heading: heading.line), len(markdown.lines))


# What a document is called: its title, and its file where the title could stand above any other.

OF_ITS_FOLDER = frozenset({"index", "readme"})  # the page of a folder, which is named by it
GENERIC_WORDS = 2  # in a title that may stand above any document, such as `Contact`
COUNTER_DIGITS = 2  # of the number of a chapter
SAME_LETTERS = 4  # at the beginning of two forms of one word
BEYOND_LATIN = "\u0370"  # before it are the letters of Latin, and accents


def name_document(path: str, title: str, headings: Sequence[Heading]) -> tuple[str, tuple[str, ...]]:
    """Return the title of the document at `path`, empty where nothing names it, and the titles above that.

    The title is the given one, of the front matter, else the only heading of level 1, else the first heading if it
    says the file's name, else that name. Above a title that could stand anywhere is the name of the file, or of its
    folder.

    >>> name_document("people/Ada Quill.md", "Contact", ()), name_document("falcon/README.md", "", ())
    (('Contact', ('Ada Quill',)), ('falcon', ()))
    >>> name_document("Patterns.md", "", [Heading(1, "Builder", None, 1), Heading(1, "Factory", None, 9)])
    ('Patterns', ())
    >>> name_document("Größe.md", "Subject", ()), name_document("size.md", "大きさ", ())
    (('Subject', ('Größe',)), ('大きさ', ()))
    """
    *folders, file = (" ".join(part.split()) for part in PurePosixPath(path).with_suffix("").parts)
    name = "".join(folders[-1:]) if file.strip("_").lower() in OF_ITS_FOLDER else file
    name = name if len(name) > 1 else ""
    tops = [heading.title for heading in headings if heading.level == 1 and heading.title]
    if len(tops) == 1 or not name:  # of several each is that of a part
        title = title or next(iter(tops), "")
    if not title:
        first = headings[0].title if headings else ""
        return (first if first and _says(first, name) and _says(name, first) else name or file), ()
    is_one_script = (max(title) < BEYOND_LATIN) == (max(name or title) < BEYOND_LATIN)
    is_generic = is_one_script and len(fold_words(title)) <= GENERIC_WORDS
    return title, (name,) if name and is_generic and not _says(title, name) else ()


def _says(title: str, name: str) -> bool:
    """Return whether a title has the words of a name, in any form, or written as one; a longer title one of them."""
    words, others = fold_words(title), fold_words(name)
    beginnings = {word[:SAME_LETTERS] for word in words}
    telling = (other for other in others if other.isalpha() or (other.isdigit() and len(other) > COUNTER_DIGITS))
    is_said = all if len(words) <= GENERIC_WORDS else any
    return is_said(other[:SAME_LETTERS] in beginnings for other in telling) or "".join(words) == "".join(others)
