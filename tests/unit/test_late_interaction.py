from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from retriever.embedding.tokenizer import sign_bits
from retriever.searching.late_interaction import max_similarities
from retriever.types import FloatMatrix, TokenBits


def signs(*rows: str) -> FloatMatrix:
    """`+-+` -> 1, -1, 1."""
    return np.array([[1.0 if sign == "+" else -1.0 for sign in row] for row in rows], dtype=np.float32)


def max_similarity(question: TokenBits, passages: Sequence[TokenBits]) -> float:
    (similarity,) = max_similarities(question, [passages])
    return similarity


PLUS, MINUS, HALF = "+" * 64, "-" * 64, "+" * 32 + "-" * 32


def test_a_bit_for_each_number_and_what_fills_the_last_word_is_equal_everywhere() -> None:
    bits = sign_bits(signs("+-" * 32, MINUS))
    assert bits.shape == (2, 1)
    assert [int(row).bit_count() for row in bits[:, 0]] == [32, 0]
    assert sign_bits(signs("+" * 65)).shape == (1, 2)
    assert max_similarity(sign_bits(signs("+" * 65)), [sign_bits(signs("+" * 65))]) == 1.0


def test_each_token_takes_the_nearest_one_and_nothing_is_near_nothing() -> None:
    question = sign_bits(signs(PLUS, MINUS))
    assert max_similarity(question, [sign_bits(signs(PLUS, HALF))]) == pytest.approx((1.0 + 0.0) / 2)
    assert max_similarity(question, [sign_bits(signs(PLUS)), sign_bits(signs(MINUS))]) == 1.0
    some, none = sign_bits(signs(PLUS)), sign_bits(np.empty((0, 64), dtype=np.float32))
    assert max_similarity(some, []) == max_similarity(some, [none]) == max_similarity(none, [some]) == 0.0


matrices = arrays(
    np.float32, st.tuples(st.integers(1, 6), st.just(70)), elements=st.sampled_from([-1.0, -0.5, 0.5, 2.0])
)


@given(matrices, matrices)
def test_it_is_the_mean_of_the_best_cosines_of_signs(question: FloatMatrix, passage: FloatMatrix) -> None:
    filled = [np.hstack([np.sign(m), -np.ones((len(m), 58), dtype=np.float32)]) for m in (question, passage)]
    expected = (filled[0] @ filled[1].T / 128).max(axis=1).mean()
    assert max_similarity(sign_bits(question), [sign_bits(passage)]) == pytest.approx(float(expected), abs=1e-6)


@given(matrices, matrices, matrices)
def test_more_text_is_never_farther(question: FloatMatrix, passage: FloatMatrix, more: FloatMatrix) -> None:
    bits = [sign_bits(matrix) for matrix in (question, passage, more)]
    assert max_similarity(bits[0], bits[1:]) >= max_similarity(bits[0], bits[1:2])


@given(matrices, st.lists(st.lists(matrices, max_size=3), max_size=4))
def test_sections_together_are_as_near_as_each_alone(question: FloatMatrix, sections: list[list[FloatMatrix]]) -> None:
    asked, found = sign_bits(question), [[sign_bits(passage) for passage in passages] for passages in sections]
    assert max_similarities(asked, found) == [max_similarity(asked, passages) for passages in found]
