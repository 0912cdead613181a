"""A question with other wordings of it: the weights, the vector, the words."""

from pathlib import Path

import numpy as np
import pytest

from retriever.expand_query import Expansion, Query, blended, weighted_queries, weighted_words
from retriever.lexical import LexicalIndex, build_lexical
from retriever.profile import Profile
from retriever.tokens import tokenize

EXPANSION = Expansion(rewordings=("b", "c"), passages=("d",))


def test_a_question_alone_has_all_the_weight() -> None:
    assert weighted_queries("a", None, Profile()) == (Query("a", 1.0, 1.0),)
    assert weighted_queries("a", Expansion(), Profile()) == (Query("a", 1.0, 1.0),)


def test_weights_are_shares_by_the_profile() -> None:
    profile = Profile(rewording_weight=0.5, hyde_variant_weight=0.25, passage_lexical_weight=0.0)
    queries = weighted_queries("a", EXPANSION, profile)
    assert [query.text for query in queries] == ["a", "b", "c", "d"]
    assert [query.dense_weight for query in queries] == pytest.approx([1 / 2.25, 0.5 / 2.25, 0.5 / 2.25, 0.25 / 2.25])
    assert [query.lexical_weight for query in queries] == [0.5, 0.25, 0.25, 0.0]


def test_by_default_no_text_outweighs_the_question() -> None:
    queries = weighted_queries("a", EXPANSION, Profile())
    assert max(query.dense_weight for query in queries) == queries[0].dense_weight
    assert max(query.lexical_weight for query in queries) == queries[0].lexical_weight


def test_the_vector_is_the_weighted_mean_as_a_unit_vector() -> None:
    vectors = np.array([[1, 0], [0, 1]], np.float32)
    assert blended(vectors, [0.8, 0.6]) == pytest.approx(np.array([[0.8, 0.6]]), abs=1e-6)
    assert np.array_equal(blended(vectors[:1], [1.0]), vectors[:1])


def test_vectors_that_cancel_leave_the_question() -> None:
    vectors = np.array([[1, 0], [-1, 0]], np.float32)
    assert np.array_equal(blended(vectors, [0.5, 0.5]), vectors[:1])


def test_a_word_counts_by_the_texts_that_hold_it() -> None:
    queries = (Query("red fox fox", 1.0, 0.5), Query("red hen", 1.0, 0.25), Query("owl", 1.0, 0.0))
    red, fox, hen = tokenize("red fox hen")
    assert weighted_words(queries) == {red: 0.75, fox: 1.0, hen: 0.25}


def test_bm25_counts_a_word_as_often_as_its_weight_says(tmp_path: Path) -> None:
    build_lexical(tmp_path / "index", {1: ["red", "fox"], 2: ["fox", "fox", "hen"], 3: ["owl"]})
    index = LexicalIndex.open(tmp_path / "index")
    twice = index.search_weighted({"fox": 2.0, "red": 1.0}, 3)
    assert twice == index.search(["fox", "red", "fox"], 3)
    half = dict(index.search_weighted({"fox": 1.0, "red": 0.5}, 3).ranking)
    assert half == {key: pytest.approx(score / 2) for key, score in twice.ranking}
