"""A cross-encoder as int8 ONNX, without PyTorch: the bundled reader, in a folder as a large one would have it."""

import json
import shutil
from pathlib import Path

import pytest

from retriever.embedding.encoder import ENGLISH_MODEL
from retriever.embedding.onnx import READER
from retriever.rerank import OnnxReranker, RerankInput
from retriever.settings import RerankSettings
from tests.program import Cli
from tests.shelf import Shelf, found

pytestmark = pytest.mark.shared_index
QUESTION = "who pays for the journey of a letter?"
SHOWN = [
    RerankInput("Mail > Parcels", "A parcel is weighed before it travels by train."),
    RerankInput("Mail > Stamps", "A stamp pays for the journey of a letter."),
    RerankInput("Kitchen", "Bread rises over night." + " Soup." * 40),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(READER, tmp_path / "model"))


def opened(folder: Path) -> OnnxReranker:
    return OnnxReranker(RerankSettings(kind="onnx", model=str(folder)))


def test_the_text_that_answers_has_the_highest_score_and_none_depends_on_another(folder: Path) -> None:
    scores = opened(folder).score(QUESTION, SHOWN)
    assert max(scores) == scores[1] > 0.5 > scores[2]
    assert all(0 <= score <= 1 for score in scores)
    assert [opened(folder).score(QUESTION, [one])[0] for one in SHOWN] == scores
    assert opened(folder).score(QUESTION, []) == []


def test_a_search_in_the_order_of_the_model(shelf: Shelf, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.rerank.BLEND", 0.0)
    answer = shelf.ask(QUESTION, rerank={"kind": "onnx", "model": str(folder)}, top_k=8)
    assert answer.degraded == ()
    assert answer.hits[0].title == "Stamps"
    scales = {item.scale for hit in answer.hits for item in hit.evidence if item.source == "rerank"}
    assert scales == {"cross-encoder, 0 to 1"}


def test_flags_choose_the_model(shelf: Shelf, folder: Path, cli: Cli) -> None:
    flags = ("--rerank-kind", "onnx", "--rerank-model", folder)
    printed = cli(QUESTION, "--index", shelf.index, "--encoder-kind", "none", "--json", *flags)
    assert json.loads(printed.out)["hits"][0]["title"] == "Stamps"


FAULTS = {
    "no folder": ("", b"", "scripts/export_model.py MODEL FOLDER"),
    "no JSON": ("reranker.json", b'{"max_tokens": "many"}', "reranker.json is no card of a model"),
    "no model": ("model.onnx", b"no graph", "cannot be loaded"),
    "an encoder": ("model.onnx", (ENGLISH_MODEL / "model.onnx").read_bytes(), "gave no single number"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_model_that_cannot_be_used_leaves_the_list_as_it_is(shelf: Shelf, folder: Path, fault: str) -> None:
    name, content, message = FAULTS[fault]
    if name:
        (folder / name).write_bytes(content)
    else:
        shutil.rmtree(folder)
    answer = shelf.ask(QUESTION, rerank={"kind": "onnx", "model": str(folder)})
    assert found(answer) == found(shelf.ask(QUESTION))
    (reason,) = map(str, answer.degraded)
    assert reason.startswith("rerank: ")
    assert message in reason
