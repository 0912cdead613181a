"""Chunk hits become nodes. Pure: values in, values out."""

from collections.abc import Iterable
from dataclasses import replace
from math import log2

from retriever.types import Ranked

SECOND_SHARE = 0.3  # of a section's score, what its second chunk says; nDCG@10 with 0, .3 and .5: .688, .701, .693
NO_SECOND = 0.7  # of the best chunk's cosine: what counts for a second one that was not found


def rank_by_two_chunks(hits: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """As `best_of_each` for chunk hits, with a share of the score for a node's second chunk.

    Two chunks near the question are better evidence than one, which may be near by chance.
    """
    best: dict[str, Ranked] = {}
    second: dict[str, float] = {}
    for hit in sort_ranked(hits):
        if hit.node_id in best:
            second.setdefault(hit.node_id, hit.score)
        else:
            best[hit.node_id] = hit
    return sort_ranked(
        replace(
            hit,
            score=(1 - SECOND_SHARE) * hit.score + SECOND_SHARE * second.get(hit.node_id, NO_SECOND * hit.score),
        )
        for hit in best.values()
    )


def rank_by_distance_and_rank(hits: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """As `best_of_each` for chunk hits, with a chunk's cosine weighed by its rank: cosine / log2(1 + rank).

    The discount is the one of DCG (Järvelin and Kekäläinen, TOIS 2002).
    """
    ranks = enumerate(sort_ranked(hits), start=1)
    return sort_ranked(
        first_of_each(Ranked(hit.node_id, hit.score / log2(1 + rank), matched=hit.matched) for rank, hit in ranks)
    )


def best_of_each(items: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Of each node the item with the highest score, the first of several; best first, ties by node id."""
    return tuple(first_of_each(sort_ranked(items)))


def sort_ranked(items: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Best first, ties by node id."""
    return tuple(sorted(items, key=lambda item: (-item.score, item.node_id)))


def first_of_each(items: Iterable[Ranked]) -> list[Ranked]:
    """The items, best first, without those of a node that came before."""
    best: dict[str, Ranked] = {}
    for item in items:
        best.setdefault(item.node_id, item)
    return list(best.values())
