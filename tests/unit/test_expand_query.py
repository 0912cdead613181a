"""A question with other wordings of it: the weights, the vector, the words."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retriever.lexical.bm25 import LexicalIndex, build_lexical
from retriever.lexical.tokens import tokenize
from retriever.query import Expansion, Query
from retriever.searching.queries import average_vectors, normalize_weights, weigh_queries, weigh_words
from retriever.settings.schema import HydeSettings, Profile, QueryWeights

WEIGHTS = Profile().part(QueryWeights)
EXPANSION = Expansion(rewordings=("b", "c"), passages=("d",))


def test_a_question_alone_has_all_the_weight() -> None:
    assert weigh_queries("a", Expansion(), WEIGHTS) == (Query("a", 1.0, 1.0),)


def test_weights_are_shares_by_the_profile() -> None:
    shares = replace(WEIGHTS, rewording_weight=0.5, hyde_variant_weight=0.25, passage_keyword_weight=0.0)
    queries = weigh_queries("a", EXPANSION, shares)
    assert [query.text for query in queries] == ["a", "b", "c", "d"]
    assert [query.semantic_weight for query in queries] == pytest.approx(
        [1 / 2.25, 0.5 / 2.25, 0.5 / 2.25, 0.25 / 2.25]
    )
    assert [query.keyword_weight for query in queries] == [0.5, 0.25, 0.25, 0.0]


def test_by_default_no_text_outweighs_the_question() -> None:
    queries = weigh_queries("a", EXPANSION, WEIGHTS)
    assert max(query.semantic_weight for query in queries) == queries[0].semantic_weight
    assert max(query.keyword_weight for query in queries) == queries[0].keyword_weight


def test_the_vector_is_the_weighted_mean_as_a_unit_vector() -> None:
    vectors = np.array([[1, 0], [0, 1]], np.float32)
    assert average_vectors(vectors, [0.8, 0.6]) == pytest.approx(np.array([[0.8, 0.6]]), abs=1e-6)
    assert np.array_equal(average_vectors(vectors[:1], [1.0]), vectors[:1])


def test_vectors_that_cancel_leave_the_question() -> None:
    vectors = np.array([[1, 0], [-1, 0]], np.float32)
    assert np.array_equal(average_vectors(vectors, [0.5, 0.5]), vectors[:1])


def test_a_word_counts_by_the_texts_that_hold_it() -> None:
    queries = (Query("red fox fox", 1.0, 0.5), Query("red hen", 1.0, 0.25), Query("owl", 1.0, 0.0))
    red, fox, hen = tokenize("red fox hen")
    assert weigh_words((tokenize(query.text), query.keyword_weight) for query in queries) == {
        red: 0.75,
        fox: 1.0,
        hen: 0.25,
    }


def test_bm25_counts_a_word_as_often_as_its_weight_says(tmp_path: Path) -> None:
    build_lexical(tmp_path / "index", {1: ["red", "fox"], 2: ["fox", "fox", "hen"], 3: ["owl"]})
    index = LexicalIndex.open(tmp_path / "index")
    twice = index.search_weighted({"fox": 2.0, "red": 1.0}, 3)
    assert twice == index.search(["fox", "red", "fox"], 3)
    half = dict(index.search_weighted({"fox": 1.0, "red": 0.5}, 3).ranking)
    assert half == {key: pytest.approx(score / 2) for key, score in twice.ranking}


def weights(queries: tuple[Query, ...]) -> dict[str, tuple[float, float]]:
    return {query.text: (round(query.semantic_weight, 3), round(query.keyword_weight, 3)) for query in queries}


def half(**hyde: Any) -> QueryWeights:  # noqa: ANN401 - whatever the settings hold
    return QueryWeights(1.0, 0.5, 0.5, HydeSettings(**hyde))


def test_the_mode_average_puts_the_mean_of_the_passages_in_the_place_of_the_question() -> None:
    expansion = Expansion(passages=("p", "q"))
    found = weights(weigh_queries("a", expansion, half(mode="average")))
    assert found == {"a": (0.0, 0.5), "p": (0.5, 0.25), "q": (0.5, 0.25)}


def test_the_mode_answer_searches_with_one_passage() -> None:
    queries = weigh_queries("a", Expansion(answer="whole"), half(mode="answer"))
    assert [(query.text, query.kind) for query in queries] == [("a", "question"), ("whole", "answer")]
    assert queries[1].is_hypothetical


def test_the_mode_keywords_adds_rare_new_words_of_the_passages_to_the_lexical_arm_alone() -> None:
    rarity = dict(zip(tokenize("lifespan event app"), (5.0, 2.0, 0.1), strict=True))
    expansion = Expansion(passages=("The lifespan event of the app.", "A lifespan for every app, and a zebra."))
    found = weigh_queries("start of app", expansion, half(mode="keywords", keywords=2), lambda terms: rarity)
    (own, words) = found
    assert (words.text, words.kind, words.semantic_weight) == ("lifespan event", "keywords", 0.0)
    assert own.semantic_weight == 1.0
    assert words.keyword_weight > 0


def test_bm25_can_be_kept_to_the_words_of_the_question() -> None:
    found = weights(weigh_queries("a", Expansion(("b",), ("p",)), half(keyword="original")))
    assert found == {"a": (0.4, 1.0), "b": (0.4, 0.0), "p": (0.2, 0.0)}


def test_all_texts_together_can_be_held_to_the_weight_of_the_question() -> None:
    found = weights(weigh_queries("a", Expansion(("b", "c"), ("p", "q")), half(bound="together")))
    assert found["a"] == (0.5, 0.5)
    assert sum(dense for dense, _ in found.values()) == pytest.approx(1, abs=0.01)


def test_what_is_left_of_the_texts_shares_their_weight() -> None:
    queries = weigh_queries("a", Expansion(("b",), ("p",)), half())
    assert weights(normalize_weights([queries[0], queries[2]])) == {"a": (0.667, 0.667), "p": (0.333, 0.333)}


def test_a_question_whose_passages_are_all_dropped_is_itself_again() -> None:
    queries = weigh_queries("a", Expansion(passages=("p",)), half(mode="average"))
    assert normalize_weights(queries[:1]) == (Query("a", 1.0, 1.0),)
