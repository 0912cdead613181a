"""The tree around the hits: parents, children, siblings and linked sections, each with a decayed score. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pageindex.node import Node, NodeKind
from retriever.searching.mapping import in_order
from retriever.types import Ranked


class Tree(Protocol):
    """What is asked of a tree here; `DocumentTree` is one."""

    def node(self, node_id: str) -> Node:
        """The node with that id."""

    def parent(self, node_id: str) -> Node | None:
        """The node that contains it."""

    def children(self, node_id: str) -> Sequence[Node]:
        """The nodes that it contains, in document order."""

    def siblings(self, node_id: str, count: int | None = None) -> Sequence[Node]:
        """The other children of its parent, nearest first; at most `count`."""

    def links(self, node_id: str) -> Sequence[Node]:
        """The nodes that it links to."""


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """How far to look and what is left of a score on the way; each decay is in [0, 1] and applies once a step."""

    depth: int
    parent_decay: float
    child_decay: float
    sibling_decay: float
    link_decay: float
    siblings_per_node: int
    """The nearest so many siblings."""
    links_per_node: int
    """The first so many link targets."""


def neighbors(hits: Sequence[Ranked], tree: Tree, around: Neighborhood) -> tuple[Ranked, ...]:
    """The nodes around the hits, the hits themselves left out; best first, ties by node id.

    A node that several hits bring in has the largest of the scores that they give it. Only nodes with lines of their
    own are neighbours, but the way to one may lead over others.
    """
    best = {hit.node_id: hit for hit in hits}
    frontier = list(hits)
    for _ in range(around.depth):
        reached = _best_of(item for hit in frontier for item in _around(hit, tree, around))
        frontier = [item for item in reached if item.node_id not in best or item.score > best[item.node_id].score]
        best.update((item.node_id, item) for item in frontier)
    direct = {hit.node_id for hit in hits}
    return in_order(item for item in best.values() if item.node_id not in direct and tree.node(item.node_id).span)


def file_roots(hits: Iterable[Ranked], tree: Tree, count: int, decay: float) -> tuple[Ranked, ...]:
    """The top section of each of the `count` best files, with its best hit's decayed score; hits best first."""
    best: dict[str, Ranked] = {}
    for hit in hits:
        if len(best) == count:
            break
        root = _file_root(hit.node_id, tree)
        if root is not None:
            best.setdefault(root.id, Ranked(root.id, hit.score * decay, origin=f"file of {hit.node_id}"))
    return in_order(best.values())


def merge(rankings: Iterable[Sequence[Ranked]]) -> tuple[Ranked, ...]:
    """One list of each node's best score; best first, ties by node id."""
    return in_order(_best_of(item for ranking in rankings for item in ranking))


def _best_of(items: Iterable[Ranked]) -> Iterable[Ranked]:
    best: dict[str, Ranked] = {}
    for item in items:
        if item.node_id not in best or item.score > best[item.node_id].score:
            best[item.node_id] = item
    return best.values()


def _around(hit: Ranked, tree: Tree, around: Neighborhood) -> Iterator[Ranked]:
    """One step from a hit in each direction."""
    parent = tree.parent(hit.node_id)
    steps: list[tuple[str, float, Sequence[Node]]] = [
        ("parent", around.parent_decay, [parent] if parent else []),
        ("child", around.child_decay, tree.children(hit.node_id)),
        ("sibling", around.sibling_decay, tree.siblings(hit.node_id, around.siblings_per_node)),
        ("link", around.link_decay, tree.links(hit.node_id)[: around.links_per_node]),
    ]
    for relation, decay, nodes in steps:
        for node in nodes:
            if node.kind is not NodeKind.FOLDER:
                yield Ranked(node.id, hit.score * decay, origin=f"{relation} of {hit.node_id}")


def _file_root(node_id: str, tree: Tree) -> Node | None:
    """The first node of the file that has lines: the file itself, or its first heading."""
    node: Node | None = tree.node(node_id)
    while node is not None and node.kind is NodeKind.SECTION:
        node = tree.parent(node.id)
    if node is None or node.span:
        return node
    return next((child for child in tree.children(node.id) if child.span), None)
