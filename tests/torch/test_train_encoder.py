"""A tiny model is trained for a few steps on a tiny corpus, stopped, taken up again, and exported; needs PyTorch."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from retriever.embedding.encoder import ENGLISH_MODEL, bundled_tokens
from retriever.embedding.onnx import OnnxEncoder
from tests.torch.conftest import SIZES

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
pytest.importorskip("onnx")

from scripts import train_encoder, training_data  # noqa: E402 - not where there is no PyTorch
from scripts.reader_data import read_rows  # noqa: E402

SUBJECTS = ("boats", "trains", "horses", "kites", "lamps", "clocks")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # several wait for one another where the machine has other work
    folder = tmp_path_factory.mktemp("base")
    model = transformers.BertModel(transformers.BertConfig(**SIZES), add_pooling_layer=False)
    for weights in model.parameters():  # far enough from nothing for texts to differ: the words are not learned
        weights.data.mul_(4)
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((ENGLISH_MODEL / "tokenizer.json").read_bytes())
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Documents and questions, cut by the script that cuts the real ones."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "questions").mkdir()
    corpora, asked, lines = [], [], []
    for corpus in ("one", "two", "held"):
        corpora.append(f"- {{name: {corpus}, glob: '*.md', held_out: {str(corpus == 'held').lower()}}}\n")
        (folder / "sources" / corpus).mkdir(parents=True)
        for number, subject in enumerate(SUBJECTS):
            section = f"{corpus}/{subject}.md#{subject}"
            body = "\n\n".join(f"All about {part} {subject}, number {number}. " * 30 for part in ("sails", "repair"))
            (folder / "sources" / corpus / f"{subject}.md").write_text(f"# {subject.title()}\n\n{body}\n")
            asked.append({"section": section, "style": "direct", "question": f"{subject} {corpus}"})
            asked.append({"section": section, "style": "unanswerable", "question": "why?"})
            question = f"how do I repair my {subject}?"
            lines.append({"section": section, "question": question, "kind": "other", "lines": [[5, 5]]})
    (folder / "corpora.yaml").write_text("".join(corpora))
    (folder / "questions" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    rival = {"section": "one/boats.md#boats", "question": "boats one", "rival": "one/kites.md#kites", "answers": True}
    for name, rows in (("lines", lines), ("rivals", [rival])):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_data, "TRAINING", folder)
        arguments = [str(folder / "data"), "--sources", str(folder / "sources")]
        made = CliRunner().invoke(training_data.main, arguments, catch_exceptions=False)
        assert "one: 6 of 6 sections; 6 with questions, 0 of them lost" in made.output
        yield folder


def run_script(*arguments: str | Path) -> Result:
    return CliRunner().invoke(train_encoder.main, [*map(str, arguments)])


def train(run: Path, start: Path, data: Path, *options: str) -> Result:
    own = ("--data", data / "data", "--hold-out", "held", "--batch", "8", "--minutes", "60")
    return run_script("train", run, "--start", start, *own, *options)


def read_curve(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "curve.jsonl").read_text().splitlines()]


def test_a_question_knows_the_chunk_with_its_lines_and_the_sections_that_answer_too(data: Path) -> None:
    learned = training_data.read_data(data / "data", bundled_tokens())
    sections = [row["id"] for row in read_rows(data / "data" / "sections.jsonl.gz")]
    asked = [row["question"] for row in read_rows(data / "data" / "questions.jsonl.gz")]
    assert len(asked) == 36  # without the unanswerable ones
    by_name, by_lines = asked.index("boats one"), asked.index("how do I repair my boats?")
    own = np.flatnonzero(learned.section_of == learned.answer[by_lines])
    assert learned.answer_chunk[by_name] == -1
    assert learned.answer_chunk[by_lines] in own[1:]
    (found,) = learned.find_answers(np.array([by_name]), np.arange(len(sections)))
    assert {sections[place] for place in np.flatnonzero(found)} == {"one/boats.md#boats", "one/kites.md#kites"}


def test_a_run_learns_is_taken_up_again_and_gives_a_model(
    base: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_encoder, "REPORT_S", 0)
    run, options = tmp_path / "run", ("--learning-rate", "3e-3", "--steps", "30")
    result = train(run, base, data, *options)
    assert result.exit_code == 0, result.output
    assert "24 questions to learn, 12 to measure" in result.output
    rows = read_curve(run)
    losses = np.array([[row["mean"], row["tokens"]] for row in rows if "mean" in row])
    assert (losses[-5:].mean(axis=0) < losses[:5].mean(axis=0) * 0.8).all()
    measured = {row["measured"]: row["held"] for row in rows if "measured" in row}
    assert measured.keys() == {"share 0", "share 0.5", "share 1"}
    again = train(run, base, data, *options)
    assert "going on after step 30" in again.output
    other = train(run, base, data, "--steps", "31")
    assert "begun with another steps, learning_rate" in other.output
    assert (
        "has no sections.jsonl.gz: make it with"
        in run_script("train", run / "a", "--start", base, "--data", run).output
    )
    exported = run_script("export", run, tmp_path / "model", "--documents", data / "sources", "--share", "1")
    assert exported.exit_code == 0, exported.output
    assert "cosine of int8 with float32" in exported.output
    encoder = OnnxEncoder(tmp_path / "model")
    assert encoder.encode_documents(["a text about boats"]).shape == (1, 32)
    assert [vectors.shape for vectors in encoder.encode_tokens(["about boats"])] == [(2, 128)]
    # What was exported is a start as well, and without its own share stays what it is.
    assert train(tmp_path / "next", tmp_path / "model", data, "--steps", "3").exit_code == 0
    as_begun = ("--documents", data / "sources", "--share", "0")
    assert run_script("export", tmp_path / "next", tmp_path / "same", *as_begun).exit_code == 0
    same = OnnxEncoder(tmp_path / "same")
    assert (encoder.encode_tokens(["about boats"])[0] * same.encode_tokens(["about boats"])[0]).sum(axis=1).min() > 0.98
