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


def node_of(hit: ChunkHit, nodes: Sequence[Node]) -> Node | None:
    """The node that holds most of the hit's lines; the first of several.

    Without lines: the node whose titles, breadcrumb and own, end the hit's; the one with most titles, then the first.

    Args:
        hit: a chunk.
        nodes: those of its file that have lines, in document order: their spans follow one another.

    Returns:
        None when no node fits.
    """
    near = nodes if hit.span is None else nodes[_at(nodes, hit.span.first) : _at(nodes, hit.span.last) + 1]
    fitting = [(_fit(hit, node), -place) for place, node in enumerate(near)]
    fit, place = max(fitting, default=(0, 0))
    return near[-place] if fit else None


def _at(nodes: Sequence[Node], line: int) -> int:
    """The place of the node that holds the line, or would."""
    return max(0, bisect_right(nodes, line, key=lambda node: node.span.first if node.span else 0) - 1)


def _fit(hit: ChunkHit, node: Node) -> int:
    """How well the node fits: lines in common, or titles in common; 0 when it does not."""
    if hit.span is not None:
        return node.span.overlap(hit.span) if node.span else 0
    titles = (*node.breadcrumb, node.title)
    return len(titles) if hit.breadcrumb[-len(titles) :] == titles else 0


def best_chunk(hits: Iterable[tuple[str, ChunkHit]]) -> tuple[Ranked, ...]:
    """Node ids with their chunk hits -> a ranking of nodes, each by its best chunk's cosine; ties by node id."""
    best: dict[str, Ranked] = {}
    for node_id, hit in hits:
        if node_id not in best or hit.similarity > best[node_id].score:
            best[node_id] = Ranked(node_id, hit.similarity, origin=str(hit.span or ""))
    return in_order(best.values())


def distance_and_rank(hits: Iterable[tuple[str, ChunkHit]]) -> tuple[Ranked, ...]:
    """As `best_chunk`, with a chunk's cosine weighed by its rank among the chunks: cosine / log2(1 + rank).

    The discount is the one of DCG (Järvelin and Kekäläinen, TOIS 2002).
    """
    ordered = sorted(hits, key=lambda item: (-item[1].similarity, item[0]))
    best: dict[str, Ranked] = {}
    for rank, (node_id, hit) in enumerate(ordered, start=1):
        best.setdefault(node_id, Ranked(node_id, hit.similarity / log2(1 + rank), origin=str(hit.span or "")))
    return in_order(best.values())


def in_order(items: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Best first, ties by node id."""
    return tuple(sorted(items, key=lambda item: (-item.score, item.node_id)))
