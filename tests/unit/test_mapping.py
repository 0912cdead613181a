from math import log2

import pytest

from pageindex.node import Span
from retriever.searching.mapping import best_of_each, rank_by_distance_and_rank, rank_by_two_chunks
from retriever.types import Ranked


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
