"""How a profile has the rankings of a search fused."""

from collections.abc import Sequence

from retriever.searching.fusion import on_fixed_scale, over_the_list, reciprocal_rank_fusion, score_fusion, weighed
from retriever.settings.profile import Profile
from retriever.types import Candidate, Ranking


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
    temporal = fusion.temporal_weight if fusion.method == "blended" else 0.0
    total = 1.0 if fusion.method == "blended" else fusion.semantic_weight + fusion.lexical_weight or 1.0
    return {
        "dense": fusion.semantic_weight / total,
        "lexical": fusion.lexical_weight / total,
        "temporal": temporal,
        "neighbors": profile.neighbor_weight,
    }
