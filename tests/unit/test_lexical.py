import random
from collections.abc import Mapping, Sequence
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Plus  # the definition that the scores are held to

from retriever.lexical.bm25 import Bm25, write_postings
from retriever.store.writing import NODE_BITS
from tests.rows import open_rows
from tests.tables import read_table

WORDS = ["a", "b", "c", "d", "é", "字", "a.b", ""]
Documents = Mapping[int, Sequence[str]]
documents_strategy = st.dictionaries(st.integers(0, 2**62), st.lists(st.sampled_from(WORDS), max_size=12), max_size=12)
question_strategy = st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=8)


def built(sections: Documents) -> Bm25:
    connection = open_rows({key >> NODE_BITS for key in sections})
    write_postings(connection, sections)
    return Bm25(connection)


@given(documents_strategy, question_strategy)
def test_scores_are_those_of_rank_bm25(documents: Documents, question: list[str]) -> None:
    keys = sorted(documents)
    expected: dict[int, float] = {}
    if any(documents.values()):  # BM25Plus itself divides by zero without a word
        scores = BM25Plus([documents[key] for key in keys], delta=0).get_scores(question)
        expected = {key: score for key, score in zip(keys, scores, strict=True) if set(documents[key]) & set(question)}
    ranking = built(documents).search(question, 100)
    assert dict(ranking) == pytest.approx(expected, abs=1e-9)
    assert [key for key, _ in ranking] == [key for key, _ in sorted(ranking, key=lambda hit: (-hit[1], hit[0]))]


@given(documents_strategy, documents_strategy)
def test_an_index_that_lost_documents_is_one_that_never_had_them(kept: Documents, gone: Documents) -> None:
    kept_documents = {key >> NODE_BITS for key in kept}
    gone = {key: tokens for key, tokens in gone.items() if key >> NODE_BITS not in kept_documents}
    changed, fresh = (open_rows(kept_documents | others) for others in ({key >> NODE_BITS for key in gone}, set()))
    for tokens in (gone, kept):
        write_postings(changed, tokens)
    changed.executemany("DELETE FROM documents WHERE document_key = ?", [(key >> NODE_BITS,) for key in gone])
    write_postings(fresh, kept)
    for query in ("SELECT * FROM postings", "SELECT document_key, sections, length FROM documents"):
        assert changed.execute(query).fetchall() == fresh.execute(query).fetchall()


@pytest.mark.parametrize("limit", [1, 17, 300])
def test_the_best_of_many_are_the_first_of_all(limit: int) -> None:
    chance = random.Random(limit)
    index = built({key: chance.choices("aabcdefg", k=key % 9) for key in range(1024)})
    assert index.search(["a", "b", "g", "g"], limit) == index.search(["a", "b", "g", "g"], 2000)[:limit]


def test_coverage_is_the_share_of_rarity() -> None:
    index = built({1: ["common", "rare"], 2: ["common"], 3: ["common"], 4: ["else"]})
    question = ["rare", "common", "common", "unknown"]
    described = index.describe(question)
    assert {term: found.documents for term, found in described.items()} == {"rare": 1, "common": 3, "unknown": 0}
    rare, common, unknown = (term.rarity for term in described.values())
    assert rare == unknown == pytest.approx(log(1 + 3.5 / 1.5))
    assert common == pytest.approx(log(1 + 1.5 / 3.5))
    total = rare + common + unknown
    assert index.coverage(question, [2, 1, 4, 777]) == pytest.approx([common / total, (rare + common) / total, 0, 0])
    assert index.coverage([], [1]) == built({}).coverage(question, [1]) == [0.0]


@pytest.mark.parametrize(("german", "question", "language"), read_table("words", "A question of 20 sections"))
def test_a_question_is_in_english_where_nearly_all_sections_are(german: int, question: str, language: str) -> None:
    index = built({key: ["=german"] if key < german else [] for key in range(20)})
    assert " ".join(index.detect_question(question)) == language
