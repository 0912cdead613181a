"""How much of an answer fits."""

import pytest

from retriever.serving.mcp_answers import count_fitting, estimate_tokens, fit_text


def test_an_estimate_counts_letters_of_other_scripts_as_more() -> None:
    assert estimate_tokens("three by") == 3
    assert estimate_tokens("\u6771\u4eac") == 3


@pytest.mark.parametrize(("most", "count"), [(0, 1), (2, 1), (4, 2), (100, 3)])
def test_lines_that_fit(most: int, count: int) -> None:
    assert count_fitting(["one 1", "two 2", "three"], most) == count


@pytest.mark.parametrize(("most", "text"), [(0, "o"), (1, "one"), (3, "one 1\n"), (100, "one 1\ntwo 2\n")])
def test_text_that_fits(most: int, text: str) -> None:
    assert fit_text("one 1\ntwo 2\n", most) == text
