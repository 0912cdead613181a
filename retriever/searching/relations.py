"""What a section stands beside: its parent, its children, its siblings, and the links from it and to it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pageindex.node import Node, NodeKind, folder_id
from retriever.browsing import find_in_documents
from retriever.indexing.consent import FolderAccess
from retriever.searching.citations import Anchor, anchors_of
from retriever.searching.open_index import View


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
    anchors = anchors_of(view.connection, keys, access)

    def place(node: Node) -> Anchor | None:
        return anchors.anchor(view.tree.document_key(node.id), node.span, node.text) if node.span else None

    return place
