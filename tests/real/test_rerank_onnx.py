"""A cross-encoder as int8 ONNX, without PyTorch: the same folder, tokenizer and runtime as with a large one."""

import json
from pathlib import Path

import pytest

from retriever.embedding.onnx import RerankerCard, file_sha256, write_card
from retriever.errors import EncoderError
from retriever.rerank.onnx import OnnxReranker
from retriever.rerank.reranker import RerankInput
from retriever.settings.schema import RerankSettings
from tests.program import Cli, run_python
from tests.shelf import PAGES, QUESTIONS, Shelf, found
from tests.small_reranker import make_reranker

pytestmark = pytest.mark.shared_index
QUESTION = "who pays for the journey of a letter?"
SHOWN = [
    RerankInput("Mail > Parcels", "A parcel is weighed before it travels by train."),
    RerankInput("Mail > Stamps", "A stamp pays for the journey of a letter."),
    RerankInput("Kitchen", "Bread rises over night." + " Soup." * 40),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_reranker(tmp_path_factory.mktemp("model") / "small", [*PAGES.values(), *QUESTIONS, QUESTION])


def opened(folder: Path) -> OnnxReranker:
    return OnnxReranker(RerankSettings(kind="onnx", model=str(folder)))


def test_the_text_that_answers_has_the_highest_score(folder: Path) -> None:
    output = opened(folder).score(QUESTION, SHOWN)
    assert max(output.scores) == output.scores[1] > 0.5 > output.scores[2]
    assert all(0 <= score <= 1 for score in output.scores)
    assert output.note == "3 candidates"
    assert opened(folder).score(QUESTION, []).scores == ()


def test_long_texts_are_cut_and_odd_ones_read(folder: Path) -> None:
    one, other = (RerankInput("Mail", "stamp " * length) for length in (100, 900))
    scores = opened(folder).score(QUESTION, [one, other]).scores
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert len(opened(folder).score("word " * 3000, [one]).scores) == 1
    assert len(opened(folder).score("\ud800", [RerankInput("\ud800", "")]).scores) == 1


def test_a_search_in_the_order_of_the_model(shelf: Shelf, folder: Path, cli: Cli) -> None:
    rerank = {"kind": "onnx", "model": str(folder), "blend": 0.0}
    answer = shelf.ask(QUESTION, rerank=rerank, top_k=8)
    assert answer.degraded == ()
    assert answer.hits[0].title == "Stamps"
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    assert {item.scale for hit in answer.hits for item in hit.evidence if item.source == "rerank"} == {
        "cross-encoder, 0 to 1"
    }
    flags = ("--rerank-kind", "onnx", "--rerank-model", folder)
    printed = cli(QUESTION, "--index", shelf.index, "--encoder-kind", "none", "--json", *flags)
    assert json.loads(printed.out)["hits"][0]["title"] == "Stamps"


def test_doctor_loads_the_model(folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_RETRIEVE_RERANK_KIND", "onnx")
    monkeypatch.setenv("HYBRID_RETRIEVE_RERANK_MODEL", str(folder))
    assert "is there and has its checksums" in cli("doctor", "--llm", code=(0, 1)).out
    monkeypatch.setenv("HYBRID_RETRIEVE_RERANK_MODEL", "/nowhere")
    assert "/nowhere is no model folder (reranker.json" in cli("doctor", "--llm", code=1).out


@pytest.mark.parametrize("fault", ["no folder", "no card", "no model", "two outputs", "no time"])
def test_a_model_that_cannot_be_used_leaves_the_list_as_it_is(
    shelf: Shelf, folder: Path, fault: str, tmp_path: Path
) -> None:
    copy, budget, messages = tmp_path / "copy", "", ["scripts/export_model.py MODEL FOLDER"]
    if fault != "no folder":
        make_reranker(copy, PAGES.values(), outputs=2 if fault == "two outputs" else 1)
    if fault == "no card":
        (copy / "reranker.json").unlink()
    if fault == "no model":
        (copy / "model.onnx").write_bytes(b"no graph")
        write_card(RerankerCard(file_sha256(copy / "model.onnx"), file_sha256(copy / "tokenizer.json"), 64), copy)
        messages = ["cannot be loaded"]
    if fault == "two outputs":
        messages = ["gave no single number"]
    if fault == "no time":
        budget, messages = "1ms", ["of the budget", "the budget is used up", "the time for reranking is over"]
    answer = shelf.ask(QUESTION, rerank={"kind": "onnx", "model": str(copy)}, budget=budget)
    assert found(answer) == found(shelf.ask(QUESTION, rerank={"kind": "none"}, budget=budget))
    (reason,) = (str(item) for item in answer.degraded if item.stage == "rerank")
    assert any(message in reason for message in messages), reason


def test_pytorch_is_not_imported(folder: Path) -> None:
    code = f"""
import sys
from retriever.rerank.onnx import OnnxReranker
from retriever.rerank.reranker import RerankInput
from retriever.settings.schema import RerankSettings
OnnxReranker(RerankSettings(kind="onnx", model={str(folder)!r})).score("a", [RerankInput("b", "c")])
print(sorted({{"torch", "transformers", "sentence_transformers", "onnx"}} & set(sys.modules)), file=sys.stderr)
"""
    assert run_python(code).stderr.splitlines()[-1] == "[]"


def test_what_the_card_says_is_checked(folder: Path, tmp_path: Path) -> None:
    copy = make_reranker(tmp_path / "copy", PAGES.values())
    (copy / "reranker.json").write_text('{"max_tokens": "many"}')
    with pytest.raises(EncoderError, match=r"reranker\.json is no card of a model \(.*export_model\.py"):
        opened(copy).score(QUESTION, SHOWN)
