"""One document as nodes: its file node, its sections in the order of lines, and its links."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from pageindex.front_matter import FrontMatter
from pageindex.links import Link, find_links
from pageindex.markdown import Markdown, count_lines, line_starts, parse_markdown
from pageindex.node import Node, NodeKind, Span
from pageindex.outline import Section, divide, outline
from pageindex.summary import extractive_summary, prose_sentences


@dataclass(frozen=True, slots=True)
class Placed:
    """A node and its place."""

    node: Node
    """The node."""
    parent_id: str | None
    """The node that contains it; None for the file's own node, which belongs to a folder."""


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document."""

    path: str
    """Relative to the indexed folder."""
    id_prefix: str
    """What its ids begin with before the path."""
    title: str
    """The file node's title."""
    front_matter: FrontMatter
    """Empty without one."""
    nodes: tuple[Placed, ...]
    """The file's node, then its sections in the order of lines; parents come before their children."""
    links: tuple[tuple[str, Link], ...]
    """(id of the node whose lines hold it, link), in the order of lines."""
    warnings: tuple[str, ...]
    """What was not understood, as clauses."""
    tags: tuple[str, ...] = ()
    """Of the front matter, then of the text, without `#`, each once, whatever its case."""

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Return (key, value) of the front matter; each other name as `aliases`, each tag of the document as `tags`."""
        named = ("aliases", "alias", "tags", "tag")
        others = (field for field in self.front_matter.fields if field[0] not in named)
        aliases = (("aliases", alias) for alias in self.front_matter.aliases)
        return (*others, *aliases, *(("tags", tag) for tag in self.tags))


def parse_document(path: str, text: str, id_prefix: str = "") -> Document:
    """Parse `text` (LF line ends, no NUL) into the nodes and links of the document at `path` (relative, with `/`)."""
    markdown = parse_markdown(text)
    sections, own_texts = _cut_sections(markdown, text)
    child_titles: list[list[str]] = [[] for _ in range(len(sections) + 1)]  # of the file, then of each section
    for section in sections:
        child_titles[0 if section.parent is None else section.parent + 1].append(section.heading.title)

    file_node = _make_file_node(id_prefix + path, path, own_texts[0], markdown, child_titles[0])
    placed = [Placed(file_node, None)]
    for section, own_text, titles in zip(sections, own_texts[1:], child_titles[1:], strict=True):
        parent = file_node if section.parent is None else placed[section.parent + 1].node
        prose = own_text.split("\n", section.heading.line_count)[section.heading.line_count :]
        # A parent that the title only repeats, such as the file of a top heading, is not named twice.
        is_repeated = parent.title == section.heading.title
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
            summary=extractive_summary("".join(prose), titles, markdown.references),
        )
        placed.append(Placed(node, parent.id))

    firsts = [section.span.first for section in sections]
    found, own_tags = find_links(markdown.texts, markdown.references)
    links = tuple((placed[bisect_right(firsts, link.line)].node.id, link) for link in found)
    matter = markdown.front_matter
    warnings = (matter.warning,) if matter.warning else ()
    tags: dict[str, str] = {}
    for tag in (*matter.tags, *own_tags):
        tags.setdefault(tag.casefold(), tag)
    return Document(path, id_prefix, file_node.title, matter, tuple(placed), links, warnings, tuple(tags.values()))


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


def _make_file_node(node_id: str, path: str, text: str, markdown: Markdown, child_titles: Sequence[str]) -> Node:
    matter = markdown.front_matter
    prose = "".join(text.split("\n", matter.lines)[matter.lines :])
    metadata_lines = matter.lines if matter.is_metadata else 0
    title = matter.title
    if not title:
        # The first level-1 heading; else the one that opens the file, if it holds more than half of it: some books
        # leave level 1 to the site around them, and begin their pages at level 2.
        title = next((heading.title for heading in markdown.headings if heading.level == 1 and heading.title), "")
    if not title and markdown.headings and not any(prose_sentences(prose, markdown.references)):
        first, *others = markdown.headings
        end = next((other.line for other in others if other.level <= first.level), markdown.line_count + 1)
        title = first.title if 2 * (end - first.line) > markdown.line_count else ""
    return Node(
        id=node_id,
        kind=NodeKind.FILE,
        path=path,
        title=title or PurePosixPath(path).stem,
        level=0,
        breadcrumb=(),
        span=Span(1, count_lines(text)) if text else None,
        text=text,
        front_matter_lines=metadata_lines,
        summary=extractive_summary(prose, child_titles, markdown.references),
    )


def _cut_sections(markdown: Markdown, text: str) -> tuple[tuple[Section, ...], list[str]]:
    """Return the sections of a document, and the own texts of the file and of each of them; long ones are divided."""
    starts = line_starts(text)

    def cut_before(*lines: int) -> list[str]:
        return [text[starts[first - 1] : starts[end - 1]] for first, end in pairwise([*lines, len(starts)])]

    firsts = [markdown.front_matter.lines + 1, *(heading.line for heading in markdown.headings)]
    owns = zip(firsts, cut_before(*firsts), strict=True)
    parts = [part for first, own in owns for part in divide(own, first, markdown.references)]
    headings = sorted((*markdown.headings, *parts), key=lambda heading: heading.line)
    sections = outline(headings, markdown.line_count)
    return sections, cut_before(1, *(section.span.first for section in sections))
