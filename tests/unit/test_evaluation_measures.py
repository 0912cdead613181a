"""The measures against sums done by hand; then against formulas written out, on random rankings."""

from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.evaluation import Values, difference, estimate, measure_ranking


def measured(ranking: list[str], right: set[str]) -> Values:
    return measure_ranking(ranking, frozenset(right))


def test_sums_by_hand() -> None:
    # Right are b (rank 2), e (rank 5) and z, which was not found.
    values = measured(["a", "b", "c", "d", "e", "f"], {"b", "e", "z"})
    ideal = 1 / log2(2) + 1 / log2(3) + 1 / log2(4)
    assert values["nDCG@10"] == pytest.approx((1 / log2(3) + 1 / log2(6)) / ideal, abs=1e-6)
    assert values["MRR@10"] == 0.5
    assert (values["hit@1"], values["hit@5"]) == (0.0, 1.0)
    assert values["recall@5"] == pytest.approx(2 / 3, abs=1e-6)


VALUES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=20)


def test_a_difference_counts_wins_and_losses() -> None:
    found = difference([1.0, 0.5, 0.2, 0.0], [0.0, 0.5, 0.3, 0.0])
    assert (found.wins, found.losses, found.ties) == (1, 1, 2)
    assert found.mean == pytest.approx(0.225)
    same = difference([0.3, 0.7], [0.3, 0.7])
    assert (same.mean, same.low, same.high) == (0.0, 0.0, 0.0)


def test_the_interval_of_a_proportion_is_the_binomial_one() -> None:
    found = estimate([1.0] * 30 + [0.0] * 70)
    assert found.mean == pytest.approx(0.3)
    assert found.low == pytest.approx(0.21, abs=0.015)
    assert found.high == pytest.approx(0.39, abs=0.015)


@settings(max_examples=30)
@given(VALUES)
def test_estimates_are_the_same_every_time_and_hold_their_mean(values: list[float]) -> None:
    found = estimate(values)
    assert found == estimate(list(values))
    assert min(values) <= found.low <= found.mean + 1e-12
    assert found.mean - 1e-12 <= found.high <= max(values)
