"""Orders and blends of the reranking, worked out by hand, and what holds for all of them."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.node import Node, NodeKind, Span
from retriever.rerank import RerankScore, blend_orders, count_named, cut_passage
from retriever.searching.hits import find_matched_chunk
from retriever.store.reading import StoredChunk
from retriever.types import Candidate, Evidence, Source


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


@given(st.lists(st.tuples(SCORES, st.floats(0, 0.5)), min_size=1, max_size=12), SCORES, st.integers(0, 3))
def test_a_blend_only_reorders_and_its_shares_add_up(
    scores: list[tuple[float, float]], blend: float, more: int
) -> None:
    candidates = [candidate(f"n{place}", Source.SEMANTIC, Source.KEYWORD) for place in range(len(scores))]
    scored = [RerankScore(item, score, boost) for item, (score, boost) in zip(candidates, scores, strict=True)]
    behind = [candidate(f"m{place}") for place in range(more)]
    best = blend_orders(scored, blend, "p", behind)
    assert sorted(item.node_id for item in best) == sorted(item.node_id for item in [*candidates, *behind])
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


def chunk(text: str, first: int, last: int) -> StoredChunk:
    return StoredChunk(1, 1, 1, NODE.id, NODE.id, Span(first, last), text)


def test_the_passage_lies_around_the_chunk_that_matched() -> None:
    assert cut_passage(NODE, chunk("Second part, the one.", 9, 9), 24) == "…Second part, the one.\n"
    assert cut_passage(NODE, chunk("First part.", 7, 7), 1500) == NODE.text
    assert cut_passage(NODE, None, 10) == "# T\n\nFirs…"


def test_a_chunk_matches_by_its_vector_else_by_its_words() -> None:
    chunks = [chunk("red and blue", 5, 6), chunk("green", 7, 9)]
    dense = Candidate(NODE.id, 0.1, (Evidence(Source.SEMANTIC, 1, 0.5, "cosine", 0.1, Span(7, 9)),))
    assert find_matched_chunk(dense, chunks, {"red"}) == chunks[1]
    assert find_matched_chunk(candidate(NODE.id, Source.KEYWORD), chunks, {"red"}) == chunks[0]
    assert find_matched_chunk(dense, [], {"red"}) is None
