"""Chunk hits become nodes. Pure: values in, values out."""

from collections.abc import Iterable
from math import log2

from retriever.types import Ranked


def rank_by_best_chunk(hits: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Chunk hits, each with the node that is shown for it and its cosine -> each node by its best one; ties by id."""
    best: dict[str, Ranked] = {}
    for hit in hits:
        if hit.node_id not in best or hit.score > best[hit.node_id].score:
            best[hit.node_id] = hit
    return sort_ranked(best.values())


def rank_by_distance_and_rank(hits: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """As `rank_by_best_chunk`, with a chunk's cosine weighed by its rank among the chunks: cosine / log2(1 + rank).

    The discount is the one of DCG (Järvelin and Kekäläinen, TOIS 2002).
    """
    return rank_by_best_chunk(
        Ranked(hit.node_id, hit.score / log2(1 + rank), matched=hit.matched)
        for rank, hit in enumerate(sort_ranked(hits), start=1)
    )


def sort_ranked(items: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Best first, ties by node id."""
    return tuple(sorted(items, key=lambda item: (-item.score, item.node_id)))


def first_of_each(items: Iterable[Ranked]) -> list[Ranked]:
    """The items, best first, without those of a node that came before."""
    best: dict[str, Ranked] = {}
    for item in items:
        best.setdefault(item.node_id, item)
    return list(best.values())
