import random
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from retriever.errors import EncoderError, SnapshotError, StorageError
from retriever.types import FloatMatrix
from retriever.vectors.chroma import LoadVectors, VectorIndex, build_vectors, chroma_errors, patch_vectors
from retriever.vectors.exact import ChunkVectors, ExactIndex
from tests.damage import A_FOLDER, damage

ENCODER = "0123456789abcdef"


def clustered(count: int, seed: int = 0, dimension: int = 64) -> FloatMatrix:
    """(count, dimension) float32, unit rows around 50 centres, as real text lies."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(50, dimension))
    matrix = centres[chance.integers(50, size=count)] + 0.7 * chance.normal(size=(count, dimension))
    unit: FloatMatrix = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)
    return unit


def chunks(keys: range, seed: int = 0) -> ChunkVectors:
    return ChunkVectors(keys, [f"docs/a.md#part-{key}" for key in keys], clustered(len(keys), seed))


def loading(added: ChunkVectors) -> LoadVectors:
    def load(keys: Sequence[int]) -> ChunkVectors:
        places = [list(added.keys).index(key) for key in keys]
        return ChunkVectors(keys, [added.node_ids[place] for place in places], added.matrix[places])

    return load


def build(folder: Path, added: ChunkVectors) -> None:
    build_vectors(folder, ENCODER, added.keys, added.dimension, loading(added))


def patch(source: Path, target: Path, keys: Iterable[int], added: ChunkVectors) -> None:
    patch_vectors(source, target, set(keys), added.dimension, loading(added))


@contextmanager
def opened(folder: Path) -> Iterator[VectorIndex]:
    VectorIndex.open(folder, ENCODER).close()  # opening changes files: it has to work again
    with closing(VectorIndex.open(folder, ENCODER)) as index:
        yield index


def holds(index: VectorIndex, keys: Sequence[int], matrix: FloatMatrix) -> bool:
    """Whether each of these vectors, and no other, is the nearest to itself."""
    return len(index) == len(keys) and [found[0][0] for found in index.search(matrix, 1)] == list(keys)


@pytest.fixture(scope="module")
def gen_17(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of chunks 0 to 1199, to be copied or read, never changed."""
    folder = tmp_path_factory.mktemp("snapshot-17") / "chroma"
    build(folder, chunks(range(1200)))
    return folder


def test_it_finds_what_the_exact_scan_finds(gen_17: Path) -> None:
    exact = ExactIndex(range(1200), clustered(1200))
    questions = clustered(20, seed=1)
    with opened(gen_17) as index:
        assert len(index) == len(exact) == 1200
        for approximate, truth in zip(index.search(questions, 10), exact.search(questions, 10), strict=True):
            assert [key for key, _ in approximate] == [key for key, _ in truth]
            assert [cosine for _, cosine in approximate] == pytest.approx([cosine for _, cosine in truth], abs=1e-5)
        assert holds(index, range(1200), clustered(1200))


@pytest.mark.slow
def test_recall_at_5462_vectors_which_is_more_than_chroma_takes_at_once(tmp_path: Path) -> None:
    added = chunks(range(5462), seed=3)
    build(tmp_path / "chroma", added)
    questions = clustered(200, seed=4)
    with opened(tmp_path / "chroma") as index:
        found = index.search(questions, 10)
    truth = ExactIndex(added.keys, added.matrix).search(questions, 10)
    common = sum(len(dict(some).keys() & dict(all_).keys()) for some, all_ in zip(found, truth, strict=True))
    assert common / 2000 >= 0.99


@pytest.mark.parametrize("search", ["chroma", "exact"])
def test_similarities_are_cosines_and_ties_come_by_key(tmp_path: Path, search: str) -> None:
    matrix = np.array([[1, 0], [-2, 0], [0, 0], [3, 3], [5, 0], [1, 0]], np.float32)
    added = ChunkVectors([10, 9, 8, 7, 6, 5], ["n"] * 6, matrix)
    build(tmp_path / "chroma", added)
    index = opened(tmp_path / "chroma") if search == "chroma" else closing(ExactIndex(added.keys, matrix))
    with index as ready:
        (found,) = ready.search(np.array([[4, 0]], np.float32), 100)
    assert [key for key, _ in found] == [5, 6, 10, 7, 8, 9]
    assert [cosine for _, cosine in found] == pytest.approx([1, 1, 1, 0.5**0.5, 0, -1], abs=1e-6)
    assert all(-1 <= cosine <= 1 for _, cosine in found)


def test_a_patched_copy_holds_the_change_and_a_reader_of_the_older_one_sees_nothing(
    gen_17: Path, tmp_path: Path
) -> None:
    questions = clustered(5, seed=7)
    fresh = chunks(range(1200, 1300), seed=9)
    with opened(gen_17) as reader:
        before = reader.search(questions, 40)
        patch(gen_17, tmp_path / "snapshot-18", range(300, 1300), fresh)
        assert reader.search(questions, 40) == before
        with opened(tmp_path / "snapshot-18") as index:
            assert len(index) == 1000
            # Everything, by way of every vector: no deleted chunk comes up.
            found = index.search(clustered(1200), 100)
            assert not {key for neighbours in found for key, _ in neighbours} & set(range(300))
            matrix = np.concatenate([clustered(1200)[300:], fresh.matrix])
            assert holds(index, range(300, 1300), matrix)
            assert [some[0][0] for some in index.search(fresh.matrix, 1)] == list(fresh.keys)
        assert reader.search(questions, 40) == before
    patch(tmp_path / "snapshot-18", tmp_path / "snapshot-19", range(310, 1310), chunks(range(1300, 1310), seed=12))
    with opened(tmp_path / "snapshot-19") as index:
        assert holds(index, range(310, 1310), np.concatenate([matrix[10:], clustered(10, seed=12)]))


def test_none_can_be_built_and_patched(tmp_path: Path) -> None:
    none = ChunkVectors([], [], np.empty((0, 64), np.float32))
    build(tmp_path / "a", none)
    with opened(tmp_path / "a") as index:
        assert index.search(clustered(2), 3) == [[], []] == ExactIndex([], none.matrix).search(clustered(2), 3)
    patch(tmp_path / "a", tmp_path / "b", range(3), chunks(range(3)))
    with opened(tmp_path / "b") as some:
        assert len(some) == 3


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101])
def test_few_vectors_survive_each_opening_and_copying(tmp_path: Path, count: int) -> None:
    build(tmp_path / "a", chunks(range(count)))
    with opened(tmp_path / "a") as index:
        assert holds(index, range(count), clustered(count))
        patch(tmp_path / "a", tmp_path / "b", range(1, count + 1), chunks(range(count, count + 1)))
    with opened(tmp_path / "b") as index:
        assert holds(index, range(1, count + 1), np.concatenate([clustered(count)[1:], clustered(1)]))
    with opened(tmp_path / "a") as index:
        assert holds(index, range(count), clustered(count))


def test_a_change_that_does_not_fit_is_refused(gen_17: Path, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="too much has changed"):
        patch_vectors(gen_17, tmp_path / "a", range(600), 64, lambda _: chunks(range(0)), most_changed=0.3)
    with pytest.raises(SnapshotError, match="0 vectors instead of 1"):  # the index has no vector of the new one
        patch_vectors(gen_17, tmp_path / "b", range(1201), 64, lambda _: ChunkVectors([], [], clustered(0)))
    wrong = ChunkVectors([9000], ["n"], clustered(1, dimension=32))
    with pytest.raises(EncoderError, match="vectors of 64 numbers, not 32"):
        patch(gen_17, tmp_path / "c", [*range(1200), 9000], wrong)
    for name in "abc":
        with pytest.raises(SnapshotError, match="not a whole folder"):
            VectorIndex.open(tmp_path / name, ENCODER)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_never_reach_chroma(gen_17: Path, bad: float) -> None:
    matrix = clustered(3)
    matrix[1, 5] = bad
    with pytest.raises(EncoderError, match="not finite \\(chunk 21\\)"):
        ChunkVectors([20, 21, 22], ["n"] * 3, matrix)
    with opened(gen_17) as index, pytest.raises(EncoderError, match="not finite for the question"):
        index.search(matrix, 3)


@pytest.mark.parametrize("count", [1, 99])
def test_no_reader_writes_a_vector_file(tmp_path: Path, count: int) -> None:
    """ChromaDB would make them of the memory of its process, where the question stands."""
    build(tmp_path / "chroma", chunks(range(count)))
    files = {file: file.read_bytes() for file in (tmp_path / "chroma").glob("*/*")}
    with opened(tmp_path / "chroma") as index:
        index.search(clustered(3), 5)
    assert files == {file: file.read_bytes() for file in (tmp_path / "chroma").glob("*/*")} != {}


NAMES = ["manifest.json", "chroma.sqlite3", "data_level0.bin", "header.bin", "index_metadata.pickle", "length.bin"]


HARMS = ("deleted", "emptied", "half of it", "without its last byte", A_FOLDER)


@pytest.mark.parametrize(
    ("name", "harm"),
    [*product([*NAMES, "link_lists.bin"], HARMS), *((name, "random") for name in NAMES if name != "length.bin")],
)
def test_a_damaged_folder_is_noticed_on_opening(gen_17: Path, tmp_path: Path, name: str, harm: str) -> None:
    shutil.copytree(gen_17, tmp_path / "chroma")
    (file,) = (tmp_path / "chroma").rglob(name)
    damage(file, harm, random.Random(0))
    with pytest.raises(SnapshotError, match="index the documents again"), opened(tmp_path / "chroma"):
        pass


def test_another_collection_folder_or_distance_is_refused(gen_17: Path, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="of another snapshot"):
        VectorIndex.open(gen_17, ENCODER, "another-snapshot")
    with pytest.raises(SnapshotError, match="index the documents again"):
        VectorIndex.open(gen_17, "another-encoder")
    with pytest.raises(SnapshotError, match="not a whole folder"):
        VectorIndex.open(tmp_path / "missing", ENCODER)
    assert not (tmp_path / "missing").exists()
    shutil.copytree(gen_17, tmp_path / "chroma")
    with closing(sqlite3.connect(tmp_path / "chroma" / "chroma.sqlite3")) as database, database:
        for column in ("config_json_str", "schema_str"):
            database.execute(f"UPDATE collections SET {column} = replace({column}, 'cosine', 'l2')")
    with pytest.raises(SnapshotError, match="l2 instead of"):
        VectorIndex.open(tmp_path / "chroma", ENCODER)


def test_a_full_disk_is_refused_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1_500_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StorageError, match=r"needs 4 MB, the disk has 2 MB free"):
        build(tmp_path / "chroma", chunks(range(500)))
    assert not (tmp_path / "chroma").exists()


@pytest.mark.parametrize("free", [10**12, 1_000])
@pytest.mark.parametrize("writing", [True, False])
def test_what_chroma_says_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, writing: bool
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    expected = StorageError if writing and free == 1_000 else SnapshotError
    with pytest.raises(expected, match="Failed to apply logs"), chroma_errors(tmp_path, writing=writing):
        raise RuntimeError("Failed to apply logs to the hnsw segment writer")  # seen on a tmpfs of 4 MB
    with pytest.raises(StorageError), chroma_errors(tmp_path, writing=True):
        raise RuntimeError("(code: 13) database or disk is full")


def test_a_panic_of_the_rust_code_is_an_error_of_ours_and_an_interrupt_is_not(tmp_path: Path) -> None:
    panic = type("PanicException", (BaseException,), {})
    with pytest.raises(SnapshotError, match="range end index"), chroma_errors(tmp_path):
        raise panic("range end index 5 out of range")
    with pytest.raises(KeyboardInterrupt), chroma_errors(tmp_path):
        raise KeyboardInterrupt


def test_opening_again_after_a_close_and_a_removal_sees_the_new_folder(tmp_path: Path) -> None:
    for count in (5, 3):
        build(tmp_path / "chroma", chunks(range(count)))
        with opened(tmp_path / "chroma") as index:
            assert len(index.search(clustered(1), 9)[0]) == count
        shutil.rmtree(tmp_path / "chroma")


def test_folders_of_one_relative_name_are_not_mixed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for count in (3, 5):
        build(tmp_path / str(count) / "chroma", chunks(range(count)))
    monkeypatch.chdir(tmp_path / "3")
    with opened(Path("chroma")) as three, opened(tmp_path / "3" / "chroma") as again:
        monkeypatch.chdir(tmp_path / "5")
        with opened(Path("chroma")) as five:
            assert [len(index.search(clustered(1), 9)[0]) for index in (three, again, five)] == [3, 3, 5]
