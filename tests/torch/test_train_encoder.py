"""A tiny model is trained for a few steps on a tiny corpus, stopped, taken up again, and exported; needs PyTorch."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from retriever.embedding.encoder import BUNDLED_MODEL
from retriever.embedding.onnx import OnnxEncoder

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
pytest.importorskip("onnx")

from scripts import train_encoder  # noqa: E402 - not where there is no PyTorch

SUBJECTS = ("boats", "trains", "horses", "kites", "lamps", "clocks")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("base")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    transformers.BertModel(transformers.BertConfig(**sizes), add_pooling_layer=False).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((BUNDLED_MODEL / "tokenizer.json").read_bytes())
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64}')
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "questions").mkdir()
    with gzip.open(folder / "chunks.jsonl.gz", "wt") as chunks, (folder / "questions/a.jsonl").open("w") as questions:
        for corpus in ("one", "two"):
            for number, subject in enumerate(SUBJECTS):
                section = f"{corpus}/{subject}.md"
                for part in ("building", "mending"):
                    text = f"{subject} > {part}\nAll about {part} {subject} in {corpus}, number {number}."
                    chunks.write(json.dumps({"sid": section, "text": text}) + "\n")
                for question in (f"how do I mend my {subject}?", f"{subject} {corpus}"):
                    row = {"section": section, "style": "direct", "question": question}
                    questions.write(json.dumps(row) + "\n")
                questions.write(json.dumps({"section": section, "style": "unanswerable", "question": "why?"}) + "\n")
    return folder


def train(run: Path, base: Path, data: Path, *options: str) -> Any:  # noqa: ANN401 - click's result
    own = ["--data", str(data), "--questions", str(data / "questions"), "--sections", "4"]
    arguments = [str(run), "--base", str(base), *own, "--minutes", "60", "--learning-rate", "1e-3", *options]
    return CliRunner().invoke(train_encoder.main, arguments)


def test_a_run_learns_is_taken_up_again_and_gives_a_model(base: Path, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = train(run, base, data, "--steps", "40", "--mine-again", "1", "--average", "1")
    assert result.exit_code == 0, result.output
    assert "24 questions of 12 sections" in result.output
    assert "over 24 chunks: mean" in result.output
    rows = [json.loads(line) for line in (run / "curve.jsonl").read_text().splitlines()]
    losses = [row["mean"] for row in rows if "mean" in row]
    assert losses[-1] < losses[0] / 2
    assert sum("mined" in row for row in rows) == 2
    encoder = OnnxEncoder(run / "model-1")
    vectors = encoder.encode_documents(["a text about boats"])
    assert vectors.shape == (1, 32)
    again = train(run, base, data, "--steps", "40", "--mine-again", "1", "--average", "1")
    assert "going on after step 40" in again.output
    np.testing.assert_array_equal(OnnxEncoder(run / "model-1").encode_documents(["a text about boats"]), vectors)
