"""ChromaDB's folder of vectors, beside the exact scan: built, asked, and damaged."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

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


def write(folder: Path, keys: Sequence[int]) -> None:
    write_vectors(folder, ENCODER, keys, vectors(keys))


@contextmanager
def opened(folder: Path) -> Iterator[VectorIndex]:
    VectorIndex(folder, ENCODER).close()  # opening changes files: it has to work again
    with closing(VectorIndex(folder, ENCODER)) as index:
        yield index


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of chunks 0 to 1199, to be copied or read, never changed."""
    folder = tmp_path_factory.mktemp("snapshot-17") / "chroma"
    write(folder, range(1200))
    return folder


def test_it_finds_what_the_exact_scan_finds(made: Path) -> None:
    exact = ExactIndex(range(1200), vectors(range(1200)))
    with opened(made) as index:
        assert len(index) == len(exact) == 1200
        for question in np.split(vectors(range(5000, 5020)), 20):
            assert index.search(question, 10) == exact.search(question, 10)


@pytest.mark.parametrize("search", ["chroma", "exact"])
def test_the_nearest_by_cosine_come_first_and_ties_by_key(tmp_path: Path, search: str) -> None:
    matrix = np.array([[1, 0], [-2, 0], [0, 0], [3, 3], [5, 0], [1, 0]], np.float32)
    keys, question = [10, 9, 8, 7, 6, 5], np.array([[4, 0]], np.float32)
    if search == "exact":
        found = ExactIndex(keys, matrix).search(question, 100)
    else:
        write_vectors(tmp_path / "chroma", ENCODER, keys, matrix)
        with opened(tmp_path / "chroma") as index:
            found = index.search(question, 100)
    assert found == [5, 6, 10, 7, 8, 9]


def test_another_collection_or_folder_is_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="index the documents again"):
        VectorIndex(made, "another-encoder")
    with pytest.raises(SnapshotError, match="not a whole folder"):
        VectorIndex(tmp_path / "missing", ENCODER)
    assert not (tmp_path / "missing").exists()
