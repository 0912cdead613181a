"""What unrelated questions find: the scale of a cosine, measured when much has changed and not before."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retriever.api import open_retriever
from retriever.indexing import background
from retriever.indexing.background import UNRELATED_QUESTIONS, Background, measure_background
from retriever.types import FloatMatrix, Signals
from tests.fake_encoder import FakeEncoder
from tests.shelf import PAGES, Shelf


class Flat(FakeEncoder):
    """To it all texts are one."""

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        return np.tile(np.eye(1, self.dimension, dtype=np.float32), (len(texts), 1))


@pytest.fixture
def chunks() -> FloatMatrix:
    return FakeEncoder().encode_documents([f"page {number} of the harbour" for number in range(20)])


def test_it_is_the_median_of_the_best_and_the_deviation_of_all(chunks: FloatMatrix) -> None:
    cosines = FakeEncoder().encode_documents(UNRELATED_QUESTIONS).astype(float) @ chunks.T.astype(float)
    found = measure_background(FakeEncoder(), chunks)
    assert found is not None
    assert found.best == pytest.approx(np.median(cosines.max(axis=1)), abs=1e-6)
    assert found.deviation == pytest.approx(cosines.std(), abs=1e-6)
    assert (found.fingerprint, found.chunks) == (FakeEncoder().fingerprint, 20)


def test_a_part_at_a_time_gives_the_same(chunks: FloatMatrix, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = measure_background(FakeEncoder(), chunks)
    monkeypatch.setattr(background, "CHUNKS_AT_ONCE", 7)
    assert measure_background(FakeEncoder(), chunks) == whole


def test_a_margin_does_not_depend_on_the_models_scale() -> None:
    plain, squeezed = Background(0.2, 0.05, "", 9), Background(0.2 / 4 + 0.7, 0.05 / 4, "", 9)
    assert plain.z_score(0.5) == pytest.approx(squeezed.z_score(0.5 / 4 + 0.7)) == pytest.approx(6.0)


def test_without_chunks_or_differences_there_is_no_scale(chunks: FloatMatrix) -> None:
    assert measure_background(FakeEncoder(), chunks[:0]) is None
    assert measure_background(Flat(), Flat().encode_documents(["one", "other"])) is None


def kept(shelf: Shelf) -> Any:  # noqa: ANN401 - JSON
    with shelf.rows() as rows:
        (text,) = rows.execute("SELECT value FROM meta WHERE key = 'background'").fetchone()
    return json.loads(text)


def test_a_small_change_keeps_the_measurement_and_a_large_one_renews_it(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    first = kept(shelf)
    assert first["chunks"] == 8
    shelf.write("otters.md", "# Otters\n\nAn otter sleeps.\n\n## Food\n\nFish.\n")
    shelf.update()
    assert kept(shelf) == first  # 10 chunks are not more than 8 * 1.25
    shelf.write("seals.md", "# Seals\n\nA manifest_hash barks.\n")
    shelf.update()
    assert kept(shelf)["chunks"] == 11
    (shelf.docs / "otters.md").unlink()
    shelf.update()
    assert kept(shelf)["chunks"] == 11  # 9 are not less than 11 / 1.25
    (shelf.docs / "seals.md").unlink()
    shelf.update()
    assert kept(shelf)["chunks"] == 8


def test_two_indexes_of_the_same_documents_have_the_same_measurement(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    shelf.update(index=tmp_path / "other")
    one = shelf.ask("bread over night")
    other = shelf.ask("bread over night", index=tmp_path / "other")
    assert one.trace.signals == other.trace.signals
    assert (one.verdict, one.confidence) == (other.verdict, other.confidence)
    assert one.trace.signals.margin is not None


def test_another_model_is_measured_anew(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    shelf.update(encoder=FakeEncoder(fingerprint="0" * 16))
    assert kept(shelf)["fingerprint"] == "0" * 16


def test_without_vectors_words_alone_are_judged(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    settings = {"encoder": {"kind": "none"}}
    with open_retriever([shelf.docs], shelf.index, settings=settings) as retriever:
        answer = retriever.search("what rises over night?")
    assert kept(shelf) is None
    assert answer.trace.signals == Signals(1.0, 1.0, 1.0, form="sentence", margin=None, agreement=None)
    assert answer.verdict == "answered"
