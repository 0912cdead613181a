"""Several rankings become one. Pure: values in, values out."""

from collections.abc import Sequence

from retriever.types import Candidate, Evidence, Ranked, Ranking

_Place = tuple[float, Ranking, int, Ranked]
"""A node's share, and where it comes from: the ranking, the rank in it, and what stands there."""


def reciprocal_rank_fusion(rankings: Sequence[Ranking], k: float, limit: int | None = None) -> tuple[Candidate, ...]:
    """Adds, over the rankings that hold a node, weight * evidence / (k + rank), with ranks from 1.

    Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods",
    SIGIR 2009, with a weight for each ranking, and for each node in it: a rank says nothing of how much was found, and
    the first of a list that found little is no better than the tenth of one that found much. With weight and evidence
    1 it is the paper's. `k` damps the lead of the first ranks; it is no cut-off.

    Args:
        rankings: each best first, each node once; a ranking of weight 0 gives no evidence.
        k: above 0; 60 in the paper.
        limit: how many of the best to return; None for all.

    Returns:
        The nodes of the rankings, best first, ties by node id.
    """
    places: dict[str, list[_Place]] = {}
    for ranking in rankings:
        if ranking.weight == 0:
            continue
        for rank, item in enumerate(ranking.items, start=1):
            share = ranking.weight * item.evidence / (k + rank)
            places.setdefault(item.node_id, []).append((share, ranking, rank, item))
    for found in places.values():
        found.sort(key=lambda place: (-place[0], place[1].arm))
    scores = {node_id: sum(place[0] for place in found) for node_id, found in places.items()}
    best = sorted(scores, key=lambda node_id: (-scores[node_id], node_id))[:limit]
    return tuple(Candidate(node_id, scores[node_id], tuple(map(_evidence, places[node_id]))) for node_id in best)


def _evidence(place: _Place) -> Evidence:
    share, ranking, rank, item = place
    return Evidence(ranking.arm, rank, item.score, ranking.scale, share, item.origin)
