"""Several rankings become one, by their ranks or by their scores. Pure: values in, values out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import log

from retriever.settings.schema import Profile
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
    return _added(
        (
            (ranking.weight * item.evidence / (k + rank), ranking, rank, item)
            for ranking in rankings
            if ranking.weight
            for rank, item in enumerate(ranking.items, start=1)
        ),
        limit,
    )


Scaling = Callable[[Ranking], Sequence[float]]
"""A ranking's scores, in its order, on a scale of 0 to 1."""


def score_fusion(rankings: Sequence[Ranking], scaling: Scaling, limit: int | None = None) -> tuple[Candidate, ...]:
    """Adds, over the rankings that hold a node, weight * its scaled score.

    Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 2023: unlike ranks, scores
    keep how far apart two nodes are. A ranking that does not hold a node adds nothing to it.

    Args:
        rankings: as for `reciprocal_rank_fusion`, with the weights that `weighed` gives them.
        scaling: `on_fixed_scale` or `over_the_list`.
        limit: how many of the best to return; None for all.

    Returns:
        As `reciprocal_rank_fusion`; a score is at most the sum of the weights.
    """
    return _added(
        (
            (ranking.weight * scaled, ranking, rank, item)
            for ranking in rankings
            if ranking.weight
            for rank, (scaled, item) in enumerate(zip(_scaled(ranking, scaling), ranking.items, strict=True), start=1)
        ),
        limit,
    )


def _scaled(ranking: Ranking, scaling: Scaling) -> Sequence[float]:
    """Neighbours have decayed scores of the fusion itself: the best of them is no better than they say.

    And where all documents are of one week, the oldest is about as new as the newest, and not worth nothing.
    """
    return on_fixed_scale(ranking) if ranking.arm in ("neighbors", "temporal") else scaling(ranking)


def on_fixed_scale(ranking: Ranking) -> list[float]:
    """Shares of the highest score that there could be for the question; scores below 0 are no evidence.

    The paper's theoretical bounds: the scale does not depend on what else was found. The lower bound is 0 for cosines
    too, since a node that the ranking does not hold has 0.
    """
    if ranking.ceiling <= 0:
        return [0.0] * len(ranking.items)
    return [min(1.0, max(0.0, item.score / ranking.ceiling)) for item in ranking.items]


def over_the_list(ranking: Ranking) -> list[float]:
    """From 0 for the lowest score in the ranking to 1 for the highest; 1 for all where all are equal.

    Min-max scaling: Lee, "Analyses of Multiple Evidence Combination", SIGIR 1997.
    """
    scores = [item.score for item in ranking.items]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - low) / (high - low) if high > low else 1.0 for score in scores]


def weighed(rankings: Sequence[Ranking], weights: Mapping[str, float]) -> tuple[Ranking, ...]:
    """The rankings with the weights by which `score_fusion` adds them; once more changes nothing.

    Rankings of one kind share its weight in proportion to their own: late interaction that weighs as much as the dense
    list takes half of what both have. A ranking of weight 0 gives no evidence, and its share to the others.

    Args:
        rankings: with the weights that they have in a fusion by ranks.
        weights: of `dense` (late interaction is of its kind), `lexical`, `temporal` and `neighbors`.
    """
    together: dict[str, float] = {}
    for ranking in rankings:
        kind = _kind(ranking)
        together[kind] = together.get(kind, 0.0) + ranking.weight
    return tuple(
        replace(ranking, weight=weights[_kind(ranking)] * (ranking.weight / together[_kind(ranking)]))
        if ranking.weight
        else ranking
        for ranking in rankings
    )


def _kind(ranking: Ranking) -> str:
    return "dense" if ranking.arm == "late" else ranking.arm


def _added(found: Iterable[_Place], limit: int | None) -> tuple[Candidate, ...]:
    """The nodes by the sums of their shares, best first, ties by node id."""
    places: dict[str, list[_Place]] = {}
    for place in found:
        places.setdefault(place[3].node_id, []).append(place)
    for shares in places.values():
        shares.sort(key=lambda place: (-place[0], place[1].arm))
    scores = {node_id: sum(place[0] for place in shares) for node_id, shares in places.items()}
    best = sorted(scores, key=lambda node_id: (-scores[node_id], node_id))[:limit]
    return tuple(Candidate(node_id, scores[node_id], tuple(map(_evidence, places[node_id]))) for node_id in best)


def _evidence(place: _Place) -> Evidence:
    share, ranking, rank, item = place
    return Evidence(ranking.arm, rank, item.score, ranking.scale, share, item.origin)


# How a profile has the rankings of a search fused.


def fused(rankings: Sequence[Ranking], profile: Profile, limit: int | None = None) -> tuple[Candidate, ...]:
    """The nodes of the rankings, best first, by the profile's fusion: the first `limit`, or all of them."""
    if profile.fusion.method == "rrf":
        return reciprocal_rank_fusion(rankings, profile.rrf_k, limit)
    scaling = on_fixed_scale if profile.fusion.method == "convex" else over_the_list
    return score_fusion(as_weighed(rankings, profile), scaling, limit)


def as_weighed(rankings: Sequence[Ranking], profile: Profile) -> tuple[Ranking, ...]:
    """The rankings with the weights that the profile's fusion gives them."""
    return tuple(rankings) if profile.fusion.method == "rrf" else weighed(rankings, _weights_of_arms(profile))


def _weights_of_arms(profile: Profile) -> dict[str, float]:
    """Convex weights add up to 1 over what both arms found; a neighbour's score is one already, decayed."""
    fusion = profile.fusion
    temporal = fusion.recency_weight if fusion.method == "blended" else 0.0
    total = 1.0 if fusion.method == "blended" else fusion.semantic_weight + fusion.keyword_weight or 1.0
    return {
        "dense": fusion.semantic_weight / total,
        "lexical": fusion.keyword_weight / total,
        "temporal": temporal,
        "neighbors": profile.neighbor_weight,
    }


# Which of the fused candidates are kept. Pure.


def cap_candidates(candidates: Sequence[Candidate], cap: int, neighbor_share: float) -> tuple[Candidate, ...]:
    """The first `cap` candidates, of which those that only the tree brought in take at most their share.

    More of them come in where there is nothing else: a place that would stay empty costs no direct hit.

    Args:
        candidates: best first.
        cap: how many to keep.
        neighbor_share: of the cap, 0 to 1.
    """
    if len(candidates) <= cap:
        return tuple(candidates)
    kept = set(_within_share(candidates, int(cap * neighbor_share)))
    rest = [place for place in range(len(candidates)) if place not in kept]
    chosen = sorted([*sorted(kept)[:cap], *rest[: max(0, cap - len(kept))]])
    return tuple(candidates[place] for place in chosen)


def _within_share(candidates: Sequence[Candidate], most: int) -> Iterator[int]:
    """The places of the direct hits and of the first `most` others."""
    for place, candidate in enumerate(candidates):
        is_direct = any(item.arm != "neighbors" and item.arm != "late" for item in candidate.evidence)
        most -= not is_direct
        if is_direct or most >= 0:
            yield place


# What speaks for a section before a question is asked: how new it is, and how often it was opened. Pure.
#
# The prior of Li and Croft, "Time-Based Language Models", CIKM 2003, decays exponentially with age. Age is counted from
# the newest of the sections that are compared, not from the clock: the same index gives the same answer on any day. No
# order depends on it: from a later day all of them would be less by one factor, which is taken out again where they are
# divided by the highest.

SECONDS_OF_A_DAY = 86_400.0


def recency(dates: Sequence[float | None], half_life_days: float) -> list[float]:
    """For each date 0.5 ** (age / half-life): 1 for the newest, 0.5 for one that is a half-life older; 0 to 1.

    Args:
        dates: seconds, from any moment; None, when the time was too young to be kept, is as new as the newest.
        half_life_days: above 0.
    """
    newest = max((date for date in dates if date is not None), default=0.0)
    return [0.5 ** _half_lives(newest if date is None else date, newest, half_life_days) for date in dates]


def _half_lives(date: float, newest: float, half_life_days: float) -> float:
    return (newest - date) / SECONDS_OF_A_DAY / half_life_days


def temporal_scores(dates: Sequence[float | None], opened: Sequence[int], half_life_days: float) -> list[float]:
    """Recency times 1 + ln(1 + how often a section was opened): the tenth time says less than the first; at least 0."""
    return [share * (1.0 + log(1 + times)) for share, times in zip(recency(dates, half_life_days), opened, strict=True)]
