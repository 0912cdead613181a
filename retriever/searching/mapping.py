"""Chunk hits become nodes. Pure: values in, values out."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2

from pageindex.node import Node, Span
from retriever.types import Ranked


@dataclass(frozen=True, slots=True)
class ChunkHit:
    """A chunk that a query found."""

    span: Span | None
    """Its lines in its file; None when only its breadcrumb is known."""
    breadcrumb: tuple[str, ...]
    """Titles down to and including its section's own; not read when the lines are known."""
    similarity: float
    """Cosine, -1 to 1; higher is better."""


def find_node(hit: ChunkHit, nodes: Sequence[Node]) -> Node | None:
    """The node that holds most of the hit's lines; the first of several.

    Without lines: the node whose titles, breadcrumb and own, end the hit's; the one with most titles, then the first.

    Args:
        hit: a chunk.
        nodes: those of its file that have lines, in document order: their spans follow one another.

    Returns:
        None when no node fits.
    """

    def place_of_line(line: int) -> int:
        return max(0, bisect_right(nodes, line, key=lambda node: node.span.first if node.span else 0) - 1)

    if hit.span is not None:
        near = nodes[place_of_line(hit.span.first) : place_of_line(hit.span.last) + 1]
        fits = [node.span.overlap(hit.span) if node.span else 0 for node in near]
    else:
        near, titles = nodes, [(*node.breadcrumb, node.title) for node in nodes]
        fits = [len(own) if hit.breadcrumb[-len(own) :] == own else 0 for own in titles]
    best = max(fits, default=0)
    return near[fits.index(best)] if best else None


def rank_by_best_chunk(hits: Iterable[tuple[str, ChunkHit]]) -> tuple[Ranked, ...]:
    """Node ids with their chunk hits -> a ranking of nodes, each by its best chunk's cosine; ties by node id."""
    best: dict[str, Ranked] = {}
    for node_id, hit in hits:
        if node_id not in best or hit.similarity > best[node_id].score:
            best[node_id] = Ranked(node_id, hit.similarity, matched=hit.span)
    return sort_ranked(best.values())


def rank_by_distance_and_rank(hits: Iterable[tuple[str, ChunkHit]]) -> tuple[Ranked, ...]:
    """As `rank_by_best_chunk`, with a chunk's cosine weighed by its rank among the chunks: cosine / log2(1 + rank).

    The discount is the one of DCG (Järvelin and Kekäläinen, TOIS 2002).
    """
    ordered = sorted(hits, key=lambda item: (-item[1].similarity, item[0]))
    best: dict[str, Ranked] = {}
    for rank, (node_id, hit) in enumerate(ordered, start=1):
        best.setdefault(node_id, Ranked(node_id, hit.similarity / log2(1 + rank), matched=hit.span))
    return sort_ranked(best.values())


def sort_ranked(items: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Best first, ties by node id."""
    return tuple(sorted(items, key=lambda item: (-item.score, item.node_id)))


def first_of_each(items: Iterable[Ranked]) -> list[Ranked]:
    """The items, best first, without those of a node that came before."""
    best: dict[str, Ranked] = {}
    for item in items:
        best.setdefault(item.node_id, item)
    return list(best.values())
