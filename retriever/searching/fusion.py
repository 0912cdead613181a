"""Rankings: chunks become sections, and several rankings one. Pure: values in, values out."""

from collections.abc import Iterable, Mapping, Sequence
from math import log2

from retriever.types import Candidate, Evidence, Ranked, Ranking

NO_PRIORS: Mapping[str, float] = {}
SECOND_SHARE = 0.3  # of a section's score, what its second chunk says; nDCG@10 with 0, .3 and .5: .688, .701, .693
NO_SECOND = 0.7  # of the best chunk's cosine: what counts for a second one that was not found


def reciprocal_rank_fusion(
    rankings: Sequence[Ranking], k: float, priors: Mapping[str, float] = NO_PRIORS
) -> tuple[Candidate, ...]:
    """Add, over the rankings that hold a node, weight * evidence * prior / (k + rank), with ranks from 1.

    Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods",
    SIGIR 2009, with a weight for each ranking, evidence for each node in it, and a prior for each node: a rank says
    nothing of how much was found, and the first of a list that found little is no better than the tenth of one that
    found much. With all of them 1 it is the paper's. `k` damps the lead of the first ranks; it is no cut-off.

    Args:
        rankings: each best first, each node once; a ranking of weight 0 gives no evidence.
        k: above 0; 60 in the paper.
        priors: how likely a node is an answer to any question, 0 to 1, by its id; 1 where nothing is said.

    Returns:
        The nodes of the rankings, best first, ties by node id.
    """
    by_node: dict[str, list[Evidence]] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking.items if ranking.weight else (), start=1):
            share = ranking.weight * item.evidence * priors.get(item.node_id, 1.0) / (k + rank)
            own = Evidence(ranking.source, rank, item.score, ranking.scale, share, item.matched, item.via, item.note)
            by_node.setdefault(item.node_id, []).append(own)
    for found in by_node.values():
        found.sort(key=lambda own: -own.share)  # equal shares stay in the order of the rankings
    scores = {node_id: sum(own.share for own in found) for node_id, found in by_node.items()}
    best = sorted(scores, key=lambda node_id: (-scores[node_id], node_id))
    return tuple(Candidate(node_id, scores[node_id], tuple(by_node[node_id])) for node_id in best)


def rank_by_two_chunks(hits: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Do as `best_of_each` for chunk hits, with a share of the score for a node's second chunk.

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
        Ranked(
            hit.node_id,
            (1 - SECOND_SHARE) * hit.score + SECOND_SHARE * second.get(hit.node_id, NO_SECOND * hit.score),
            matched=hit.matched,
        )
        for hit in best.values()
    )


def rank_by_distance_and_rank(hits: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Do as `best_of_each` for chunk hits, with a chunk's cosine weighed by its rank: cosine / log2(1 + rank).

    The discount is the one of DCG (Järvelin and Kekäläinen, TOIS 2002).
    """
    ranks = enumerate(sort_ranked(hits), start=1)
    return sort_ranked(
        first_of_each(Ranked(hit.node_id, hit.score / log2(1 + rank), matched=hit.matched) for rank, hit in ranks)
    )


def best_of_each(items: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Return each node's item with the highest score, the first of several; best first, ties by node id."""
    return tuple(first_of_each(sort_ranked(items)))


def sort_ranked(items: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """Sort the items: best first, ties by node id."""
    return tuple(sorted(items, key=lambda item: (-item.score, item.node_id)))


def first_of_each(items: Iterable[Ranked]) -> list[Ranked]:
    """Return the first item of each node, in the order of the items."""
    best: dict[str, Ranked] = {}
    for item in items:
        best.setdefault(item.node_id, item)
    return list(best.values())
