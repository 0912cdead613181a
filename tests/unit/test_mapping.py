from math import log2

import pytest

from pageindex.node import Span
from retriever.searching.mapping import best_of_each, rank_by_distance_and_rank
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
