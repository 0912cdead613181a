"""ChromaDB's folder of vectors, beside the exact scan: built, asked, and damaged."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from retriever.embedding.vectors import ExactIndex, VectorIndex, write_vectors
from retriever.errors import SnapshotError
from retriever.types import FloatMatrix

ENCODER = "0123456789abcdef"


def vectors(keys: Sequence[int], dimension: int = 64) -> FloatMatrix:
    """(n, dimension) float32, unit rows around 50 centres, as real text lies; the same for a key each time."""
    centres = np.random.default_rng(99).normal(size=(50, dimension))
    noise = [np.random.default_rng(key).normal(size=dimension) for key in keys]
    rows = [centres[key * 7 % 50] + 0.7 * row for key, row in zip(keys, noise, strict=True)]
    matrix: FloatMatrix = np.array(rows, np.float32).reshape(-1, dimension)
    unit: FloatMatrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return unit


class Made(NamedTuple):
    folder: Path
    size: int

    @contextmanager
    def opened(self) -> Iterator[VectorIndex]:
        for _ in range(2):  # opening changes files: it has to work again
            index = VectorIndex(self.folder, ENCODER, self.size)
            index.close()
        with closing(VectorIndex(self.folder, ENCODER, self.size)) as index:
            yield index


def write(folder: Path, keys: Sequence[int], matrix: FloatMatrix) -> Made:
    return Made(folder, write_vectors(folder, ENCODER, keys, matrix))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A folder of chunks 0 to 1199, to be copied or read, never changed."""
    return write(tmp_path_factory.mktemp("index") / "chroma", range(1200), vectors(range(1200)))


def test_it_finds_what_the_exact_scan_finds(made: Made) -> None:
    exact = ExactIndex(range(1200), vectors(range(1200)))
    with made.opened() as index:
        for question in np.split(vectors(range(5000, 5020)), 20):
            assert sorted(index.search(question, 10)) == sorted(exact.search(question, 10))


@pytest.mark.parametrize(("limit", "nearest"), [(100, [5, 6, 10, 7, 9]), (2, [5, 6]), (4, [5, 6, 10, 7])])
def test_the_nearest_by_cosine_come_first_and_ties_by_key(limit: int, nearest: list[int]) -> None:
    matrix = np.array([[1, 0], [5, 0], [3, 3], [-2, 0], [1, 0]], np.float32)
    exact = ExactIndex([5, 6, 7, 9, 10], matrix)
    assert exact.search(np.array([[4, 0]], np.float32), limit) == nearest


@pytest.mark.parametrize("count", [0, 3])
def test_fewer_vectors_than_are_asked_for_are_all(tmp_path: Path, count: int) -> None:
    keys = list(range(count))
    with write(tmp_path / "chroma", keys, vectors(keys)).opened() as index:
        question = vectors([7])
        found = index.search(question, 100), ExactIndex(keys, vectors(keys)).search(question, 100)
    assert list(map(sorted, found)) == [keys, keys]


def test_another_collection_or_folder_is_refused(made: Made, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="index the documents again"):
        VectorIndex(made.folder, "another-encoder", made.size)
    with pytest.raises(SnapshotError, match="missing or cut"):
        VectorIndex(tmp_path / "missing", ENCODER, made.size)
    assert not (tmp_path / "missing").exists()


def test_half_a_file_of_vectors_is_refused(made: Made, tmp_path: Path) -> None:
    """ChromaDB has the right count then, and finds the wrong ones."""
    half = shutil.copytree(made.folder, tmp_path / "chroma")
    (file,) = half.glob("*/data_level0.bin")
    os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(SnapshotError, match="missing or cut"):
        VectorIndex(half, ENCODER, made.size)
