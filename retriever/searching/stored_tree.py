"""The tree of the documents that a search touches, read from the index as it is needed."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from pageindex.node import Node
from pageindex.tree import DocumentTree
from retriever.store import priors, reading
from retriever.store.links import link_sources


class StoredTree:
    """A DocumentTree that grows by whole documents, so that an answer costs what it touches, not what is indexed.

    What its methods say of a node never depends on what else has been loaded: a document comes with all its nodes,
    links bring in the documents that they lead to, and folders, which would have to know all documents, are left out.
    Belongs to one generation; every method must be called in a snapshot of that.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._tree = DocumentTree()
        self._sections: dict[int, list[Node]] = {}
        self._document_keys: dict[str, int] = {}
        self._linked: set[str] = set()
        self._boilerplate: dict[str, float] = {}

    def load(self, document_keys: Iterable[int]) -> None:
        """Reads the documents that are not there yet."""
        new = sorted(set(document_keys) - self._sections.keys())
        for stored in reading.nodes_of_documents(self._connection, new):
            self._tree.add(stored.node, stored.parent_id)
            self._document_keys[stored.node.id] = stored.document_key
            self._sections.setdefault(stored.document_key, [])
            if stored.node.span:
                self._sections[stored.document_key].append(stored.node)

    def load_nodes(self, node_ids: Iterable[str]) -> None:
        """Reads the documents of these nodes."""
        new = [node_id for node_id in node_ids if node_id not in self._document_keys]
        if new:
            self.load(reading.documents_of_nodes(self._connection, new))

    def load_links(self, node_ids: Iterable[str]) -> None:
        """Reads the documents that these loaded nodes link to: one look for all costs less than one for each."""
        new = [node_id for node_id in node_ids if node_id not in self._linked]
        if not new:
            return
        self._linked.update(new)
        links = reading.link_targets_of_nodes(self._connection, new)
        self.load(target for _, _, target in links)
        for source_id, target_id, _ in links:
            self._tree.link(source_id, target_id)

    def boilerplate(self, node_ids: Iterable[str]) -> Mapping[str, float]:
        """How much of a list of links or a log the document of each is, 0 to 1; they need not be loaded."""
        new = [node_id for node_id in node_ids if node_id not in self._boilerplate]
        if new:
            self._boilerplate.update(priors.boilerplate(self._connection, new))
        return self._boilerplate

    def sections(self, document_key: int) -> Sequence[Node]:
        """The nodes of a loaded document that have lines, in document order."""
        return self._sections[document_key]

    def document_key(self, node_id: str) -> int:
        """The document that a loaded node belongs to."""
        return self._document_keys[node_id]

    def node(self, node_id: str) -> Node:
        """A loaded node."""
        return self._tree.node(node_id)

    def parent(self, node_id: str) -> Node | None:
        """The node that contains it; None for a file."""
        return self._tree.parent(node_id)

    def children(self, node_id: str) -> Sequence[Node]:
        """The nodes that it contains, in document order."""
        return self._tree.children(node_id)

    def siblings(self, node_id: str, count: int | None = None) -> Sequence[Node]:
        """The other children of its parent, nearest first, at most `count`; a file has none."""
        return self._tree.siblings(node_id, count)

    def links(self, node_id: str) -> Sequence[Node]:
        """The nodes that it links to, in the order of the links."""
        self.load_links([node_id])
        return self._tree.links(node_id)

    def backlinks(self, node_id: str) -> Sequence[Node]:
        """The nodes that link to it, each once, by document and place."""
        sources = link_sources(self._connection, node_id)
        self.load(key for _, key in sources)
        return [self.node(source_id) for source_id, _ in sources]
