import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.front_matter import read_front_matter
from retriever.searching.fusion import (
    Fusion,
    fuse,
    reciprocal_rank_fusion,
    scale_by_bounds,
    scale_over_list,
    score_fusion,
    share_weights,
    weigh_rankings,
)
from retriever.searching.recency import SECONDS_OF_A_DAY, decay_by_age
from retriever.settings.schema import FusionSettings, Profile
from retriever.types import Candidate, Ranked, Ranking, Source

WEIGHTS = {Source.SEMANTIC: 0.55, Source.KEYWORD: 0.30, Source.RECENCY: 0.15, Source.NEIGHBORS: 0.1}


def ranking(source: Source, weight: float, *node_ids: str) -> Ranking:
    return Ranking(source, "cosine", weight, tuple(Ranked(node_id, 1.0 / n) for n, node_id in enumerate(node_ids, 1)))


def scored(source: Source, ceiling: float = 1.0, weight: float = 1.0, **scores: float) -> Ranking:
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return Ranking(source, "any", weight, tuple(Ranked(node_id, score) for node_id, score in ordered), ceiling)


def scores_of(candidates: Sequence[Candidate]) -> dict[str, float]:
    return {candidate.node_id: round(candidate.score, 9) for candidate in candidates}


def with_method(method: str, **settings: float) -> Fusion:
    return Profile(fusion=FusionSettings(method=method, **settings)).part(Fusion)  # type: ignore[arg-type]  # a Literal


def test_sums_done_by_hand() -> None:
    lists = [ranking(Source.SEMANTIC, 1.0, "a", "b"), ranking(Source.KEYWORD, 0.5, "b", "c")]
    fused = reciprocal_rank_fusion(lists, k=60)
    assert [item.node_id for item in fused] == ["b", "a", "c"]
    assert [item.score for item in fused] == pytest.approx([1 / 62 + 0.5 / 61, 1 / 61, 0.5 / 62])
    assert [(piece.source, piece.rank) for piece in fused[0].evidence] == [("semantic", 2), ("keyword", 1)]


def test_a_list_of_no_weight_brings_nobody_in() -> None:
    assert reciprocal_rank_fusion([ranking(Source.SEMANTIC, 0.0, "a")], k=60) == ()
    assert score_fusion([ranking(Source.SEMANTIC, 0.0, "a")], scale_over_list) == ()
    nothing = with_method("convex", semantic_weight=0.0, keyword_weight=0.0)
    assert fuse([scored(Source.SEMANTIC, a=0.5), scored(Source.KEYWORD, a=0.5)], nothing) == ()


lists = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1, max_size=4)


@given(lists, st.floats(0.1, 1000))
def test_every_node_comes_out_once_and_more_evidence_never_hurts(names: list[list[str]], k: float) -> None:
    rankings = [ranking(source, 1.0, *found) for source, found in zip(Source, names, strict=False)]
    fused = reciprocal_rank_fusion(rankings, k)
    assert sorted(candidate.node_id for candidate in fused) == sorted({name for found in names for name in found})
    before = {candidate.node_id: candidate.score for candidate in fused}
    after = reciprocal_rank_fusion([*rankings, ranking(Source.RERANK, 1.0, "a")], k)
    assert all(candidate.score >= before.get(candidate.node_id, 0.0) for candidate in after)
    assert list(fused) == sorted(fused, key=lambda candidate: (-candidate.score, candidate.node_id))
    assert [reciprocal_rank_fusion(rankings, k, limit) for limit in range(9)] == [fused[:limit] for limit in range(9)]


def test_convex_sums_done_by_hand() -> None:
    dense = scored(Source.SEMANTIC, a=0.8, b=0.4, c=-0.2)
    lexical = scored(Source.KEYWORD, 20.0, b=15.0, d=5.0)
    found = fuse([dense, lexical], with_method("convex", semantic_weight=0.6, keyword_weight=0.4))
    assert scores_of(found) == {
        "b": round(0.6 * 0.4 + 0.4 * 0.75, 9),
        "a": round(0.6 * 0.8, 9),
        "d": round(0.4 * 0.25, 9),
        "c": 0.0,
    }
    assert [candidate.node_id for candidate in found] == ["b", "a", "d", "c"]


def test_blended_sums_done_by_hand() -> None:
    dense = scored(Source.SEMANTIC, a=0.8, b=0.5, c=0.4)
    lexical = scored(Source.KEYWORD, 20.0, b=15.0, d=5.0)
    temporal = scored(Source.RECENCY, a=0.5, b=0.25, c=1.0, d=0.0)
    found = fuse([dense, lexical, temporal], with_method("blended"))
    assert scores_of(found) == {
        "a": round(0.55 * 1 + 0.15 * 0.5, 9),
        "b": round(0.55 * 0.25 + 0.30 * 1 + 0.15 * 0.25, 9),
        "c": round(0.15 * 1, 9),
        "d": 0.0,
    }
    (piece, *_) = found[0].evidence
    assert (piece.source, piece.rank, piece.score, round(piece.share, 9)) == ("semantic", 1, 0.8, 0.55)


def test_two_lists_of_one_kind_share_its_weight() -> None:
    rankings = [
        scored(Source.SEMANTIC, a=1.0, b=0.0),
        scored(Source.SEMANTIC, weight=3.0, b=1.0, a=0.0),
        scored(Source.KEYWORD, c=1.0),
    ]
    assert [piece.weight for piece in share_weights(rankings, WEIGHTS)] == pytest.approx([0.55 / 4, 0.55 * 3 / 4, 0.30])
    without = [replace(rankings[0], weight=0.0), *rankings[1:]]
    assert [piece.weight for piece in share_weights(without, WEIGHTS)] == pytest.approx([0.0, 0.55, 0.30])


@pytest.mark.parametrize("method", ["convex", "blended"])
def test_a_neighbour_never_passes_the_hit_that_brought_it_in(method: str) -> None:
    direct = [scored(Source.SEMANTIC, a=0.9, b=0.3)]
    settings = with_method(method)
    best = fuse(direct, settings)[0]
    found = fuse([*direct, scored(Source.NEIGHBORS, weight=settings.neighbor_weight, n=0.75 * best.score)], settings)
    assert scores_of(found)["n"] == round(0.1 * 0.75 * best.score, 9)
    assert found[0].node_id == "a"


def test_without_an_arm_the_other_ranks_alone_and_lists_may_tell_nothing_apart() -> None:
    lexical = scored(Source.KEYWORD, 10.0, a=2.0, b=9.0)
    for method in ("convex", "blended"):
        assert [candidate.node_id for candidate in fuse([lexical], with_method(method))] == ["b", "a"]
        assert fuse([replace(lexical, items=())], with_method(method)) == ()
    assert scale_over_list(scored(Source.SEMANTIC, a=0.3)) == [1.0]
    assert scale_over_list(scored(Source.SEMANTIC, a=-0.3, b=-0.3)) == [1.0, 1.0]
    assert scale_over_list(scored(Source.SEMANTIC)) == []
    assert scale_by_bounds(scored(Source.KEYWORD, 0.0, a=0.0, b=-1.0)) == [0.0, 0.0]


some_scores = st.dictionaries(st.sampled_from("abcdef"), st.floats(-1e6, 1e6), max_size=6)
some_ranking = st.builds(
    lambda source, ceiling, weight, found: scored(source, ceiling, weight, **found),
    st.sampled_from([source for source in Source if source not in (Source.RERANK, Source.ROUNDS)]), st.floats(0, 1e6),
    st.floats(0, 10), some_scores,
)  # fmt: skip
some_rankings = st.lists(some_ranking, max_size=5, unique_by=lambda item: item.source)


@pytest.mark.parametrize("method", ["rrf", "convex", "blended"])
@given(some_rankings)
def test_scores_are_finite_sums_of_their_shares(method: str, rankings: list[Ranking]) -> None:
    settings = with_method(method)
    found = fuse(rankings, settings)
    assert all(math.isfinite(candidate.score) for candidate in found)
    assert all(candidate.score == sum(piece.share for piece in candidate.evidence) for candidate in found)
    assert list(found) == sorted(found, key=lambda candidate: (-candidate.score, candidate.node_id))
    again = fuse(weigh_rankings(rankings, settings), settings)
    assert scores_of(again) == pytest.approx(scores_of(found), abs=1e-9)


DAY = SECONDS_OF_A_DAY


def test_recency_by_hand() -> None:
    assert decay_by_age([400 * DAY, 220 * DAY, 40 * DAY], 180.0) == [1.0, 0.5, 0.25]
    # What was too young to have a time is as new as the newest.
    assert decay_by_age([None, 100 * DAY, 10 * DAY], 90.0) == [1.0, 1.0, 0.5]
    assert decay_by_age([None, None], 90.0) == [1.0, 1.0]
    assert decay_by_age([], 90.0) == []


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2024-05-01", 1_714_521_600), ("2024-05-01T02:00:00+02:00", 1_714_521_600),
        ("2024-05-01T00:00:00Z", 1_714_521_600), ("2024-05-01 10:00:00 +0200", 1_714_550_400),
        ("2024-05-01 10:00 UTC", 1_714_521_600), ("1969-12-31", -86_400), ("0001-01-01", -62_135_596_800),
        ("2024-13-01", None), ("in spring", None), ("''", None),
    ],
)  # fmt: skip
def test_a_date_in_front_matter(written: str, seconds: int | None) -> None:
    assert read_front_matter(f"---\ndate: {written}\n---\n").dated == seconds
    assert read_front_matter("# Title\n").dated is None
