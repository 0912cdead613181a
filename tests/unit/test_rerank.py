"""Orders and blends of the reranking, worked out by hand, and what holds for all of them."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.node import Node, NodeKind, Span
from retriever.rerank import blend_orders, count_named, find_words
from retriever.searching.hits import cut_to_lines
from retriever.types import Candidate, Evidence, Source
from tests.sections import make_node


def candidate(node_id: str, *sources: Source, score: float = 0.1) -> Candidate:
    sources = sources or (Source.SEMANTIC,)
    return Candidate(
        node_id, score, tuple(Evidence(source, 1, 0.5, "cosine", score / len(sources)) for source in sources)
    )


def test_a_blend_by_hand() -> None:
    """Fused a, b, c; the reranker gives .2, .9, .2: a .7 * .2 + .3 * 1, b .7 * .9 + .3 * .631, c ..."""
    best = blend_orders([candidate("a"), candidate("b"), candidate("c")], [0.2, 0.9, 0.2], [0] * 3, [""] * 3, "p")
    assert [(item.node_id, round(item.score, 4)) for item in best] == [("b", 0.8193), ("a", 0.44), ("c", 0.29)]
    (evidence,) = [item for item in best[1].evidence if item.source == "rerank"]
    assert (evidence.rank, evidence.score, evidence.scale) == (2, 0.2, "p")
    assert evidence.share == pytest.approx(0.14)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.5)), min_size=1, max_size=12))
def test_a_blend_only_reorders_and_its_shares_add_up(scores: list[tuple[float, float]]) -> None:
    candidates = [candidate(f"n{place}", Source.SEMANTIC, Source.KEYWORD) for place in range(len(scores))]
    given, boosts = map(list, zip(*scores, strict=True))
    best = blend_orders(candidates, given, boosts, [""] * len(scores), "p")
    assert sorted(item.node_id for item in best) == sorted(item.node_id for item in candidates)
    assert [item.score for item in best] == sorted((item.score for item in best), reverse=True)
    for item in best:
        assert item.score == pytest.approx(sum(piece.share for piece in item.evidence))
    places = {item.node_id: place for place, item in enumerate(best)}
    for place, other in permutations(range(len(scores)), 2):  # no worse in both orders: never below
        if place < other and sum(scores[place]) >= sum(scores[other]):
            assert places[f"n{place}"] < places[f"n{other}"]


def test_entities_match_whatever_their_case_and_endings() -> None:
    text = "Use `BackgroundTasks` for an e-mail after the responses."
    assert count_named(("background tasks", "RESPONSE", "cookie", "", "Responses"), text) == 2


NODE = Node(
    "a.md#t", NodeKind.SECTION, "a.md", "T", 1, ("A",), Span(5, 9), "# T\n\nFirst part.\n\nSecond part, the one.\n"
)


def test_the_text_holds_what_matched() -> None:
    assert cut_to_lines(NODE, Span(9, 9), 24) == "…\nSecond part, the one.\n"
    assert cut_to_lines(NODE, Span(9, 9), 1500, "the one.") == NODE.text
    assert cut_to_lines(NODE, None, 10) == "# T\n\nFirs…"


def test_without_a_vector_the_unit_with_the_words_of_the_question_matches() -> None:
    assert find_words(make_node("# T\n\nFirst.\n\nA red one.\n", "a.md#t", "T"), {"red"}) == Span(5, 5)
    assert find_words(make_node("# T\n", "a.md#t", "T"), {"red"}) is None
