"""Rankings: chunks become sections, and several rankings one, by ranks or by scores. Pure: values in, values out."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import log2

from retriever.settings.schema import Profile
from retriever.types import Candidate, Evidence, Ranked, Ranking, Source

# Of each score in blended; the neighbors' is that of their ranking in each method.
SEMANTIC_WEIGHT, KEYWORD_WEIGHT, RECENCY_WEIGHT, NEIGHBOR_WEIGHT = 0.55, 0.30, 0.15, 0.1
MIN_COSINE = 0.25  # a lower one does not count in blended

SECOND_SHARE = 0.3  # of a section's score, what its second chunk says; nDCG@10 with 0, .3 and .5: .688, .701, .693
NO_SECOND = 0.7  # of the best chunk's cosine: what counts for a second one that was not found

# What a node gets from one ranking, the ranking, the rank in it, and the item of that rank.
_Share = tuple[float, Ranking, int, Ranked]


def fuse(rankings: Sequence[Ranking], profile: Profile, limit: int | None = None) -> tuple[Candidate, ...]:
    """Fuse the rankings by the method of the profile; return the nodes, best first: the first `limit`, or all."""
    if profile.fusion == "rrf":
        return reciprocal_rank_fusion(rankings, profile.rrf_k, limit)
    return score_fusion(weigh_rankings(rankings, profile), limit)


def reciprocal_rank_fusion(rankings: Sequence[Ranking], k: float, limit: int | None = None) -> tuple[Candidate, ...]:
    """Add, over the rankings that hold a node, weight * evidence / (k + rank), with ranks from 1.

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
    shares = (
        (ranking.weight * item.evidence / (k + rank), ranking, rank, item)
        for ranking in rankings
        if ranking.weight
        for rank, item in enumerate(ranking.items, start=1)
    )
    return _add_shares(shares, limit)


def score_fusion(rankings: Sequence[Ranking], limit: int | None = None) -> tuple[Candidate, ...]:
    """Add, over the rankings that hold a node, weight * its score from 0 to 1; semantic and keyword ones are scaled.

    Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 2023: unlike ranks, scores
    keep how far apart two nodes are. A ranking that does not hold a node adds nothing to it.

    Args:
        rankings: as for `reciprocal_rank_fusion`, with the weights that `weigh_rankings` gives them.
        limit: how many of the best to return; None for all.

    Returns:
        As `reciprocal_rank_fusion`; a score is at most the sum of the weights.
    """
    shares: list[_Share] = []
    for ranking in rankings:
        if not ranking.weight:
            continue
        # Neighbors have decayed scores of the fusion itself: the best of them is no better than they say. And where all
        # documents are of one week, the oldest is about as new as the newest, and not worth nothing.
        is_scaled = ranking.source in (Source.SEMANTIC, Source.KEYWORD)
        scores = scale_over_list(ranking) if is_scaled else [min(1.0, max(0.0, item.score)) for item in ranking.items]
        for rank, (score, item) in enumerate(zip(scores, ranking.items, strict=True), start=1):
            shares.append((ranking.weight * score, ranking, rank, item))
    return _add_shares(shares, limit)


def _add_shares(shares: Iterable[_Share], limit: int | None) -> tuple[Candidate, ...]:
    by_node: dict[str, list[_Share]] = {}
    for share in shares:
        by_node.setdefault(share[3].node_id, []).append(share)
    for found in by_node.values():
        found.sort(key=lambda share: -share[0])  # equal shares stay in the order of the rankings
    scores = {node_id: sum(share[0] for share in found) for node_id, found in by_node.items()}
    best = sorted(scores, key=lambda node_id: (-scores[node_id], node_id))[:limit]
    return tuple(
        Candidate(
            node_id,
            scores[node_id],
            tuple(
                Evidence(ranking.source, rank, item.score, ranking.scale, share, item.matched, item.via, item.note)
                for share, ranking, rank, item in by_node[node_id]
            ),
        )
        for node_id in best
    )


def scale_over_list(ranking: Ranking) -> list[float]:
    """Scale a ranking's scores from 0 for the lowest to 1 for the highest; 1 for all where all are equal.

    Min-max scaling: Lee, "Analyses of Multiple Evidence Combination", SIGIR 1997.
    """
    scores = [item.score for item in ranking.items]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - low) / (high - low) if high > low else 1.0 for score in scores]


def weigh_rankings(rankings: Sequence[Ranking], profile: Profile) -> tuple[Ranking, ...]:
    """Return the rankings with the weights that the fusion gives them; one of weight 0 keeps it. Idempotent."""
    if profile.fusion == "rrf":
        return tuple(rankings)
    weights = {
        Source.SEMANTIC: SEMANTIC_WEIGHT,
        Source.KEYWORD: KEYWORD_WEIGHT,
        Source.RECENCY: RECENCY_WEIGHT,
        Source.NEIGHBORS: NEIGHBOR_WEIGHT,
        Source.NAME: 1.0,  # as much as the best of both searches
        Source.ROUNDS: 1.0,
    }
    return tuple(replace(item, weight=weights[item.source]) if item.weight else item for item in rankings)


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
        replace(
            hit,
            score=(1 - SECOND_SHARE) * hit.score + SECOND_SHARE * second.get(hit.node_id, NO_SECOND * hit.score),
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
