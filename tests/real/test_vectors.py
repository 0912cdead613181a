"""ChromaDB's folder of vectors, beside the exact scan: built, asked, and damaged."""

import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from retriever.embedding.vectors import ExactIndex, VectorIndex, write_vectors
from retriever.errors import EncoderError, SnapshotError
from retriever.store.files import Manifest
from retriever.types import FloatMatrix
from tests.damage import A_FOLDER, damage

ENCODER = "0123456789abcdef"


def vectors(keys: Sequence[int], dimension: int = 64) -> FloatMatrix:
    """(n, dimension) float32, unit rows around 50 centres, as real text lies; the same for a key each time."""
    centres = np.random.default_rng(99).normal(size=(50, dimension))
    noise = [np.random.default_rng(key).normal(size=dimension) for key in keys]
    rows = [centres[key * 7 % 50] + 0.7 * row for key, row in zip(keys, noise, strict=True)]
    matrix: FloatMatrix = np.array(rows, np.float32).reshape(-1, dimension)
    unit: FloatMatrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return unit


def write(folder: Path, keys: Sequence[int], dimension: int = 64) -> None:
    manifest = Manifest("", ENCODER, len(keys), dimension)
    nodes = [f"docs/a.md#part-{key}" for key in keys]
    write_vectors(folder, manifest, keys, lambda some: (some, nodes[: len(some)], vectors(some, dimension)))


@contextmanager
def opened(folder: Path) -> Iterator[VectorIndex]:
    VectorIndex(folder, ENCODER).close()  # opening changes files: it has to work again
    with closing(VectorIndex(folder, ENCODER)) as index:
        yield index


def holds(index: VectorIndex, keys: Sequence[int]) -> bool:
    """Whether each of these vectors, and no other, is the nearest to itself."""
    return len(index) == len(keys) and [found[0][0] for found in index.search(vectors(keys), 1)] == list(keys)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of chunks 0 to 1199, to be copied or read, never changed."""
    folder = tmp_path_factory.mktemp("snapshot-17") / "chroma"
    write(folder, range(1200))
    return folder


def test_it_finds_what_the_exact_scan_finds(made: Path) -> None:
    exact, questions = ExactIndex(range(1200), vectors(range(1200))), vectors(range(5000, 5020))
    with opened(made) as index:
        assert len(index) == len(exact) == 1200
        for approximate, truth in zip(index.search(questions, 10), exact.search(questions, 10), strict=True):
            assert [key for key, _ in approximate] == [key for key, _ in truth]
            assert [cosine for _, cosine in approximate] == pytest.approx([cosine for _, cosine in truth], abs=1e-5)
        assert holds(index, range(1200))
        with pytest.raises(EncoderError, match="not finite for the question"):
            index.search(questions * np.float32(np.nan), 3)


@pytest.mark.parametrize("search", ["chroma", "exact"])
def test_similarities_are_cosines_and_ties_come_by_key(tmp_path: Path, search: str) -> None:
    matrix = np.array([[1, 0], [-2, 0], [0, 0], [3, 3], [5, 0], [1, 0]], np.float32)
    keys, question = [10, 9, 8, 7, 6, 5], np.array([[4, 0]], np.float32)
    if search == "exact":
        (found,) = ExactIndex(keys, matrix).search(question, 100)
    else:
        manifest = Manifest("", ENCODER, 6, 2)
        write_vectors(tmp_path / "chroma", manifest, keys, lambda _: (keys, ["n"] * 6, matrix))
        with opened(tmp_path / "chroma") as index:
            (found,) = index.search(question, 100)
    assert [key for key, _ in found] == [5, 6, 10, 7, 8, 9]
    assert [cosine for _, cosine in found] == pytest.approx([1, 1, 1, 0.5**0.5, 0, -1], abs=1e-6)
    assert all(-1 <= cosine <= 1 for _, cosine in found)


NAMES = ["manifest.json", "chroma.sqlite3", "data_level0.bin", "header.bin", "index_metadata.pickle", "length.bin"]


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        case
        for case in product([*NAMES, "link_lists.bin"], ("deleted", "emptied", "without its last byte", A_FOLDER))
        if case != ("chroma.sqlite3", "without its last byte")
    ],
)
def test_a_damaged_folder_is_noticed_on_opening(made: Path, tmp_path: Path, name: str, harm: str) -> None:
    shutil.copytree(made, tmp_path / "chroma")
    (file,) = (tmp_path / "chroma").rglob(name)
    damage(file, harm, random.Random(0))
    with pytest.raises(SnapshotError, match="index the documents again"), opened(tmp_path / "chroma"):
        pass


def test_another_collection_or_folder_is_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="of another snapshot"):
        VectorIndex(made, ENCODER, "another-snapshot")
    with pytest.raises(SnapshotError, match="index the documents again"):
        VectorIndex(made, "another-encoder")
    with pytest.raises(SnapshotError, match="not a whole folder"):
        VectorIndex(tmp_path / "missing", ENCODER)
    assert not (tmp_path / "missing").exists()
