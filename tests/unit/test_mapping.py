from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.document import parse_document
from pageindex.node import Node, Span
from retriever.searching.mapping import ChunkHit, find_node, rank_by_best_chunk, rank_by_distance_and_rank
from retriever.types import Ranked

PAGE = """intro
# One
a
b
## Two
c
# Three
d
"""
NODES = [placed.node for placed in parse_document("page.md", PAGE).nodes if placed.node.span]


def at(first: int, last: int) -> Node | None:
    return find_node(ChunkHit(Span(first, last), (), 0.5), NODES)


@pytest.mark.parametrize(
    ("first", "last", "title"),
    [
        (1, 1, "One"), (2, 3, "One"), (5, 6, "Two"), (4, 6, "Two"), (4, 5, "One"), (2, 5, "One"), (6, 8, "Three"),
        (8, 8, "Three"),
    ],
)  # fmt: skip
def test_a_chunk_belongs_to_the_node_with_most_of_its_lines(first: int, last: int, title: str) -> None:
    node = at(first, last)
    assert node is not None
    assert node.title == title
    assert at(9, 12) is None, "lines beyond the file"


@given(st.integers(1, 8), st.integers(0, 7))
def test_the_fast_way_finds_what_looking_at_all_nodes_finds(first: int, length: int) -> None:
    span = Span(first, min(8, first + length))
    overlaps = [node.span.overlap(span) if node.span else 0 for node in NODES]
    found = find_node(ChunkHit(span, (), 0.0), NODES)
    assert found is NODES[overlaps.index(max(overlaps))]


def test_without_lines_the_titles_decide() -> None:
    assert find_node(ChunkHit(None, ("One", "Two"), 0.5), NODES) == NODES[2]
    assert find_node(ChunkHit(None, ("Somewhere", "Three"), 0.5), NODES) is None
    assert find_node(ChunkHit(None, ("No", "Such", "Title"), 0.5), NODES) is None


def hit(similarity: float, line: int = 1) -> ChunkHit:
    return ChunkHit(Span(line, line), (), similarity)


def test_a_node_is_as_good_as_its_best_chunk_or_by_distance_and_rank() -> None:
    ranked = rank_by_best_chunk([("b", hit(0.3)), ("a", hit(0.5, 7)), ("b", hit(0.9, 4)), ("c", hit(0.5))])
    assert ranked == (
        Ranked("b", 0.9, matched=Span(4, 4)),
        Ranked("a", 0.5, matched=Span(7, 7)),
        Ranked("c", 0.5, matched=Span(1, 1)),
    )
    ranked = rank_by_distance_and_rank([("a", hit(0.8)), ("b", hit(0.6)), ("a", hit(0.7))])
    assert [item.node_id for item in ranked] == ["a", "b"]
    assert [item.score for item in ranked] == [pytest.approx(0.8 / log2(2)), pytest.approx(0.6 / log2(4))]
