"""Documents and questions in other languages than English."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from retriever.api import index_folders, open_retriever
from retriever.display import list_remarks
from retriever.embedding import bundled_encoder
from retriever.embedding.both import ENGLISH_SHARE, UNRELATED, BothEncoder
from retriever.embedding.encoder import BUNDLED_MODELS, MULTILINGUAL_MODEL, can_read
from retriever.embedding.unigram import UnigramTokens
from retriever.retriever import Retriever
from retriever.settings import EncoderSettings
from retriever.types import Encoder
from retriever.upkeep import check_up
from scripts.multilingual import read_package_ids
from tests.program import PROJECT, Cli
from tests.real.served import indexed
from tests.shelf import write_pages
from tests.tables import read_table

NOTES = PROJECT / "tests/data/languages"
ENGLISH = {"encoder": {"model": "english"}}


@pytest.fixture(scope="module")
def languages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retriever]:
    """The index of notes in all languages, and an English page, open."""
    folder = tmp_path_factory.mktemp("languages")
    # To embed all of the notes takes four times as long.
    pages = {name: (NOTES / name).read_text("utf-8") for name in read_table("found", "Notes near the questions")}
    pages["restore.md"] = (PROJECT / "tests/eval_corpus/larder/restore.md").read_text("utf-8")
    with open_retriever(index=indexed(folder, pages)) as retriever:
        assert retriever.status().encoder == "onnx sections-minilm-3, sections-multilingual-1"
        yield retriever


@pytest.fixture(scope="module")
def in_english(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of two with the English model."""
    pages = {name: (NOTES / name).read_text("utf-8") for name in ("zh/tingche.md", "de/urlaub.md")}
    return indexed(tmp_path_factory.mktemp("in_english"), pages, ENGLISH)


@pytest.mark.parametrize(("question", "first"), read_table("found", "In other languages"))
def test_a_question_finds_its_section_and_is_not_told_that_there_is_none(
    languages: Retriever, question: str, first: str
) -> None:
    answer = languages.search(question)
    assert answer.hits[0].node_id == first
    assert answer.verdict != "none"
    assert answer.hits[0].words


@pytest.mark.parametrize("question", read_table("found", "Not in these notes"))
def test_what_means_nothing_or_is_on_another_topic_has_no_answer(languages: Retriever, question: str) -> None:
    assert languages.search(question).verdict == "none"


def test_what_the_model_does_not_know_is_searched_for_by_words_alone_and_it_is_said(in_english: Path, cli: Cli) -> None:
    printed = cli("ask", "停车一晚多少钱", "--index", in_english, "--json").json
    assert {item["source"] for hit in printed["hits"] for item in hit["evidence"]} <= {"keyword", "name", "neighbors"}
    (sentence,) = printed["degraded"]
    assert "is for English; for other languages, run: " in sentence
    assert sentence in cli("ask", "停车一晚多少钱", "--index", in_english).err


def test_by_words_alone_a_second_hit_stands_before_what_is_around_the_first(tmp_path: Path) -> None:
    notes = PROJECT / "benchmarks/data/languages/ru"
    pages = {name: (notes / name).read_text("utf-8") for name in ("клуб.md", "машина.md", "дача.md")}
    with open_retriever(index=indexed(tmp_path, pages, ENGLISH)) as retriever:
        answer = retriever.search("До какого числа действует техосмотр?")
    assert [hit.title for hit in answer.hits[:2]] == ["Взносы", "Техосмотр"]


@pytest.mark.parametrize("question", ["Wie beantrage ich freie Tage?", "停车一晚多少钱"])
def test_lines_are_read_in_any_language_for_the_verdict_too(languages: Retriever, question: str) -> None:
    assert (languages.search(question).trace.signals.reading or 0.0) > 1


def test_a_question_in_another_language_than_the_documents_is_found_by_meaning(languages: Retriever) -> None:
    answer = languages.search("I lost my door key, what does it cost?")
    assert answer.hits[0].node_id == "ja/kagi.md#鍵とオートロック/鍵をなくした"
    assert answer.trace.signals.abroad  # what the English reader says of Japanese lines counts for nothing


@pytest.mark.parametrize(
    ("question", "said"),
    [("Wie viele Tage Urlaub bekomme ich?", 1), ("休暇は何日ですか", 1), ("RefCell vs Mutex kubectl", 0)],
)
def test_a_question_that_the_english_model_does_not_know_says_how_to_ask_it(
    in_english: Path, question: str, said: int
) -> None:
    with open_retriever(index=in_english) as retriever:
        remarks = list_remarks(retriever.search(question))
    assert sum("--encoder-model both" in remark or "other words" in remark for remark in remarks) == said


def test_the_model_is_chosen_when_an_index_is_made_and_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    docs, index = tmp_path / "docs", tmp_path / "index"
    for pages in (
        {"boats.md": 9 * "# Boats\n\nEvery member may take a boat out before sunset, and writes it into the book.\n"},
        {"łodzie.md": 2 * "# Łodzie\n\nKażdy członek może wziąć łódź przed zachodem słońca i wpisuje to do księgi.\n"},
    ):
        write_pages(docs, pages)
        index_folders([docs], index)
    with open_retriever(index=index) as retriever:
        status = retriever.status()
    assert status.encoder == "onnx sections-minilm-3"
    assert "18% of the text is not in English" in status.mix
    assert "index FOLDER --encoder-model both" in status.mix
    assert status.mix in [finding.says for finding in check_up(index).findings]
    assert not caplog.messages
    index_folders([docs], tmp_path / "both")
    assert caplog.messages.pop().startswith("note: 18% of the text is not in English: --encoder-model both was chosen")
    with open_retriever(index=tmp_path / "both") as retriever:
        assert not retriever.status().mix
    assert index_folders([docs], index, settings={"encoder": {"model": "multilingual"}}).embedded == 2  # texts in all
    with open_retriever(index=index) as retriever:
        assert retriever.status().encoder == "onnx sections-multilingual-1"
        assert "index FOLDER --encoder-model both" in retriever.status().mix
    (docs / "boats.md").unlink()
    index_folders([docs], tmp_path / "own")
    assert "--encoder-model multilingual was chosen" in caplog.text


def test_texts_are_not_similar_because_they_are_in_one_language(languages: Retriever) -> None:
    assert not languages.similar("de/urlaub.md#urlaub/sonderurlaub").sections


def test_the_cosines_of_both_models_are_added() -> None:
    models = [bundled_encoder(EncoderSettings(), name) for name in BUNDLED_MODELS]
    encoders: list[Encoder] = [*models, BothEncoder(*models)]
    assert [encoder.max_tokens for encoder in encoders] == [256, 252, 252]
    texts = ["Restore a single file", "Eine Datei wiederherstellen"]
    english, multilingual, both = (item.encode_queries(texts) @ item.encode_documents(texts).T for item in encoders)
    of_english = np.array([[english[0, 0], UNRELATED], [0, 0]])
    expected = ENGLISH_SHARE * of_english + (1 - ENGLISH_SHARE) * multilingual
    assert both * (1 + ENGLISH_SHARE * UNRELATED**2) ** 0.5 == pytest.approx(expected, abs=1e-6)


def test_a_document_that_changes_its_language_is_read_in_the_new_one(tmp_path: Path) -> None:
    docs, text = tmp_path / "docs", "The notice period is one month, and then two.\n"
    index = indexed(tmp_path, {f"{number}.md": f"# Rules {number}\n\n{text}" for number in range(9)})
    german = "# Regeln\n\nDie Kündigungsfrist ist ein Monat, und nach einem Jahr sind es für alle zwei.\n"
    write_pages(docs, {"0.md": german})
    with open_retriever([docs], index) as retriever:
        assert retriever.search("Welche Kündigungsfristen gelten für uns?").hits[0].file == "0.md"
        with retriever.view() as view:
            assert view.lexical.languages == ("german",)
    write_pages(docs, {"0.md": f"# Rules\n\n{text}"})
    with open_retriever([docs], index) as retriever:
        retriever.search("notice period")
        with retriever.view() as view:
            assert view.lexical.languages == ()


@pytest.mark.parametrize(("text", "read"), read_table("words", "What the English model can read"))
def test_what_the_english_model_can_read(text: str, read: str) -> None:
    assert can_read(bundled_encoder(EncoderSettings()), text) == (read == "yes")


def test_a_text_has_the_tokens_that_the_package_gives_it() -> None:
    file = MULTILINGUAL_MODEL / "unigram.txt"
    odd = "| |\t|\0\1a\7 \b| a  \u2581b |👨\u200d👩\u200d👧 a|اَلسَّلَامُ|ﷺ ½ ㍿ \x85|𒀀𒀁 a𒀀|e\u0301 Ωβ\xa0\u200bњ"
    texts = [*odd.split("|"), 20_000 * "中", *map(Path.read_text, NOTES.rglob("*.md"))]
    assert UnigramTokens(file.read_bytes).ids(texts) == read_package_ids(file, texts)
