import random
from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Plus  # the definition that the scores are held to

from retriever.lexical.bm25 import LexicalIndex, build_postings

WORDS = ["a", "b", "c", "d", "é", "字", "a.b", ""]
on_disk = settings(deadline=None, max_examples=60)  # each example writes files, and the disk may be busy
Documents = Mapping[int, Sequence[str]]
documents_strategy = st.dictionaries(
    st.integers(-(2**62), 2**62), st.lists(st.sampled_from(WORDS), max_size=12), max_size=12
)
question_strategy = st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=8)


def built(folder: Path, documents: Documents) -> LexicalIndex:
    build_postings(folder, documents)
    return LexicalIndex.open(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@on_disk
@given(documents_strategy, question_strategy)
def test_scores_are_those_of_rank_bm25(documents: Documents, question: list[str]) -> None:
    keys = sorted(documents)
    expected: dict[int, float] = {}
    if any(documents.values()):  # BM25Plus itself divides by zero without a word
        scores = BM25Plus([documents[key] for key in keys], delta=0).get_scores(question)
        expected = {key: score for key, score in zip(keys, scores, strict=True) if set(documents[key]) & set(question)}
    with TemporaryDirectory() as place:
        ranking = built(Path(place) / "l", documents).search(question, 100)
    assert dict(ranking) == pytest.approx(expected, abs=1e-9)
    assert [key for key, _ in ranking] == [key for key, _ in sorted(ranking, key=lambda hit: (-hit[1], hit[0]))]


@on_disk
@given(documents_strategy, documents_strategy, st.data())
def test_a_patched_index_is_the_one_built_from_scratch(
    before: Documents, added: Documents, data: st.DataObject
) -> None:
    removed = data.draw(st.sets(st.sampled_from(sorted(before)))) if before else set()
    removed |= before.keys() & added.keys()
    after = {key: tokens for key, tokens in before.items() if key not in removed} | dict(added)
    with TemporaryDirectory() as place:
        folder = Path(place)
        build_postings(folder / "before", before)
        build_postings(folder / "patched", added, folder / "before", removed)
        build_postings(folder / "fresh", after)
        assert contents(folder / "patched") == contents(folder / "fresh")


@pytest.mark.parametrize("limit", [1, 17, 300])
def test_the_best_of_many_are_the_first_of_all(tmp_path: Path, limit: int) -> None:
    chance = random.Random(limit)
    index = built(tmp_path / "l", {key: chance.choices("aabcdefg", k=key % 9) for key in range(1024)})
    assert index.search(["a", "b", "g", "g"], limit) == index.search(["a", "b", "g", "g"], 2000)[:limit]


def test_coverage_is_the_share_of_rarity(tmp_path: Path) -> None:
    index = built(tmp_path / "l", {1: ["common", "rare"], 2: ["common"], 3: ["common"], 4: ["else"]})
    question = ["rare", "common", "common", "unknown"]
    described = index.describe(question)
    assert {term: found.documents for term, found in described.items()} == {"rare": 1, "common": 3, "unknown": 0}
    rare, common, unknown = (term.rarity for term in described.values())
    assert rare == unknown == pytest.approx(log(1 + 3.5 / 1.5))
    assert common == pytest.approx(log(1 + 1.5 / 3.5))
    total = rare + common + unknown
    assert index.coverage(question, [2, 1, 4, 777]) == pytest.approx([common / total, (rare + common) / total, 0, 0])
    assert index.coverage([], [1]) == built(tmp_path / "none", {}).coverage(question, [1]) == [0.0]
