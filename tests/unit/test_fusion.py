import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.searching.fusion import (
    as_weighed,
    fused,
    on_fixed_scale,
    over_the_list,
    reciprocal_rank_fusion,
    score_fusion,
    weighed,
)
from retriever.settings.schema import FusionSettings, Profile
from retriever.types import Candidate, Ranked, Ranking

WEIGHTS = {"dense": 0.55, "lexical": 0.30, "temporal": 0.15, "neighbors": 0.1}


def ranking(arm: str, weight: float, *node_ids: str) -> Ranking:
    return Ranking(arm, "cosine", weight, tuple(Ranked(node_id, 1.0 / n) for n, node_id in enumerate(node_ids, 1)))


def scored(arm: str, ceiling: float = 1.0, weight: float = 1.0, **scores: float) -> Ranking:
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return Ranking(arm, "any", weight, tuple(Ranked(node_id, score) for node_id, score in ordered), ceiling)


def scores_of(candidates: Sequence[Candidate]) -> dict[str, float]:
    return {candidate.node_id: round(candidate.score, 9) for candidate in candidates}


def with_method(method: str, **settings: float) -> Profile:
    return Profile(fusion=FusionSettings(method=method, **settings))  # type: ignore[arg-type]  # a Literal


def test_sums_done_by_hand() -> None:
    fused = reciprocal_rank_fusion([ranking("dense", 1.0, "a", "b"), ranking("lexical", 0.5, "b", "c")], k=60)
    assert [candidate.node_id for candidate in fused] == ["b", "a", "c"]
    assert [round(candidate.score, 9) for candidate in fused] == [
        round(1 / 62 + 0.5 / 61, 9),
        round(1 / 61, 9),
        round(0.5 / 62, 9),
    ]


def test_a_candidate_knows_where_its_score_came_from() -> None:
    (first, *_) = reciprocal_rank_fusion([ranking("dense", 1.0, "a"), ranking("lexical", 3.0, "x", "a")], k=60)
    assert [(piece.arm, piece.rank) for piece in first.evidence] == [("lexical", 2), ("dense", 1)]
    assert first.score == sum(piece.share for piece in first.evidence)


def test_equal_scores_are_in_the_order_of_ids() -> None:
    fused = reciprocal_rank_fusion([ranking("dense", 1.0, "z"), ranking("lexical", 1.0, "a")], k=60)
    assert [candidate.node_id for candidate in fused] == ["a", "z"]


def test_a_list_of_no_weight_brings_nobody_in() -> None:
    assert reciprocal_rank_fusion([ranking("dense", 0.0, "a")], k=60) == ()
    assert score_fusion([ranking("dense", 0.0, "a")], over_the_list) == ()


lists = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1, max_size=4)


@given(lists, st.floats(0.1, 1000))
def test_every_node_comes_out_once_and_more_evidence_never_hurts(names: list[list[str]], k: float) -> None:
    rankings = [ranking(f"arm{n}", 1.0, *found) for n, found in enumerate(names)]
    fused = reciprocal_rank_fusion(rankings, k)
    assert sorted(candidate.node_id for candidate in fused) == sorted({name for found in names for name in found})
    before = {candidate.node_id: candidate.score for candidate in fused}
    after = reciprocal_rank_fusion([*rankings, ranking("more", 1.0, "a")], k)
    assert all(candidate.score >= before.get(candidate.node_id, 0.0) for candidate in after)
    assert list(fused) == sorted(fused, key=lambda candidate: (-candidate.score, candidate.node_id))
    assert [reciprocal_rank_fusion(rankings, k, limit) for limit in range(9)] == [fused[:limit] for limit in range(9)]


def test_convex_sums_done_by_hand() -> None:
    dense = scored("dense", a=0.8, b=0.4, c=-0.2)
    lexical = scored("lexical", 20.0, b=15.0, d=5.0)
    found = fused([dense, lexical], with_method("convex", semantic_weight=0.6, keyword_weight=0.4))
    assert scores_of(found) == {
        "b": round(0.6 * 0.4 + 0.4 * 0.75, 9),
        "a": round(0.6 * 0.8, 9),
        "d": round(0.4 * 0.25, 9),
        "c": 0.0,
    }
    assert [candidate.node_id for candidate in found] == ["b", "a", "d", "c"]


def test_blended_sums_done_by_hand() -> None:
    dense = scored("dense", a=0.8, b=0.5, c=0.4)
    lexical = scored("lexical", 20.0, b=15.0, d=5.0)
    temporal = scored("temporal", a=0.5, b=0.25, c=1.0, d=0.0)
    found = fused([dense, lexical, temporal], with_method("blended"))
    assert scores_of(found) == {
        "a": round(0.55 * 1 + 0.15 * 0.5, 9),
        "b": round(0.55 * 0.25 + 0.30 * 1 + 0.15 * 0.25, 9),
        "c": round(0.15 * 1, 9),
        "d": 0.0,
    }
    (piece, *_) = found[0].evidence
    assert (piece.arm, piece.rank, piece.score, round(piece.share, 9)) == ("dense", 1, 0.8, 0.55)


def test_late_interaction_and_the_dense_list_share_the_semantic_weight() -> None:
    rankings = [scored("dense", a=1.0, b=0.0), scored("late", weight=3.0, b=1.0, a=0.0), scored("lexical", c=1.0)]
    assert [piece.weight for piece in weighed(rankings, WEIGHTS)] == pytest.approx([0.55 / 4, 0.55 * 3 / 4, 0.30])
    without = [replace(rankings[0], weight=0.0), *rankings[1:]]
    assert [piece.weight for piece in weighed(without, WEIGHTS)] == pytest.approx([0.0, 0.55, 0.30])


def test_weights_are_given_once() -> None:
    rankings = [scored("dense", a=1.0), scored("late", weight=0.7, a=1.0), scored("neighbors", weight=0.1, b=0.5)]
    once = weighed(rankings, WEIGHTS)
    assert [piece.weight for piece in weighed(once, WEIGHTS)] == pytest.approx([piece.weight for piece in once])


@pytest.mark.parametrize("method", ["convex", "blended"])
def test_a_neighbour_never_passes_the_hit_that_brought_it_in(method: str) -> None:
    direct = [scored("dense", a=0.9, b=0.3)]
    profile = with_method(method)
    best = fused(direct, profile)[0]
    found = fused([*direct, scored("neighbors", weight=profile.neighbor_weight, n=0.75 * best.score)], profile)
    assert scores_of(found)["n"] == round(0.1 * 0.75 * best.score, 9)
    assert found[0].node_id == "a"


def test_without_an_arm_the_other_ranks_alone() -> None:
    lexical = scored("lexical", 10.0, a=2.0, b=9.0)
    for method in ("convex", "blended"):
        assert [candidate.node_id for candidate in fused([lexical], with_method(method))] == ["b", "a"]
        assert fused([replace(lexical, items=())], with_method(method)) == ()


def test_lists_that_tell_nothing_apart() -> None:
    assert over_the_list(scored("dense", a=0.3)) == [1.0]
    assert over_the_list(scored("dense", a=-0.3, b=-0.3)) == [1.0, 1.0]
    assert over_the_list(scored("dense")) == []
    assert on_fixed_scale(scored("lexical", 0.0, a=0.0, b=-1.0)) == [0.0, 0.0]


def test_weights_that_are_all_zero() -> None:
    nothing = with_method("convex", semantic_weight=0.0, keyword_weight=0.0)
    assert fused([scored("dense", a=0.5), scored("lexical", a=0.5)], nothing) == ()


some_scores = st.dictionaries(st.sampled_from("abcdef"), st.floats(-1e6, 1e6), max_size=6)
some_ranking = st.builds(
    lambda arm, ceiling, weight, found: scored(arm, ceiling, weight, **found),
    st.sampled_from(["dense", "lexical", "temporal", "late", "neighbors"]),
    st.floats(0, 1e6),
    st.floats(0, 10),
    some_scores,
)
some_rankings = st.lists(some_ranking, max_size=5, unique_by=lambda item: item.arm)


@pytest.mark.parametrize("scaling", [on_fixed_scale, over_the_list])
@given(some_scores, st.floats(0, 1e6))
def test_scales_are_from_0_to_1_and_keep_the_order(
    scaling: Callable[[Ranking], list[float]], found: dict[str, float], ceiling: float
) -> None:
    scaled = scaling(scored("dense", ceiling, **found))
    assert all(0.0 <= value <= 1.0 for value in scaled)
    assert scaled == sorted(scaled, reverse=True)


@pytest.mark.parametrize("method", ["rrf", "convex", "blended"])
@given(some_rankings)
def test_scores_are_finite_sums_of_their_shares(method: str, rankings: list[Ranking]) -> None:
    profile = with_method(method)
    found = fused(rankings, profile)
    assert all(math.isfinite(candidate.score) for candidate in found)
    assert all(candidate.score == sum(piece.share for piece in candidate.evidence) for candidate in found)
    assert list(found) == sorted(found, key=lambda candidate: (-candidate.score, candidate.node_id))
    again = fused(as_weighed(rankings, profile), profile)
    assert scores_of(again) == pytest.approx(scores_of(found), abs=1e-9)
