import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from retriever.api import index_folders, open_retriever
from retriever.embedding import open_encoder
from retriever.embedding.encoder import ENGLISH_MODEL, MULTILINGUAL_MODEL
from retriever.embedding.onnx import ModelCard, OnnxEncoder
from retriever.errors import EncoderError
from retriever.settings import EncoderSettings
from scripts.export_model import write_card
from tests.shelf import Shelf
from tests.tables import read_table

TEXTS = [f"{'words of a text ' * (number % 7)}number {number}" for number in range(40)]


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    return OnnxEncoder()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ENGLISH_MODEL, tmp_path / "model"))


def opened(**settings: object) -> OnnxEncoder:
    return OnnxEncoder(settings=EncoderSettings(**settings))  # type: ignore[arg-type] # the tests' own names


@pytest.mark.parametrize(
    ("folder", "licence"), [(ENGLISH_MODEL, "Apache License"), (MULTILINGUAL_MODEL, "MIT License")]
)
def test_the_files_are_the_ones_that_readme_and_card_name(folder: Path, licence: str) -> None:
    card = ModelCard.read(folder)
    card.verify(folder)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert f"model.onnx {card.model_sha256}" in readme
    assert licence in (folder / "LICENSE").read_text(encoding="utf-8")
    assert sum(file.stat().st_size for file in folder.iterdir()) < 50_000_000


def test_the_bundled_model_is_opened_once_by_its_name_or_none() -> None:
    named, default = open_encoder(EncoderSettings(model="sections-minilm-3")), open_encoder(EncoderSettings())
    assert named
    assert default
    assert named.fingerprint == default.fingerprint
    assert open_encoder(EncoderSettings()) is default
    assert open_encoder(EncoderSettings(max_tokens=32)) is not default
    assert open_encoder(EncoderSettings(kind="none")) is None


def test_an_exported_folder_indexes_and_answers(folder: Path, tmp_path: Path) -> None:
    """The folder is what scripts/export_model.py writes: another pooling, so other vectors."""
    write_card(folder, replace(ModelCard.read(folder), pooling="cls"))
    shelf = Shelf(tmp_path, {"otter.md": "# Otter\n\nIt sleeps beside the river.\n", "fox.md": "# Fox\n\nIt runs.\n"})
    settings = {"encoder": {"model": str(folder)}}
    index_folders([shelf.docs], shelf.index, settings=settings)
    with open_retriever(index=shelf.index, settings=settings) as retriever:
        assert retriever.search("where does the otter sleep?").hits[0].file == "otter.md"
        with retriever.view() as view:
            assert view.state.fingerprint == OnnxEncoder(folder).fingerprint != OnnxEncoder().fingerprint


def test_texts_in_english_have_layers_of_their_own() -> None:
    encoder = OnnxEncoder(MULTILINGUAL_MODEL)
    texts = ["It stays in bed.", "Er bleibt im Bett."]
    own = encoder.encode_documents(texts)
    encoder._card = replace(encoder._card, english_sha256="")
    assert (own == encoder.encode_documents(texts)).all(1).tolist() == [False, True]


def test_a_text_has_one_vector_whatever_is_beside_it(encoder: OnnxEncoder) -> None:
    alone = np.concatenate([encoder.encode_documents([text]) for text in TEXTS])
    assert np.array_equal(alone, encoder.encode_documents(TEXTS[::-1])[::-1])
    assert np.array_equal(alone, encoder.encode_queries(TEXTS))


def test_a_long_question_is_cut_and_a_long_document_refused(encoder: OnnxEncoder) -> None:
    fits, too_long = "word " * 254, "word " * 300
    assert encoder.count_tokens([fits, too_long]) == [256, 302]
    assert np.array_equal(encoder.encode_queries([too_long]), encoder.encode_queries([fits]))
    with pytest.raises(EncoderError, match="text 1 has 302 tokens and the encoder reads 256"):
        encoder.encode_documents([fits, too_long])


def test_prefixes_are_read_and_leave_less_room(encoder: OnnxEncoder) -> None:
    prefixed = opened(query_prefix="query: ", document_prefix="a longer passage: ")
    assert prefixed.max_tokens == 256 - 4
    assert np.array_equal(prefixed.encode_queries(["x"]), encoder.encode_queries(["query: x"]))
    assert np.array_equal(prefixed.encode_documents(["x"]), encoder.encode_documents(["a longer passage: x"]))


def test_the_fingerprint_changes_with_whatever_changes_a_vector(encoder: OnnxEncoder, folder: Path) -> None:
    assert re.fullmatch("[0-9a-f]{16}", encoder.fingerprint)
    assert OnnxEncoder(folder).fingerprint == encoder.fingerprint
    changed = [encoder, opened(max_tokens=128), opened(query_prefix="q "), opened(document_prefix="q ")]
    card = ModelCard.read(folder)
    for other in (replace(card, model_sha256="0"), replace(card, pooling="cls")):
        write_card(folder, other)
        changed.append(OnnxEncoder(folder))
    assert len({one.fingerprint for one in changed}) == 6


def test_a_model_is_told_by_the_type_of_tokens_that_a_text_is_a_question(encoder: OnnxEncoder, folder: Path) -> None:
    write_card(folder, replace(ModelCard.read(folder), question_type=1))
    told = OnnxEncoder(folder)
    assert not np.allclose(told.encode_queries(TEXTS[:1]), encoder.encode_queries(TEXTS[:1]), atol=0.01)
    assert np.array_equal(told.encode_documents(TEXTS), encoder.encode_documents(TEXTS))
    assert told.fingerprint != encoder.fingerprint


def test_opening_reads_neither_model_nor_tokenizer(folder: Path) -> None:
    (folder / "model.onnx").unlink()
    (folder / "tokenizer.json").unlink()
    encoder = OnnxEncoder(folder)
    assert encoder.dimension == 384
    with pytest.raises(EncoderError, match=r"tokenizer\.json cannot be read"):
        encoder.count_tokens(["x"])


def test_a_damaged_model_is_named(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"no model")
    with pytest.raises(EncoderError, match=r"model\.onnx is not the file that the card beside it describes"):
        ModelCard.read(folder).verify(folder)
    with pytest.raises(EncoderError, match=r"model\.onnx cannot be loaded"):
        OnnxEncoder(folder).encode_queries(["x"])


@pytest.mark.parametrize(("content", "message"), read_table("models", "A card that is none"))
def test_a_folder_that_is_no_model(folder: Path, content: str, message: str) -> None:
    card = folder / "encoder.json"
    card.write_text(content) if content else card.unlink()
    with pytest.raises(EncoderError, match=message):
        open_encoder(EncoderSettings(model=str(folder)))
