"""A node of the PageIndex, and all nodes of an index as one tree of folders, files and sections."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

from pageindex.text import Span as Span
from pageindex.text import sanitize_line

if TYPE_CHECKING:  # a question parses no Markdown: what reads it takes a tenth of its time to load
    from pageindex.blocks import Block

PART_LEVEL = 7  # below every heading: a part contains none


class NodeKind(StrEnum):
    """The kinds of nodes."""

    FOLDER = "folder"
    FILE = "file"
    SECTION = "section"


MAX_TERM_WORDS = 6
MAX_UNIT_CHARS = 500  # as much as is shown of an answer; most paragraphs have less
MAX_LEAD_CHARS = 150  # of what an item is shown below
JOINT = "; "  # between two items of a whole list


class UnitKind(Enum):
    """The kinds of units, as questions ask for them."""

    PARAGRAPH = "paragraph"
    ITEM = "item"
    LIST = "list"  # all items of a list, or all rows of a table, with what introduces them
    ROW = "row"
    DEFINITION = "definition"  # a term and what it means
    PROPERTY = "property"  # `Default: on`: a key and its value
    CODE = "code"
    QUOTE = "quote"
    FIELD = "field"  # of the front matter


class Unit(NamedTuple):  # which takes a third of a dataclass's time to make: a question reads hundreds
    """A piece of text that a person would point at."""

    kind: UnitKind
    span: Span
    """Its lines in the file; of code, with the paragraph that introduces it."""
    text: str
    """As a page shows it, on one line."""
    lead: str = ""
    """Plain text that it is read below: a list's introduction, the item above an inner one, a table's header."""
    term: str = ""
    """The term that it defines, or the key that it sets; empty where it does neither."""
    linked: int = 0
    """How many of its characters are the texts of links, of a paragraph or an item that is not cut."""
    number: str = ""
    """Of an item of an ordered list, as a page shows it: `7.`; of the list its first item's; empty for others."""

    @property
    def in_full(self) -> str:
        """Return the text below its lead.

        >>> Unit(UnitKind.ITEM, Span(3, 3), "rye", "You need:").in_full, Unit(UnitKind.ITEM, Span(4, 4), "salt").in_full
        ('You need: rye', 'salt')
        """
        return f"{self.lead} {self.text}" if self.lead else self.text


def pick_pieces(units: Iterable[Unit]) -> list[Unit]:
    """Return the units without whole lists, whose items are units as well, and properties of front matter."""
    return [unit for unit in units if unit.kind not in (UnitKind.LIST, UnitKind.FIELD)]


def show_units(units: Iterable[Unit]) -> list[str]:
    """Return the texts of the pieces, each below its lead unless the piece before it says that."""
    shown, lead, said = [], "", ""
    for unit in pick_pieces(units):
        shown.append(unit.text if unit.lead == lead or said.endswith(unit.lead) else unit.in_full)
        lead, said = unit.lead, unit.in_full
    return shown


@dataclass(frozen=True, slots=True)
class Node:
    """A folder, a file, or a section of a file.

    The tree (parent, children) is kept in `DocumentTree` alone.
    """

    id: str
    """`path#slug/slug`: the file's path and the slugs of the headings down to this one, `~2` for a repeated heading
    among siblings. A file's id is its path, a folder's its path with a closing `/` (the indexed folder itself: `/`)."""
    kind: NodeKind
    path: str
    """The file (for a folder: the folder), relative to the indexed folder, with `/` on every system."""
    title: str
    """The heading's text without markup; for a file: see `document.name_document`; for a folder: its name."""
    level: int
    """The heading level, 1 to 6; 7 for a part of a text too long for one section; 0 for a file or a folder."""
    breadcrumb: tuple[str, ...]
    """Titles of the file and the headings above this node, outermost first. No title of `(*breadcrumb, title)` repeats
    the one before it: a first heading equal to the file's title has its breadcrumb. Of a file with a title that could
    stand anywhere the file's name; empty for other files, and folders."""
    span: Span | None
    """The lines of `text`. The spans of a file's nodes partition its lines. None when the node has no line of its own:
    a folder, an empty file, a file that opens with a heading."""
    text: str
    """The lines of `span` as Markdown (line ends as LF), of a Markdown file exactly; the heading's line is among them,
    child sections are not.
    A file node's text begins with its front matter, if it has one."""
    front_matter_lines: int = 0
    """How many lines at the beginning of `text` are front matter (its fences counted); 0 for sections."""
    anchor: str = ""
    """The `#fragment` of links to this node: the heading's `{#id}`, else its slug as GitHub makes it, unique in
    its file (`-1`, `-2` ... appended to repeats). Empty for files and folders."""
    summary: str = ""
    """Its first words; see `summary.py`."""
    units: tuple[Unit, ...] = ()
    """The pieces that a person would point at; see `units.py`."""
    blocks: "tuple[Block, ...]" = field(default=(), compare=False, repr=False)
    """The outermost blocks of `text`, heading included; empty for a node that an index gives."""

    @property
    def titles(self) -> tuple[str, ...]:
        """Return the breadcrumb and its own title, outermost first."""
        return *self.breadcrumb, self.title

    @property
    def is_part(self) -> bool:
        """Return whether it has no heading of its own, and its first words for a title; see `outline.divide`."""
        return self.level == PART_LEVEL

    @property
    def body(self) -> str:
        """Return the text without the front matter."""
        pieces = self.text.split("\n", self.front_matter_lines)  # not splitlines(): U+2028 and the like end no line
        return pieces[-1] if len(pieces) > self.front_matter_lines else ""

    @property
    def shown_text(self) -> str:
        """Return what a page shows of the body, each unit on a line of its own."""
        return "\n".join(show_units(self.units))

    @property
    def body_span(self) -> Span | None:
        """Return the lines of `body`; those of `text` where that is front matter alone."""
        if self.span is None or not self.front_matter_lines or not self.body:
            return self.span
        return Span(self.span.first + self.front_matter_lines, self.span.last)

    @property
    def has_text(self) -> bool:
        """Return whether it says anything beside its heading and front matter."""
        if self.blocks:
            return any(not block.is_silent for block in self.blocks)
        return any(unit.kind is not UnitKind.FIELD for unit in self.units)

    @property
    def citation(self) -> str:
        """`path:first-last`, or `path:line`; the path alone without a line of its own. Not escaped for a terminal."""
        return f"{self.path}:{self.span}" if self.span else self.path


def folder_id(prefix: str, path: str) -> str:
    """Return the id of the folder at `path`, with its closing `/`; the indexed folder itself is the empty path."""
    return f"{prefix}{path}/"


# Longer titles are cut where they are shown, never where they are stored.
MAX_SHOWN_TITLE = 200


class DocumentTree:
    """Nodes by id, in a directed graph whose edges lead to what a node contains, in document order."""

    def __init__(self) -> None:
        import networkx as nx  # 165 ms: paid by the first tree, not by every import

        self._graph: nx.DiGraph[str] = nx.DiGraph()

    def add_folders(self, id_prefix: str, document_path: str) -> str:
        """Add the folders above a document that are not there yet; return the id of the innermost."""
        parent: str | None = None
        parts = document_path.split("/")[:-1]
        for depth in range(len(parts) + 1):
            path = "/".join(parts[:depth])
            node_id = folder_id(id_prefix, path)
            if node_id not in self:
                title = parts[depth - 1] if depth else id_prefix or "/"
                self.add(Node(node_id, NodeKind.FOLDER, path, title, 0, (), None, ""), parent)
            parent = node_id
        return parent or folder_id(id_prefix, "")

    def add(self, node: Node, parent_id: str | None) -> None:
        """Add a node as the last child of its parent, which is in the tree; without a parent it is a root."""
        self._graph.add_node(node.id, node=node)
        if parent_id is not None:
            self._graph.add_edge(parent_id, node.id)

    def node(self, node_id: str) -> Node:
        """Return the node with that id; KeyError where there is none."""
        node: Node = self._graph.nodes[node_id]["node"]
        return node

    def parent(self, node_id: str) -> Node | None:
        """Return the node that contains this one; None for a root."""
        return next(map(self.node, self._graph.predecessors(node_id)), None)

    def children(self, node_id: str) -> tuple[Node, ...]:
        """Return the nodes that this one contains, in document order."""
        return tuple(map(self.node, self._graph.successors(node_id)))

    def walk(self, node_id: str | None = None, depth: int | None = None) -> Iterator[Node]:
        """Yield a node and what it contains, parents first, in document order; all roots without an id.

        `depth` is how many levels below the start are visited; None is all of them.
        """
        return (node for node, _, _ in self._descend(node_id, depth))

    def pretty(self, node_id: str | None = None, depth: int | None = None) -> str:
        """Return the tree as lines for people: title and `file:first-last`, of a folder how much is in it.

        A file whose only heading has its title is one line with that. The name of an indexed folder stands before its
        paths, if it has one. Control characters of documents are inert.
        """
        lines = []
        for node, lead, is_last in self._descend(node_id, depth, joins=True):
            branch = "" if lead is None else lead + ("└── " if is_last else "├── ")
            title = node.title if len(node.title) <= MAX_SHOWN_TITLE else f"{node.title[: MAX_SHOWN_TITLE - 1]}…"
            if node.kind is NodeKind.FOLDER:
                inside = list(self.walk(node.id))
                files = sum(below.kind is NodeKind.FILE for below in inside)
                sections = sum(below.span is not None for below in inside)
                held = (
                    f"  {files:,} file{'' if files == 1 else 's'}, {sections:,} section{'' if sections == 1 else 's'}"
                )
                place = node.id
            else:  # no slug has the dot of a path: behind its last place are slugs alone
                place, held = node.id[: node.id.rindex(node.path)] + node.citation, ""
            lines.append(f"{branch}{sanitize_line(title)}  {sanitize_line(place)}{held}")
        return "\n".join(lines)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._graph

    def _descend(
        self, node_id: str | None, depth: int | None, *, joins: bool = False
    ) -> Iterator[tuple[Node, str | None, bool]]:
        """Yield (node, what is drawn before its branch, None at a root, whether it is a last child), parents first.

        `joins` makes one node of a file and its only heading where both have one title.
        """
        roots = (own for own, above in self._graph.in_degree if not above)
        starts = roots if node_id is None else [node_id]
        pending: list[tuple[Node, str | None, bool, int]] = [(self.node(start), None, True, 0) for start in starts]
        pending.reverse()
        while pending:  # a loop, not recursion: folders may be nested deeper than Python's stack
            node, lead, is_last, level = pending.pop()
            family = self.children(node.id)
            if joins and node.kind is NodeKind.FILE and [child.title for child in family] == [node.title]:
                node, family = replace(node, span=None), self.children(family[0].id)  # by its path all of it is read
            yield node, lead, is_last
            if depth is None or level < depth:
                below = "" if lead is None else lead + ("    " if is_last else "│   ")
                pending.extend((child, below, index == 0, level + 1) for index, child in enumerate(family[::-1]))
