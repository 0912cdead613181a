"""Reading and looking around in an index, without a question: the tree, a section, some lines."""

import re
import sqlite3
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace

from pageindex.markdown import count_lines
from pageindex.node import Node, NodeKind, Span, folder_id
from pageindex.tree import DocumentTree
from retriever.errors import UsageError
from retriever.indexing.consent import FolderAccess
from retriever.indexing.request import absolute
from retriever.searching.citations import Anchor, CitationState, open_anchors
from retriever.searching.open_index import View
from retriever.store import reading
from retriever.store.reading import StoredNode

_LINES = re.compile(r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines of a document: a section as it was indexed, a file or lines of one as they are on the disk."""

    node_id: str
    """The node that holds the first of the lines."""
    folder: str
    """The indexed folder, absolute."""
    file: str
    """Relative to `folder`."""
    span: Span
    text: str
    """The lines of `span`, each with its line end."""
    title: str
    """The node's."""
    breadcrumb: tuple[str, ...]
    """The node's."""
    citation_state: CitationState = "exact"
    """Whether the file holds `text` in the lines of `span`; where it has `moved`, `span` is its new place."""

    @property
    def citation(self) -> str:
        """`file:first-last`."""
        return f"{self.file}:{self.span}"


def whole_tree(connection: sqlite3.Connection) -> DocumentTree:
    """Every node of the index, folders included, with its links; documents by folder and path, whenever they came."""
    tree = DocumentTree()
    prefixes = reading.prefixes(connection)
    nodes: dict[int, list[StoredNode]] = {key: [] for key in prefixes}
    for stored in reading.nodes_of_documents(connection, nodes):
        nodes[stored.document_key].append(stored)
    for key, prefix in prefixes.items():
        for stored in nodes[key]:
            tree.add(stored.node, stored.parent_id or tree.add_folders(prefix, stored.node.path))
    for key in prefixes:
        for source_id, target_id, _ in reading.link_targets(connection, key):
            tree.link(source_id, target_id)
    return tree


def find_node(connection: sqlite3.Connection, tree: Container[str], reference: str) -> str:
    """The id of the node that a reference names: a node id, or the path of a file or a folder.

    Raises:
        UsageError: there is no such node.
    """
    for node_id in _possible_ids(connection, reference):
        for known in (node_id, f"{node_id.rstrip('/')}/"):
            if known in tree:
                return known
    raise _not_there(reference)


def find_in_documents(connection: sqlite3.Connection, reference: str) -> tuple[str, str]:
    """As `find_node`, for files and sections alone, without the whole tree: the prefix of its folder, and the id.

    Raises:
        UsageError: there is no such file or section.
    """
    for node_id in _possible_ids(connection, reference):
        key = reading.document_of_node(connection, node_id)
        if key is not None:
            return reading.prefixes(connection)[key], node_id
    raise _not_there(reference)


def read_excerpt(connection: sqlite3.Connection, reference: str, access: FolderAccess) -> Passage:
    """The lines that a reference names.

    Args:
        connection: in a snapshot.
        reference: a node id (with all that is below it), a path, `path:first-last` or `path:line`; a path is relative
            to an indexed folder or to the current one, or absolute.
        access: which of the folders may be looked at, and which of their files are documents.

    Raises:
        UsageError: there is no such node, path or line.
    """
    found, lines = _find(connection, reference), None
    if found is None and (match := _LINES.fullmatch(reference)):
        found, lines = _find(connection, match["path"]), (int(match["first"]), int(match["last"] or match["first"]))
    if found is None:
        raise _not_there(reference)
    anchors = open_anchors(connection, [found.document_key], access)
    state, now = anchors.look_at(found.document_key)
    if state == "stale" and (lines or found.place == 0):
        return _as_it_is(found, now, lines)
    passage = _as_it_was(found, lines)
    anchor = anchors.anchor(found.document_key, passage.span, passage.text)
    return replace(passage, span=anchor.span, citation_state=anchor.state)


def _not_there(reference: str) -> UsageError:
    return UsageError(f"{reference!r} is not in the index; `hybrid_retrieve.py tree` shows what is")


@dataclass(frozen=True, slots=True)
class _Found:
    """A node that a reference names, and its document."""

    folder: str
    """The indexed folder, absolute."""
    document_key: int
    nodes: Sequence[StoredNode]
    """All nodes of the document, in document order: the file first."""
    place: int
    """The named node's among them."""

    @property
    def last_line(self) -> int:
        """The document's; 0 for an empty one."""
        return max((stored.node.span.last for stored in self.nodes if stored.node.span), default=0)


def _find(connection: sqlite3.Connection, reference: str) -> _Found | None:
    for node_id in _possible_ids(connection, reference):
        key = reading.document_of_node(connection, node_id)
        if key is not None:
            nodes = list(reading.nodes_of_documents(connection, [key]))
            place = next(place for place, stored in enumerate(nodes) if stored.node.id == node_id)
            return _Found(reading.folder_of(connection, [key])[key], key, nodes, place)
    return None


def _possible_ids(connection: sqlite3.Connection, reference: str) -> Iterator[str]:
    """The reference as an id, then as a path that the current folder sees, then as one in any of the folders."""
    if any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in reference):
        return  # no name that is in an index
    yield reference
    path, sign, slugs = reference.partition("#")
    folders = reading.folders(connection)
    for folder in folders:
        place = absolute(path)
        if place.is_relative_to(folder.path):
            inside = place.relative_to(folder.path).as_posix()
            yield folder.prefix + ("" if inside == "." else inside) + sign + slugs
    for folder in folders:
        yield folder.prefix + reference


def _span_below(found: _Found) -> Span | None:
    """The lines of the node and of all that is below it; None when they have none."""
    named = found.nodes[found.place].node
    below = {named.id}
    spans = [named.span] if named.span else []
    for stored in found.nodes[found.place + 1 :]:
        if stored.parent_id in below:
            below.add(stored.node.id)
            spans += [stored.node.span] if stored.node.span else []
    return Span(spans[0].first, spans[-1].last) if spans else None


def _as_it_is(found: _Found, text: str, lines: tuple[int, int] | None) -> Passage:
    """Lines of a file that has changed, or all: what a citation of today names."""
    file, last_line = found.nodes[0].node, count_lines(text)
    span = _span_of_lines(file, last_line, lines or (1, last_line))
    return Passage(file.id, found.folder, file.path, span, _lines(text, span), file.title, file.breadcrumb)


def _as_it_was(found: _Found, lines: tuple[int, int] | None) -> Passage:
    """Lines of a document when it was indexed, or those of the named node and all below it."""
    span = _span_of_lines(found.nodes[0].node, found.last_line, lines) if lines else _span_below(found)
    if span is None:
        raise _empty(found.nodes[found.place].node)
    text = "".join(stored.node.text for stored in found.nodes if stored.node.span)
    holder = next(stored.node for stored in found.nodes if stored.node.span and stored.node.span.last >= span.first)
    return Passage(holder.id, found.folder, holder.path, span, _lines(text, span), holder.title, holder.breadcrumb)


def _span_of_lines(file: Node, last_line: int, lines: tuple[int, int]) -> Span:
    """The lines of a file that has so many, if it has them."""
    first, last = lines
    if not last_line:
        raise _empty(file)
    if not 1 <= first <= last <= last_line:
        raise UsageError(f"{file.path} has the lines 1-{last_line}, not {first}-{last}")
    return Span(first, last)


def _empty(node: Node) -> UsageError:
    return UsageError(f"{node.path} is empty")


def _lines(text: str, span: Span) -> str:
    """These lines, each with its line end."""
    return "\n".join([*text.split("\n")[span.first - 1 : span.last], ""])


# What a section stands beside: its parent, its children, its siblings, and the links from it and to it.


@dataclass(frozen=True, slots=True)
class Relations:
    """A file or a section among its neighbours."""

    node: Node
    parent: Node | None
    """None for a file."""
    folder: str
    """The node id of the folder that a file is in; empty for a section."""
    children: Sequence[Node]
    """In document order."""
    siblings: Sequence[Node]
    """Nearest first; a file has none here: the outline of its folder shows them."""
    links: Sequence[Node]
    """What it links to, in the order of the links."""
    backlinks: Sequence[Node]
    """What links to it, by document and place."""


def relations(view: View, reference: str) -> Relations:
    """The neighbours of the file or section that a node id or a path names.

    Raises:
        UsageError: there is no such file or section.
    """
    prefix, node_id = find_in_documents(view.connection, reference)
    tree = view.tree
    tree.load_nodes([node_id])
    node = tree.node(node_id)
    above = node.path.rpartition("/")[0]
    return Relations(
        node=node,
        parent=tree.parent(node_id),
        folder=folder_id(prefix, above) if node.kind is NodeKind.FILE else "",
        children=tree.children(node_id),
        siblings=tree.siblings(node_id),
        links=tree.links(node_id),
        backlinks=tree.backlinks(node_id),
    )


def places(view: View, found: Relations, access: FolderAccess) -> Callable[[Node], Anchor | None]:
    """Tells of each of these nodes where it is by now; None of one without lines. To be used within the view.

    Args:
        view: that they were found in.
        found: the nodes.
        access: which of the folders may be looked at, and which of their files are documents.
    """
    above = [found.parent] if found.parent else []
    nodes = [found.node, *above, *found.children, *found.siblings, *found.links, *found.backlinks]
    keys = {view.tree.document_key(node.id) for node in nodes}
    anchors = open_anchors(view.connection, keys, access)

    def place(node: Node) -> Anchor | None:
        return anchors.anchor(view.tree.document_key(node.id), node.span, node.text) if node.span else None

    return place
