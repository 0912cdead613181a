"""The bundled reader: what it says of passages, and what becomes of it in a search."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from retriever import open_retriever
from retriever.embedding.onnx import READER, RERANKER_CARD, ModelCard, OnnxEncoder, PassageReader, interact
from retriever.errors import EncoderError
from retriever.query import AskRequest, Expansion
from retriever.retriever import Retriever
from retriever.types import StageName
from tests.real.served import indexed

PAGES = {
    "backup.md": "# Backups\n\nBackups run each night at 02:00.\n\nThe disks are kept in the cellar.\n\n"
    "| copy | kept for |\n|---|---|\n| daily | 14 days |\n| weekly | 1 year |\n",
    "door.md": "# The door\n\nThe door is locked at six. Ask the porter for a key.\n",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return indexed(tmp_path_factory.mktemp("reader"), PAGES)


@pytest.fixture
def retriever(index: Path) -> Iterator[Retriever]:
    with open_retriever(index=index) as retriever:
        yield retriever


def test_a_passage_that_answers_has_more_than_one_with_the_same_words() -> None:
    right, wrong, *others = PassageReader(OnnxEncoder()).read(
        "how do I exclude a route from the schema?",
        [
            (("Routes", "Schema"), "To exclude a route from the schema, set include_in_schema to False."),
            (("Routes", "Schema"), "The schema of a route is made by its types."),
            *(((), text) for text in ("A route.", "Soup.", "Bees.")),
        ],
    )
    assert right.logit > wrong.logit + 1
    assert right.interaction > wrong.interaction > 0
    assert right.with_titles == wrong.with_titles > others[0].with_titles == 0


def test_late_interaction_is_the_mean_over_the_question_of_the_nearest_tokens() -> None:
    question = np.array([[1, 0], [0, 1]], dtype=np.float32)
    text = np.array([[0.6, 0.8], [1, 0], [-1, 0]], dtype=np.float32)
    assert interact(question, text) == pytest.approx((1 + 0.8) / 2)
    assert interact(question, text[:0]) == 0.0


def test_the_row_that_defines_a_term_stands_before_one_that_uses_it(tmp_path: Path) -> None:
    rows = "| **index** | A folder with `index.sqlite` and a snapshot, or tables in PostgreSQL. |\n"
    rows += "| **snapshot** | What searches need, derived from `index.sqlite`; replaced as a whole. |\n"
    text = f"# Glossary\n\n## The index\n\n| word | meaning |\n|---|---|\n{rows}"
    with open_retriever(index=indexed(tmp_path, PAGES | {"glossary.md": text})) as retriever:
        assert "derived from" in retriever.answer("what is a snapshot?").sentences[0].text


def test_nothing_is_read_while_a_question_is_typed(retriever: Retriever) -> None:
    answer = retriever.search(AskRequest("when do the backups ru", is_typing=True))
    assert StageName.READ not in [stage.name for stage in answer.trace.stages]


def test_its_files_are_those_of_its_card() -> None:
    ModelCard.read(READER, RERANKER_CARD).verify(READER)


def test_a_model_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="reranker"):
        PassageReader(OnnxEncoder(), tmp_path).read("how?", [(("A",), "b")])


def test_a_rewording_is_read_for_the_verdict_too(retriever: Retriever) -> None:
    question = "after which span is the duplicate of seven days gone?"
    rewording = Expansion(("how long is a weekly copy kept?",))
    answers = [retriever.search(AskRequest(question, expansion=expansion)) for expansion in (None, rewording)]
    alone, reworded = (answer.trace.signals.reading or 0.0 for answer in answers)
    assert reworded > alone + 1


def test_it_is_loaded_once_in_a_process(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        with open_retriever(index=index) as retriever:
            assert retriever.search("how long is a weekly copy kept?").trace.signals.reading is not None
        monkeypatch.setattr("retriever.embedding.onnx.Model", None)


@pytest.mark.parametrize("read_passages", [3, 0])
def test_it_is_read_for_the_verdict_and_switched_off_by_its_setting(index: Path, read_passages: int) -> None:
    with open_retriever(index=index, settings={"read_passages": read_passages}) as retriever:
        trace = retriever.search("how long is a weekly copy kept?").trace
    assert (trace.signals.reading is not None) == bool(read_passages)
    assert ("5 units" in str(trace.stages)) == bool(read_passages), "4 of the first section, 1 of the other"


def test_lines_in_another_language_are_chosen_by_meaning(tmp_path: Path) -> None:
    lines = ("Die Sicherungen der Woche werden ein Jahr lang aufgehoben.", "Sie liegen im Keller auf dem Regal.")
    key = "Der Hausmeister gibt den Schl\u00fcssel heraus."
    page = "\n\n".join(("# Das Haus", *lines, key, "Montags wird der Flur gewischt."))
    (tmp_path / "haus.md").write_text(page, encoding="utf-8")
    with open_retriever([tmp_path], tmp_path / "index") as retriever:
        assert key in retriever.answer("Wer kann mir die T\u00fcr aufsperren?").sentences[0].text
