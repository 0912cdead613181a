import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retriever.lexical.tokens import tokenize


@settings(deadline=None)  # the first word loads the stemmer
@given(st.text())
@example("ǅ İ ẞ \u0345")
@example("A.-_.b")
def test_terms_are_short_folded_and_not_empty(text: str) -> None:
    for term in tokenize(text):
        assert 0 < len(term) <= 200
        assert not term.isspace()
        assert not any(unicodedata.category(character) == "Cs" for character in term)


@settings(deadline=None)  # the first word loads the stemmer
@given(st.text(), st.text())
def test_texts_are_read_word_by_word(first: str, second: str) -> None:
    assert tokenize(f"{first}\n{second}") == tokenize(first) + tokenize(second)
    assert tokenize(first) == [term for word in first.split() for term in tokenize(word)]


@pytest.mark.parametrize("unit", ["a", "A", "aB", "a.", "a-", "_", "1", "é", "字", "UUs", "-.", "\u0301"])
def test_a_huge_word_takes_linear_time_and_gives_few_terms(unit: str) -> None:
    text = unit * (30_000 // len(unit))
    assert len(set(tokenize(text))) <= 8


def test_a_huge_word_still_matches_itself() -> None:
    key = "k" * 5_000
    assert tokenize(key) == tokenize(f"see {key}.")[-1:] == ["k" * 200]
