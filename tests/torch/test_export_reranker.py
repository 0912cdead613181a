"""A tiny cross-encoder with random weights, exported to int8 ONNX; skipped without PyTorch."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from retriever.rerank import OnnxReranker, RerankInput
from retriever.settings import RerankSettings
from scripts import export_model
from tests.torch.conftest import make_bert

SHOWN = [RerankInput("Boats", text) for text in ("one", "another, rather longer text on boats", "x " * 20)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    pytest.importorskip("onnx")
    make_bert(tmp_path / "model", "BertForSequenceClassification", num_labels=1)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("".join(f"# Boat {place}\n\nAt night {place}.\n\n" for place in range(9)))
    return tmp_path / "model"


def test_export_gives_a_folder_that_agrees_with_the_model(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers: Any = pytest.importorskip("transformers")
    folder, arguments = model.parent / "int8", [str(model), str(model.parent / "int8"), "--documents"]
    monkeypatch.setattr(export_model, "MIN_CORRELATION", 1.1)
    refused = CliRunner().invoke(export_model.main, [*arguments, str(model.parent / "docs")])
    assert refused.exit_code == 1
    assert "not enough: the correlation must be 1.1" in refused.output
    assert not folder.exists()

    monkeypatch.setattr(export_model, "MIN_CORRELATION", -1)  # random weights hardly tell texts apart
    done = CliRunner().invoke(export_model.main, [*arguments, str(model.parent / "docs")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "over 81 pairs of texts" in done.output
    scores = OnnxReranker(RerankSettings(kind="onnx", model=str(folder))).score("boats at night", SHOWN)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(model))
    network = transformers.AutoModelForSequenceClassification.from_pretrained(str(model)).eval()
    for shown, score in zip(SHOWN, scores, strict=True):
        read = tokenizer("boats at night", f"{shown.titles}\n{shown.text}", return_tensors="pt")
        assert score == pytest.approx(float(network(**read).logits[0, 0].sigmoid().detach()), abs=0.03)


def test_only_a_model_with_one_output_is_a_reranker(model: Path) -> None:
    assert export_model.is_reranker(model)
    config = model / "config.json"
    config.write_text(config.read_text().replace("BertForSequenceClassification", "BertModel"))
    assert not export_model.is_reranker(model)
    assert not export_model.is_reranker(model.parent)
