"""Orders and blends of the reranking, worked out by hand, and what holds for all of them."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.node import Node, NodeKind, Span
from retriever.rerank import RerankScore, blend_orders, count_named, find_words
from retriever.searching.hits import cut_to_lines
from retriever.types import Candidate, Evidence, Source
from tests.sections import make_node


def candidate(node_id: str, *sources: Source, score: float = 0.1) -> Candidate:
    sources = sources or (Source.SEMANTIC,)
    return Candidate(
        node_id, score, tuple(Evidence(source, 1, 0.5, "cosine", score / len(sources)) for source in sources)
    )


def test_a_blend_by_hand() -> None:
    """Fused a, b, c; the reranker gives .2, .9, .2. With a blend of .5: a .5 * .2 + .5 * 1, b .45 + .5 * .631, c ..."""
    scored = [RerankScore(candidate("a"), 0.2), RerankScore(candidate("b"), 0.9), RerankScore(candidate("c"), 0.2)]
    best = blend_orders(scored, 0.5, "probability")
    assert [(item.node_id, round(item.score, 4)) for item in best] == [("b", 0.7655), ("a", 0.6), ("c", 0.35)]
    (evidence,) = [item for item in best[1].evidence if item.source == "rerank"]
    assert (evidence.rank, evidence.score, evidence.scale, evidence.share) == (2, 0.2, "probability", 0.1)
    assert [item.node_id for item in blend_orders(scored, 0.0, "p")] == ["b", "a", "c"]  # equal scores: fused order
    assert [item.node_id for item in blend_orders(scored, 1.0, "p")] == ["a", "b", "c"]


SCORES = st.floats(0, 1)


@given(st.lists(st.tuples(SCORES, st.floats(0, 0.5)), min_size=1, max_size=12), SCORES)
def test_a_blend_only_reorders_and_its_shares_add_up(scores: list[tuple[float, float]], blend: float) -> None:
    candidates = [candidate(f"n{place}", Source.SEMANTIC, Source.KEYWORD) for place in range(len(scores))]
    scored = [RerankScore(item, score, boost) for item, (score, boost) in zip(candidates, scores, strict=True)]
    best = blend_orders(scored, blend, "p")
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
    assert cut_to_lines(NODE, Span(9, 9), 1500) == NODE.text
    assert cut_to_lines(NODE, None, 10) == "# T\n\nFirs…"


def test_without_a_vector_the_unit_with_the_words_of_the_question_matches() -> None:
    assert find_words(make_node("# T\n\nFirst.\n\nA red one.\n", "a.md#t", "T"), {"red"}) == Span(5, 5)
    assert find_words(make_node("# T\n", "a.md#t", "T"), {"red"}) is None
