"""The signs of vectors: what they find, beside the exact scan; and their folder in an index of many chunks."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from retriever.doctor import examine_index
from retriever.errors import EncoderError, SnapshotError
from retriever.indexing.snapshot import locate_snapshot
from retriever.query import AskRequest, Scope
from retriever.store.text_vectors import LARGEST
from retriever.types import Answer, FloatMatrix
from retriever.vectors.exact import ExactIndex
from retriever.vectors.manifest import SIGNS, VectorsManifest
from retriever.vectors.signs import SignIndex, build_signs, count_differing, pack_signs, weigh_differing
from tests.damage import HARMS, damage
from tests.real.test_vectors import clustered
from tests.shelf import Shelf

Whole = npt.NDArray[np.int8]


def whole(matrix: FloatMatrix) -> Whole:
    """The vectors as an index keeps them."""
    numbers: Whole = np.rint(matrix * (LARGEST / np.abs(matrix).max(axis=1, keepdims=True))).astype(np.int8)
    return numbers


def build(folder: Path, matrix: Whole, keys: range, snapshot: str = "17", source: Path | None = None) -> list[int]:
    """The signs of the vectors of these keys, each at the place 7 beyond it; which of them were read."""
    read: list[int] = []

    def numbers_at(places: npt.NDArray[np.int64]) -> Whole:
        assert np.all(np.diff(places) > 0)
        read.extend((places - 7).tolist())
        return matrix[places - 7]

    manifest = VectorsManifest(snapshot, "encoder", len(keys), matrix.shape[1])
    build_signs(folder, manifest, np.array(keys), np.array(keys) + 7, numbers_at, source)
    return read


def open_signs(folder: Path, matrix: Whole, snapshot: str = "17") -> SignIndex:
    return SignIndex.open(folder, snapshot, lambda places: matrix[places - 7])


@pytest.mark.parametrize("dimension", [1, 63, 64, 100, 384, 1024])
def test_what_differs_and_what_it_weighs(dimension: int) -> None:
    chance = np.random.default_rng(dimension)
    matrix, query = chance.normal(size=(50, dimension)), chance.normal(size=dimension).astype(np.float32)
    signs, asked = pack_signs(matrix), pack_signs(query[np.newaxis])
    differs = (matrix > 0) != (query > 0)
    assert count_differing(signs, asked).tolist() == differs.sum(axis=1).tolist()
    steps = np.rint(np.abs(query) * (15 / np.abs(query).max()))
    assert weigh_differing(signs ^ asked, query).tolist() == (differs * steps).sum(axis=1).tolist()


@pytest.mark.parametrize("dimension", [64, 100, 384])
def test_the_nearest_are_those_of_the_exact_scan(tmp_path: Path, dimension: int) -> None:
    matrix, queries = whole(clustered(8_000, dimension=dimension)), clustered(40, seed=1, dimension=dimension)
    build(tmp_path / "signs", matrix, range(8_000))
    found = open_signs(tmp_path / "signs", matrix).search(queries, 10)
    truth = ExactIndex(range(8_000), matrix.astype(np.float32)).search(queries, 10)
    common = sum(len(dict(some).keys() & dict(all_).keys()) for some, all_ in zip(found, truth, strict=True))
    assert common >= 0.97 * 400
    for some, all_ in zip(found, truth, strict=True):
        assert some == sorted(some, key=lambda item: (-item[1], item[0]))
        expected = dict(all_)
        assert all(cosine == pytest.approx(expected[key], abs=1e-5) for key, cosine in some if key in expected)


def test_few_are_compared_all(tmp_path: Path) -> None:
    matrix, queries = whole(clustered(300)), clustered(5, seed=2)
    build(tmp_path / "signs", matrix, range(300))
    index = open_signs(tmp_path / "signs", matrix)
    truth = ExactIndex(range(300), matrix.astype(np.float32))
    for limit in (15, 300, 1_000):
        for some, all_ in zip(index.search(queries, limit), truth.search(queries, limit), strict=True):
            assert [key for key, _ in some] == [key for key, _ in all_]


def test_of_a_part_only_its_own_are_found(tmp_path: Path) -> None:
    matrix, queries = whole(clustered(4_000)), clustered(5, seed=3)
    build(tmp_path / "signs", matrix, range(4_000))
    rows = np.arange(4_000) % 40 == 3
    part = open_signs(tmp_path / "signs", matrix).restrict(rows)
    truth = ExactIndex(range(4_000), matrix.astype(np.float32)).restrict(rows)
    assert len(part) == 100
    for some, all_ in zip(part.search(queries, 20), truth.search(queries, 20), strict=True):
        assert [key for key, _ in some] == [key for key, _ in all_]
    assert part.restrict(np.zeros(4_000, np.bool_)).search(queries, 5) == [[]] * 5


def test_equal_vectors_come_by_key_and_a_question_of_zeros_finds_nothing_near(tmp_path: Path) -> None:
    matrix = np.repeat(whole(clustered(2)), 600, axis=0)
    build(tmp_path / "signs", matrix, range(1_200))
    index = open_signs(tmp_path / "signs", matrix)
    (found,) = index.search(matrix[:1].astype(np.float32), 5)
    assert [key for key, _ in found] == [0, 1, 2, 3, 4]
    assert [cosine for _, cosine in found] == pytest.approx([1] * 5)
    (found,) = index.search(np.zeros((1, 64), np.float32), 3)
    assert [cosine for _, cosine in found] == [0, 0, 0]
    with pytest.raises(EncoderError, match="vectors of 64 numbers"):
        index.search(np.zeros((1, 65), np.float32), 3)


def test_made_out_of_an_older_one_it_is_the_same_and_reads_only_what_is_new(tmp_path: Path) -> None:
    matrix = whole(clustered(1_300))
    assert len(build(tmp_path / "17", matrix, range(1_200))) == 1_200
    read = build(tmp_path / "18", matrix, range(300, 1_300), "18", tmp_path / "17")
    assert read == list(range(1_200, 1_300))
    build(tmp_path / "anew", matrix, range(300, 1_300), "18")
    for file in (tmp_path / "anew").iterdir():
        assert file.read_bytes() == (tmp_path / "18" / file.name).read_bytes()
    # Of another encoder, or damaged: nothing of it is taken.
    (tmp_path / "17" / "signs.npy").write_bytes(b"")
    assert len(build(tmp_path / "19", matrix, range(300, 1_300), "19", tmp_path / "17")) == 1_000


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", ["keys.npy", "places.npy", "signs.npy"])
def test_damage_is_found_before_anything_is_searched(tmp_path: Path, name: str, harm: str) -> None:
    matrix = whole(clustered(500))
    build(tmp_path / "signs", matrix, range(500))
    assert damage(tmp_path / "signs" / name, harm, random.Random(5))
    with pytest.raises(SnapshotError):
        open_signs(tmp_path / "signs", matrix)


def test_the_signs_of_another_snapshot_are_refused(tmp_path: Path) -> None:
    matrix = whole(clustered(50))
    build(tmp_path / "signs", matrix, range(50))
    with pytest.raises(SnapshotError, match="another snapshot"):
        open_signs(tmp_path / "signs", matrix, "18")


# In an index. What "many" means is lowered: 20,000 chunks would take minutes.

PAGES = {
    f"{animal}.md": f"# {animal.title()}\n\n"
    + "\n".join(f"## {verb.title()}\n\nThe {animal} likes to {verb} in the {place}.\n" for verb in ("run", "sleep"))
    for animal, place in (("fox", "wood"), ("otter", "river"), ("mole", "ground"), ("heron", "reeds"))
}
QUESTIONS = ("where does the otter sleep?", "who runs in the wood?", "heron")


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setattr("retriever.vectors.manifest.EXACT_UP_TO", 5)
    monkeypatch.setattr("retriever.vectors.signs.COMPARED", 1)
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    return shelf


def found(answer: Answer) -> list[tuple[str, float]]:
    return [(hit.node_id, hit.score) for hit in answer.hits]


def signs_of(shelf: Shelf, number: int) -> Path:
    return locate_snapshot(shelf.index, number) / SIGNS


def test_many_chunks_are_found_by_their_signs_and_chromadb_is_left_alone(
    many: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever.vectors.chroma.import_chromadb", lambda: pytest.fail("ChromaDB was asked"))
    with many.open(vector_search="auto") as reader, many.open(vector_search="exact") as exact:
        for question in QUESTIONS:
            assert reader.search(question).hits[0].node_id == exact.search(question).hits[0].node_id
        with reader.view() as view:
            assert isinstance(view.find_vectors("auto"), SignIndex)
        within = reader.search(AskRequest(QUESTIONS[0], scope=Scope(("fox.md",))))
        assert {hit.file for hit in within.hits} == {"fox.md"}
        # A changed file is found, its signs made with the snapshot, out of those that were there.
        many.write("otter.md", "# Otter\n\n## Sleep\n\nThe otter sleeps beside the sea.\n")
        answer = reader.search("where does the otter sleep?")
        assert (answer.hits[0].node_id, answer.degraded) == ("otter.md#otter/sleep", ())
        assert signs_of(many, 2).exists()


def test_signs_that_are_missing_are_made_by_the_question_that_needs_them(many: Shelf) -> None:
    before = found(many.ask(QUESTIONS[0], vector_search="auto"))
    shutil.rmtree(signs_of(many, 1))
    answer = many.ask(QUESTIONS[0], vector_search="auto")
    assert (found(answer), answer.degraded) == (before, ())
    assert signs_of(many, 1).exists()


def test_damaged_signs_are_made_anew_and_the_answer_says_so(many: Shelf) -> None:
    before = found(many.ask(QUESTIONS[0], vector_search="auto"))
    (signs_of(many, 1) / "signs.npy").write_bytes(b"no array")
    findings = {finding.name: finding for finding in examine_index(many.index)}
    assert findings["signs of the vectors"].level == "problem"
    answer = many.ask(QUESTIONS[0], vector_search="auto")
    assert found(answer) == before
    assert "it was rebuilt" in json.dumps([note.reason for note in answer.degraded])
    findings = {finding.name: finding for finding in examine_index(many.index)}
    assert findings["signs of the vectors"].level == "well"


def test_what_sqlite_wrote_anew_is_still_where_the_signs_say(many: Shelf) -> None:
    many.write("newt.md", "# Newt\n\nThe newt swims.\n")
    many.update()
    (many.docs / "fox.md").unlink()
    many.update()
    before = found(many.ask(QUESTIONS[0], vector_search="auto"))
    with many.rows() as rows:
        rows.execute("VACUUM")
    answer = many.ask(QUESTIONS[0], vector_search="auto")
    assert (found(answer), answer.degraded) == (before, ())


def test_few_chunks_have_no_signs(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    assert not signs_of(shelf, 1).exists()
    assert "signs of the vectors" not in {finding.name for finding in examine_index(shelf.index)}
