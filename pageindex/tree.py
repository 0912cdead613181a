"""All nodes of an index as one tree of folders, files and sections."""

from __future__ import annotations  # nx.DiGraph takes a type argument for mypy only

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pageindex.node import Node, NodeKind, folder_id
from pageindex.text import sanitize_line

if TYPE_CHECKING:
    import networkx as nx

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
