"""The measures against sums done by hand; then against formulas written out, on random rankings."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.evaluation.measures import (
    SECTION_NAMES,
    Values,
    count_tokens_needed,
    measure_budgets,
    measure_files,
    measure_sections,
)

NAMES = [f"n{number:02}" for number in range(40)]


def measured(ranking: list[str], right: dict[str, int]) -> Values:
    return measure_sections({"q": ranking}, {"q": right})["q"]


def test_sums_by_hand() -> None:
    # Right are b (rank 2), e (rank 5) and z, which was not found.
    values = measured(["a", "b", "c", "d", "e", "f"], {"b": 1, "e": 1, "z": 1})
    ideal = 1 / log2(2) + 1 / log2(3) + 1 / log2(4)
    assert values["nDCG@10"] == pytest.approx((1 / log2(3) + 1 / log2(6)) / ideal, abs=1e-6)
    assert values["AP"] == pytest.approx((1 / 2 + 2 / 5) / 3, abs=1e-6)
    assert values["MRR@10"] == 0.5
    assert (values["hit@1"], values["hit@5"]) == (0.0, 1.0)
    assert values["recall@5"] == pytest.approx(2 / 3, abs=1e-6)
    assert values["precision@5"] == pytest.approx(2 / 5, abs=1e-6)
    assert values["precision@10"] == pytest.approx(2 / 10, abs=1e-6), "true precision: over k, not over what was found"


def test_equal_scores_cannot_matter_because_the_order_is_ours() -> None:
    assert measured(["z", "a"], {"z": 1})["hit@1"] == 1.0
    assert measured(["a", "z"], {"z": 1})["hit@1"] == 0.0


def test_MRR_looks_no_further_than_ten() -> None:
    assert measured(NAMES, {NAMES[9]: 1})["MRR@10"] == pytest.approx(0.1, abs=1e-6)
    assert measured(NAMES, {NAMES[10]: 1})["MRR@10"] == 0.0


def test_nothing_found_is_zero_of_everything() -> None:
    assert measured([], {"a": 1}) == dict.fromkeys(SECTION_NAMES, 0.0)


def test_graded_gains_count_in_nDCG() -> None:
    values = measured(["a", "b"], {"a": 1, "b": 3})
    assert values["nDCG@10"] == pytest.approx((1 + 3 / log2(3)) / (3 + 1 / log2(3)), abs=1e-6)


def test_files_have_their_own_names() -> None:
    values = measure_files({"q": ["a.md", "b.md"]}, {"q": {"b.md": 1}})["q"]
    assert values["file MRR@10"] == 0.5
    assert values["file hit@1"] == 0.0


@given(st.permutations(NAMES), st.integers(0, 40), st.sets(st.sampled_from(NAMES), min_size=1, max_size=12))
def test_measures_agree_with_their_formulas(order: list[str], found: int, right: set[str]) -> None:
    ranking = order[:found]
    gains = [name in right for name in ranking]
    values = measured(ranking, dict.fromkeys(sorted(right), 1))
    for k in (1, 5, 10):
        assert values[f"hit@{k}"] == float(any(gains[:k]))
        assert values[f"precision@{k}"] == pytest.approx(sum(gains[:k]) / k, abs=1e-6)
    for k in (5, 10, 30):
        assert values[f"recall@{k}"] == pytest.approx(sum(gains[:k]) / len(right), abs=1e-6)
    gain = sum(1 / log2(place + 2) for place, good in enumerate(gains[:10]) if good)
    ideal = sum(1 / log2(place + 2) for place in range(min(10, len(right))))
    assert values["nDCG@10"] == pytest.approx(gain / ideal, abs=1e-6)
    first = gains.index(True) + 1 if True in gains else None
    assert values["MRR@10"] == pytest.approx(1 / first if first and first <= 10 else 0.0, abs=1e-6)
    precisions = [sum(gains[: place + 1]) / (place + 1) for place, good in enumerate(gains) if good]
    assert values["AP"] == pytest.approx(sum(precisions) / len(right), abs=1e-6)


def test_a_budget_holds_an_answer_when_the_right_section_ends_in_it() -> None:
    tokens, right = [300, 150, 60, 900], [False, True, False, True]
    assert count_tokens_needed(tokens, right) == 450
    assert measure_budgets(tokens, right) == {
        "answered@500": 1.0,
        "answered@1000": 1.0,
        "answered@2000": 1.0,
        "answered@4000": 1.0,
    }
    assert measure_budgets([501], [True])["answered@500"] == 0.0
    assert count_tokens_needed([10, 20], [False, False]) is None
    assert measure_budgets([10, 20], [False, False])["answered@4000"] == 0.0
