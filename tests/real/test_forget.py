"""`forget`: no byte of a text or of its vector stays in any file of the index, and it does not come back by itself."""

import json
from pathlib import Path

import pytest

from retriever.indexing.forget import ForgetReport, forget
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found, same_hits, write_pages

SECRET = 'Der Schatz liegt unter der xyzzy-Eiche \N{SNOWMAN}, "links" vom Brunnen.'
LEFT = "xyzzy"


@pytest.fixture
def shelf(made: Shelf, tmp_path: Path) -> Shelf:
    return made.cloned(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = Shelf(tmp_path_factory.mktemp("made"), PAGES)
    shelf.write("plans/secret.md", f"# Plan\n\nAn older version: {SECRET}\n")
    shelf.update()
    shelf.write("plans/secret.md", f"# Plan\n\n{SECRET}\n\n## Map\n\nThe map of {LEFT}.\n")
    shelf.write("plans/public.md", "# Open\n\nNothing but a garden.\n")
    shelf.update()
    return shelf


def forgotten(shelf: Shelf, *references: str) -> ForgetReport:
    return forget(shelf.request(), references)


def secrets(shelf: Shelf) -> list[bytes]:
    """The bytes that must go: the word in each spelling, and the vectors and hashes of the texts that have it."""
    with shelf.rows() as rows:
        hashes = [
            row[0]
            for row in rows.execute(
                "SELECT DISTINCT text_hash FROM chunks JOIN nodes USING (node_key) WHERE text LIKE ?", (f"%{LEFT}%",)
            )
        ]
        vectors = [
            rows.execute("SELECT vector FROM vectors WHERE text_hash = ?", (key,)).fetchone()[0] for key in hashes
        ]
    older = shelf.encoder.encode_documents([f"Plan\n\nAn older version: {SECRET}"])[0].astype("<f4").tobytes()
    assert len(vectors) >= 2
    spelled = [LEFT.encode(), LEFT.encode("utf-16-le"), LEFT.encode("utf-16-be"), json.dumps(SECRET)[1:-1].encode()]
    return [*spelled, *hashes, *(vector[:32] for vector in [*vectors, older])]


@pytest.mark.parametrize("reference", ["plans/secret.md", "plans/", "plans"])
def test_no_byte_of_it_stays(shelf: Shelf, reference: str) -> None:
    sought = secrets(shelf)
    assert sum(bool(shelf.files_with(secret)) for secret in sought) >= 5  # the search finds what is there
    report = forgotten(shelf, reference)
    assert report.remaining == ()
    assert report.documents == (1 if reference.endswith(".md") else 2)
    assert {secret: shelf.files_with(secret) for secret in sought} == {secret: [] for secret in sought}
    assert not any(map(Path.is_dir, shelf.index.iterdir())), "ChromaDB has vectors of all texts"
    assert (shelf.docs / "plans" / "secret.md").read_text(encoding="utf-8").count(LEFT) == 2


def test_it_answers_as_if_it_had_never_been_there_and_embeds_nothing(shelf: Shelf) -> None:
    shelf.encoder.encoded = 0
    forgotten(shelf, "plans")
    fresh = Shelf(shelf.place / "fresh", PAGES)
    fresh.update()
    for question in QUESTIONS:
        answer, truth = shelf.ask(question, **NEVER_REFRESH), fresh.ask(question, **NEVER_REFRESH)
        assert same_hits(found(answer), found(truth))
        assert answer.confidence == pytest.approx(truth.confidence, abs=0.01)
        assert answer.degraded == ()
    assert shelf.encoder.encoded == 0


def test_no_byte_of_a_newer_version_is_read(shelf: Shelf) -> None:
    forgotten(shelf, "plans")
    shelf.write("plans/secret.md", f"# Plan\n\nA newer {SECRET}\n")
    shelf.update()
    assert shelf.files_with(LEFT) == []


def test_no_byte_of_an_indexed_folder_stays(shelf: Shelf, tmp_path: Path) -> None:
    shelf.update(write_pages(tmp_path / "notes", {"note.md": "# Note\n\nWords.\n"}))
    forgotten(shelf, str(shelf.docs))
    assert shelf.files_with(LEFT) == []


def test_what_another_process_reads_is_named_and_goes_the_next_time(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever.store.database.BUSY_TIMEOUT_S", 0.1)
    with shelf.open(**NEVER_REFRESH) as reader, reader.view():
        report = forgotten(shelf, "plans/secret.md")
        assert report.remaining == (str(shelf.index / "index.sqlite-wal"),)
    again = forgotten(shelf, "plans/secret.md")
    assert (again.documents, again.remaining) == (0, ())
    assert shelf.files_with(LEFT) == []
