from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.node import Span
from retriever.searching.fusion import (
    best_of_each,
    rank_by_distance_and_rank,
    rank_by_two_chunks,
    reciprocal_rank_fusion,
)
from retriever.types import Ranked, Ranking, Source


def ranking(source: Source, weight: float, *node_ids: str) -> Ranking:
    return Ranking(source, "cosine", weight, tuple(Ranked(node_id, 1.0 / n) for n, node_id in enumerate(node_ids, 1)))


def test_sums_done_by_hand() -> None:
    lists = [ranking(Source.SEMANTIC, 1.0, "a", "b"), ranking(Source.KEYWORD, 0.5, "b", "c")]
    fused = reciprocal_rank_fusion(lists, k=60)
    assert [item.node_id for item in fused] == ["b", "a", "c"]
    assert [item.score for item in fused] == pytest.approx([1 / 62 + 0.5 / 61, 1 / 61, 0.5 / 62])
    assert [(piece.source, piece.rank) for piece in fused[0].evidence] == [("semantic", 2), ("keyword", 1)]


def test_a_prior_lowers_a_section_in_each_ranking() -> None:
    lists = [ranking(Source.SEMANTIC, 1.0, "a", "b"), ranking(Source.KEYWORD, 0.5, "a")]
    fused = reciprocal_rank_fusion(lists, k=60, priors={"a": 0.5})
    assert {item.node_id: item.score for item in fused} == {
        "a": pytest.approx(0.5 / 61 + 0.5 * 0.5 / 61),
        "b": pytest.approx(1 / 62),
    }


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
    assert all(candidate.score == sum(piece.share for piece in candidate.evidence) for candidate in fused)
    nobody = ranking(Source.RERANK, 0.0, "z")
    assert reciprocal_rank_fusion([*rankings, nobody], k) == fused, "a list of no weight brings nobody in"


def hit(node_id: str, cosine: float, line: int = 1) -> Ranked:
    return Ranked(node_id, cosine, matched=Span(line, line))


def test_a_node_is_as_good_as_its_best_chunk_or_by_distance_and_rank() -> None:
    ranked = best_of_each([hit("b", 0.3), hit("a", 0.5, 7), hit("b", 0.9, 4), hit("c", 0.5)])
    assert ranked == (
        Ranked("b", 0.9, matched=Span(4, 4)),
        Ranked("a", 0.5, matched=Span(7, 7)),
        Ranked("c", 0.5, matched=Span(1, 1)),
    )
    ranked = rank_by_distance_and_rank([hit("a", 0.8), hit("b", 0.6), hit("a", 0.7)])
    assert [item.node_id for item in ranked] == ["a", "b"]
    assert [item.score for item in ranked] == [pytest.approx(0.8 / log2(2)), pytest.approx(0.6 / log2(4))]


def test_a_second_chunk_near_the_question_counts_and_a_third_does_not() -> None:
    ranked = rank_by_two_chunks([hit("a", 0.80, 1), hit("b", 0.78, 5), hit("b", 0.76, 9), hit("b", 0.75, 12)])
    assert [(item.node_id, item.matched) for item in ranked] == [("b", Span(5, 5)), ("a", Span(1, 1))]
    assert [item.score for item in ranked] == [
        pytest.approx(0.7 * 0.78 + 0.3 * 0.76),
        pytest.approx(0.7 * 0.8 + 0.3 * 0.7 * 0.8),
    ]
