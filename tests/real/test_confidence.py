"""What the bundled model makes of questions that a small folder answers, half answers, and does not answer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from retriever.api import open_retriever
from retriever.retriever import Retriever
from tests.shelf import PAGES

GIBBERISH = Path(__file__).parents[1] / "eval_unanswerable" / "gibberish.jsonl"


def write(folder: Path, pages: dict[str, str]) -> Path:
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retriever]:
    """Four pages, by the real model."""
    folder = tmp_path_factory.mktemp("confidence")
    with open_retriever([write(folder / "docs", PAGES)], folder / "index") as retriever:
        yield retriever


@pytest.mark.parametrize(
    "question", ["what pays for a letter?", "bread over night", "weigh a parcel before the train", "stamps"]
)
def test_what_is_there_is_answered(retriever: Retriever, question: str) -> None:
    answer = retriever.search(question)
    assert (answer.verdict, answer.confidence > 0.8) == ("answered", True)


@pytest.mark.parametrize("question", ["how long does dough need to rise?", "which disease makes leaves brown?"])
def test_what_is_there_in_other_words_is_weak(retriever: Retriever, question: str) -> None:
    assert retriever.search(question).verdict == "weak"


@pytest.mark.parametrize(
    "question", ["how do I install the printer driver?", "what is the capital of France", "who repairs bicycles?"]
)
def test_what_is_not_there_is_none_and_the_nearest_sections_are_given_all_the_same(
    retriever: Retriever, question: str
) -> None:
    answer = retriever.search(question)
    assert (answer.verdict, answer.confidence < 0.05) == ("none", True)
    assert answer.hits


@pytest.mark.parametrize(
    "question",
    ["train patience leaves", "letter water", "sun journey salt", "stick beans summer", "tomatoes letter wet travels"],
)
def test_words_of_the_documents_that_do_not_belong_together_are_not_answered(
    retriever: Retriever, question: str
) -> None:
    assert retriever.search(question).verdict != "answered"


@pytest.mark.parametrize(
    "question", ["how do I configure tomatoes frobnicate zorblax?", "what is the zorblax letter?", "zorblax bread"]
)
def test_a_question_about_a_word_that_is_not_there_is_none(retriever: Retriever, question: str) -> None:
    assert retriever.search(question).verdict == "none"


def test_a_number_alone_is_never_answered(tmp_path: Path) -> None:
    page = "# Errors\n\nThe server replies 401 without a password.\n\n# Files\n\nA file is read once.\n"
    with open_retriever([write(tmp_path / "docs", {"errors.md": page})], tmp_path / "index") as retriever:
        assert retriever.search("401").verdict != "answered"
        assert retriever.search("replies 401").verdict == "answered"


def test_gibberish_is_none(retriever: Retriever) -> None:
    for line in GIBBERISH.read_text(encoding="utf-8").splitlines():
        question = json.loads(line)["question"]
        assert retriever.search(question).verdict == "none", question


def test_a_folder_of_one_section(tmp_path: Path) -> None:
    page = "# Log rotation\n\nLogs are rotated every night at two; seven old files are kept and then removed.\n"
    with open_retriever([write(tmp_path / "docs", {"logs.md": page})], tmp_path / "index") as retriever:
        verdicts = [
            retriever.search(question).verdict
            for question in ("how often are logs rotated?", "when does the database backup run?", "asdf qwer")
        ]
    assert verdicts == ["answered", "none", "none"]
