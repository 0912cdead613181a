"""A tiny model with random weights, run by the extra `models` and exported to ONNX; skipped without the extra."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from retriever.embedding import open_encoder
from retriever.embedding.external import SentenceTransformersEncoder
from retriever.embedding.onnx import OnnxEncoder
from retriever.errors import EncoderError
from retriever.settings import EncoderSettings
from scripts import export_model
from tests.program import run_python
from tests.torch.conftest import make_bert

TEXTS = ["a text", "another, rather longer text about boats", "x " * 20]


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = make_bert(tmp_path_factory.mktemp("tiny") / "bert", "BertModel").parent
    models: Any = pytest.importorskip("sentence_transformers")
    transformer = models.sentence_transformer.modules.Transformer(str(place / "bert"), max_seq_length=64)
    pooling = models.sentence_transformer.modules.Pooling(32, pooling_mode="mean")
    prompts = {"query": "query: ", "passage": "passage: "}
    models.SentenceTransformer(modules=[transformer, pooling], prompts=prompts, device="cpu").save(str(place / "model"))
    return place / "model"


def opened(model: Path, **settings: str) -> SentenceTransformersEncoder:
    return SentenceTransformersEncoder(EncoderSettings(kind="sentence-transformers", model=str(model), **settings))  # type: ignore[arg-type] # the fields that are text


def test_vectors_are_units_in_order_and_depend_on_no_other_text(tiny_model: Path) -> None:
    encoder = opened(tiny_model)
    together = encoder.encode_documents(TEXTS)
    assert together.dtype == np.float32
    assert together.shape == (3, encoder.dimension) == (3, 32)
    np.testing.assert_allclose(
        together, np.concatenate([encoder.encode_documents([text]) for text in TEXTS]), atol=1e-5
    )
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)


def test_the_models_own_prompts_are_used_unless_others_are_given(tiny_model: Path) -> None:
    own, given = opened(tiny_model), opened(tiny_model, query_prefix="passage: ")
    np.testing.assert_allclose(own.encode_documents(TEXTS), given.encode_queries(TEXTS), atol=1e-5)
    assert np.abs(own.encode_queries(TEXTS) - own.encode_documents(TEXTS)).max() > 1e-3
    assert own.fingerprint != given.fingerprint


def test_the_libraries_draw_no_progress_of_their_own(tiny_model: Path) -> None:
    script = f"""if True:
        from retriever.embedding import open_encoder
        from retriever.settings import EncoderSettings
        settings = EncoderSettings(kind="sentence-transformers", model={str(tiny_model)!r})
        print(open_encoder(settings).encode_documents(["a"]).shape)
    """
    result = run_python(script)
    assert (result.stdout, result.stderr) == ("(1, 32)\n", "")


def test_a_long_question_is_cut_a_long_document_refused(tiny_model: Path) -> None:
    encoder = opened(tiny_model)
    assert encoder.max_tokens == 64 - 2
    assert encoder.count_tokens(["word " * 100]) == [102]
    assert np.array_equal(encoder.encode_queries(["word " * 100]), encoder.encode_queries(["word " * 60]))
    with pytest.raises(EncoderError, match=r"text 0 has 10. tokens"):
        encoder.encode_documents(["word " * 100])


def test_export_gives_a_folder_that_agrees_with_the_model(tiny_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "a.md").write_text("# Boats\n\n" + "\n\n".join(f"{text} {n}" for n in range(30) for text in TEXTS))
    arguments = [str(tiny_model), str(tmp_path / "exported"), "--documents", str(documents)]

    wrong = CliRunner().invoke(export_model.main, [*arguments, "--sha256", "0" * 64])
    assert wrong.exit_code == 1
    assert f"not {'0' * 64}" in wrong.output

    done = CliRunner().invoke(export_model.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    exported, original = OnnxEncoder(tmp_path / "exported"), opened(tiny_model)
    assert exported.max_tokens == original.max_tokens
    cosines = np.sum(exported.encode_documents(TEXTS) * original.encode_documents(TEXTS), axis=1)
    assert cosines.min() > 0.97
    cosines = np.sum(exported.encode_queries(TEXTS) * original.encode_queries(TEXTS), axis=1)
    assert cosines.min() > 0.97


def test_without_the_extra_the_message_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EncoderError, match="uv sync --extra models"):
        opened(tmp_path).encode_queries(["x"])


def test_a_model_that_is_not_here_is_not_fetched() -> None:
    with pytest.raises(EncoderError, match="uv run hf download sentence-transformers/no-such-model"):
        open_encoder(EncoderSettings(kind="sentence-transformers", model="no-such-model"))
