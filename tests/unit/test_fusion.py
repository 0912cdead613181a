from hypothesis import given
from hypothesis import strategies as st

from retriever.fusion import reciprocal_rank_fusion
from retriever.types import Ranked, Ranking


def ranking(arm: str, weight: float, *node_ids: str) -> Ranking:
    return Ranking(arm, "cosine", weight, tuple(Ranked(node_id, 1.0 / n) for n, node_id in enumerate(node_ids, 1)))


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
