"""Questions of every kind to folders of every kind: an answer, with what stood in the way of a better one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retriever.api import index_folders, open_retriever
from retriever.errors import EncoderError, NoIndexError, QuestionError
from retriever.retriever import Retriever
from retriever.types import FloatMatrix
from tests.shelf import (
    NEVER_REFRESH,
    PAGES,
    QUESTIONS,
    WORDS_ALONE,
    Interrupting,
    Shelf,
    WrongEncoder,
    found,
    read_lines,
    same_hits,
    write_pages,
)
from tests.tables import read_table

pytestmark = pytest.mark.shared_index


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        (EncoderError("the server is asleep"), "semantic: the server is asleep"),
        (np.full((1, 64), np.nan, np.float32), "NaN"),
        (np.ones((1, 63), np.float32), "(1, 63) instead of 1 vectors of 64"),
    ],
    ids=["raises", "not a number", "too short"],
)
def test_without_a_vector_the_words_answer_and_it_is_said(
    shelf: Shelf, mood: "FloatMatrix | EncoderError", reason: str
) -> None:
    answer = shelf.ask("stamp for a letter", encoder=WrongEncoder(questions=mood))
    assert answer.hits[0].node_id == "mail.md#mail/stamps"
    assert {item.source for hit in answer.hits for item in hit.evidence} == {"keyword", "neighbors"}
    (sentence,) = map(str, answer.degraded)
    assert sentence.startswith("semantic: ")
    assert reason in sentence


def test_an_index_without_vectors(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    report = index_folders([shelf.docs], shelf.index, settings=WORDS_ALONE)
    assert (report.embedded, report.chunks) == (0, 8)
    assert not [*shelf.index.glob("chroma-*")]
    with open_retriever((), shelf.index) as retriever:  # the index remembers that it has none
        answer = retriever.search("stamp for a letter")
        assert (answer.hits[0].node_id, answer.degraded) == ("mail.md#mail/stamps", ())
        assert answer.trace.signals.margin is None, "words alone are judged"
    assert "no vectors" in str(shelf.ask("stamp for a letter").degraded[0])
    assert shelf.update().embedded == 8
    assert shelf.ask("stamp for a letter").degraded == ()


def test_more_than_there_is_and_more_than_the_candidates(shelf: Shelf) -> None:
    everything = shelf.ask("tomatoes", top_k=1000)
    assert len(everything.hits) == 8
    assert [hit.rank for hit in everything.hits] == list(range(1, 9))
    assert same_hits(found(shelf.ask("tomatoes", top_k=6, candidate_cap=2)), found(everything)[:6])
    few = shelf.ask(
        "tomatoes", vector_top_n=1, keyword_top_n=1, name_weight=0, neighbor_depth=0, candidate_file_roots=0
    )
    assert 1 <= len(few.hits) <= 2


def test_a_hit_is_what_its_citation_says(shelf: Shelf) -> None:
    for question in QUESTIONS:
        for hit in shelf.ask(question, top_k=100).hits:
            assert hit.text == read_lines(hit.folder, hit.file, hit.span.first, hit.span.last)
            assert not hit.text_cut
            assert hit.score == pytest.approx(sum(item.share for item in hit.evidence))
    (cut,) = shelf.ask("what pays for a letter?", top_k=1, final_text_chars=20, final_summary_chars=10).hits
    assert (cut.text, cut.text_cut, cut.summary) == ("## Stamps\n\nA stamp…", True, "A stamp…")


@pytest.mark.parametrize("question", ["", "  ", "\n\t", "\0", "\ud800"])
def test_a_question_without_a_character(shelf: Shelf, question: str) -> None:
    with pytest.raises(QuestionError, match="the question is empty"):
        shelf.ask(question)


@pytest.mark.parametrize(
    ("pages", "sections"),
    [
        ({"a.md": "# One\n\nword\n"}, 1),
        ({"a.md": "word\n"}, 1),
        ({"a.md": "", "b/c.md": "", "d.txt": ""}, 0),
        ({"a.md": "---\ntitle: Only a title\n---\n"}, 1),
        ({"a.md": "# \n"}, 1),
        ({"a.md": "\ufeff# Byte order\r\n\r\nword\r\n"}, 1),
        ({"a.md": "?! ... ---\n"}, 1),
    ],
    ids=["one chunk", "no heading", "all empty", "front matter", "no title", "BOM and CRLF", "punctuation"],
)  # fmt: skip
def test_odd_folders(tmp_path: Path, pages: dict[str, str], sections: int) -> None:
    shelf = Shelf(tmp_path, pages)
    assert shelf.update().sections == sections
    with shelf.open(top_k=100) as retriever:
        # Each file by its name, too: nothing may be found that has no lines.
        for question in ("the very same words", "zebra", "?!", *(Path(name).stem for name in pages), "only a title"):
            answer = retriever.search(question)
            assert len(answer.hits) <= sections
            assert answer.degraded == ()
            assert all(np.isfinite(hit.score) for hit in answer.hits)
    shelf.write("new.md", "# Another\n\nwalrus\n")  # and the next state grows out of it
    assert shelf.ask("walrus").hits[0].node_id == "new.md#another"


def test_how_many_are_shown_changes_no_answer(by_the_model: Retriever) -> None:
    question = "how long is a loaf baked?"
    with open_retriever(index=by_the_model.store.folder, settings={"top_k": 1}) as one:
        few, many = one.answer(question), by_the_model.answer(question)
    assert [sentence.text for sentence in few.sentences] == [sentence.text for sentence in many.sentences]
    assert (few.answer.verdict, few.answer.confidence) == (many.answer.verdict, many.answer.confidence)
    assert found(few.answer) == found(many.answer)[:1]


def test_an_index_that_was_never_finished_says_what_to_run(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    with pytest.raises(KeyboardInterrupt):
        shelf.update(progress=Interrupting("indexing words", 0))
    with pytest.raises(NoIndexError, match=r"is not finished; run: python -m retriever index"):
        shelf.ask("word")


@pytest.mark.parametrize("off", [{"semantic_weight": 0.0}, {"keyword_weight": 0.0}])
def test_one_search_alone(shared_shelf: Shelf, off: dict[str, Any]) -> None:
    answer = shared_shelf.ask("bread over night", **NEVER_REFRESH, **off)
    assert answer.hits[0].node_id == "kitchen.md#kitchen/bread"


GIBBERISH = Path(__file__).parents[1] / "eval_unanswerable" / "gibberish.jsonl"


@pytest.fixture(scope="module")
def by_the_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retriever]:
    folder = tmp_path_factory.mktemp("confidence")
    with open_retriever([write_pages(folder / "docs", PAGES)], folder / "index") as retriever:
        yield retriever


@pytest.mark.parametrize(("question", "verdict"), read_table("found", "How sure an answer is"))
def test_how_sure_an_answer_is(by_the_model: Retriever, question: str, verdict: str) -> None:
    answer = by_the_model.search(question)
    assert answer.verdict == verdict
    assert answer.confidence > 0.6 if verdict == "answered" else answer.hits


def test_words_of_the_documents_that_do_not_belong_together_are_not_answered(by_the_model: Retriever) -> None:
    for question in ("train patience leaves", "letter water", "sun journey salt", "stick beans summer"):
        assert by_the_model.search(question).verdict != "answered", question


def test_gibberish_is_none(by_the_model: Retriever) -> None:
    for line in GIBBERISH.read_text(encoding="utf-8").splitlines():
        question = json.loads(line)["question"]
        assert by_the_model.search(question).verdict == "none", question
