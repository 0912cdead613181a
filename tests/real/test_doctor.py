"""`doctor` finds nothing in an index that is whole, everything that is broken, and repairs what can be repaired."""

import json
import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from hybrid_retrieve import main
from retriever.command_line.exit_codes import ExitCode
from retriever.doctor import CheckUp
from retriever.errors import IndexDamagedError, IndexLockedError
from retriever.indexing.locks import writer_lock
from retriever.library import check_up
from retriever.store import migrating
from retriever.store.checking import find_damage
from retriever.store.database import kept_aside
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found, same_hits

CHAPTERS = {
    f"chapter-{number}.md": "".join(
        f"{'##' if part else '#'} Chapter {number} part {part}\n\nIt speaks of topic{number * 7 + part} alone.\n\n"
        for part in range(8)
    )
    for number in range(24)
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """Enough pages that a broken page of the database is not all of it; copied, never changed."""
    shelf = Shelf(tmp_path_factory.mktemp("good"), PAGES | CHAPTERS)
    shelf.update()
    return shelf


@pytest.fixture
def shelf(good: Shelf, tmp_path: Path) -> Shelf:
    return good.copied(tmp_path)


def examined(shelf: Shelf, *, repair: bool = False) -> CheckUp:
    return check_up(shelf.index, repair=repair, encoder=shelf.encoder)


def problems(found: CheckUp) -> list[str]:
    return [f"{item.name}: {item.says}" for item in found.findings if item.level == "problem"]


def notes(found: CheckUp) -> dict[str, str]:
    return {item.name: item.says for item in found.findings if item.level == "note"}


def answers(shelf: Shelf) -> list[list[tuple[str, float]]]:
    return [found(shelf.ask(question, **NEVER_REFRESH)) for question in QUESTIONS]


def test_a_whole_index_has_neither_problems_nor_notes(shelf: Shelf) -> None:
    found = examined(shelf)
    assert (problems(found), notes(found)) == ([], {})
    names = {item.name for item in found.findings}
    assert names >= {"Python", "SQLite", "packages", "bundled model", "disk", "permissions", "index.sqlite"}
    assert names >= {"vectors", "words", "vectors in ChromaDB", "links", "duplicates", "folder", "locks"}
    assert examined(shelf, repair=True).repairs == ()


def test_looking_changes_nothing(shelf: Shelf) -> None:
    with shelf.rows() as rows:
        rows.execute("DELETE FROM chunks WHERE chunk_key % 2")
    before = {path: path.read_bytes() for path in shelf.index.rglob("*.sqlite") if path.name == "index.sqlite"}
    examined(shelf)
    assert {path: path.read_bytes() for path in before} == before


def overwrite(table: str, column: str, value: object, where: str = "rowid = 5") -> Callable[[sqlite3.Connection], None]:
    def harm(rows: sqlite3.Connection) -> None:
        rows.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value,))

    return harm


HARMED_ROWS: Mapping[str, Callable[[sqlite3.Connection], object]] = {
    "a breadcrumb that is no JSON": overwrite("nodes", "breadcrumb", "[oops"),
    "a kind that is none": overwrite("nodes", "kind", "sectiom"),
    "lines the wrong way round": overwrite("nodes", "last_line", -3),
    "an id of another file": overwrite("nodes", "node_id", "xhapter"),
    "a letter of a chunk": overwrite("chunks", "text", "It speaks of topec alone."),
    "a letter of a node": overwrite("nodes", "text", "# Chapter\n\nNothing.\n", "rowid = 7"),
    "a digest that is too short": overwrite("documents", "digest", "abc"),
    "aliases that are no texts": overwrite("documents", "aliases", "[1]"),
    "a vector that is not a number": overwrite("vectors", "vector", struct.pack("<64f", *[float("nan")] * 64)),
    "a vector that is too short": overwrite("vectors", "vector", b"\0" * 8),
    "a generation that is no number": overwrite("meta", "value", "1x", "key = 'generation'"),
    "a kind of link": overwrite("links", "kind", "relativf", "true"),
    "a row without its parent": lambda rows: rows.execute("UPDATE chunks SET node_key = 100000 WHERE rowid = 5"),
}


@pytest.mark.parametrize("harm", HARMED_ROWS)
def test_what_cannot_be_in_a_row_is_found(shelf: Shelf, harm: str) -> None:
    with shelf.rows() as rows:
        assert list(find_damage(rows)) == []
        HARMED_ROWS[harm](rows)
        assert list(find_damage(rows)) != []


@pytest.mark.parametrize("harm", ["a letter of a chunk", "a vector that is not a number", "a row without its parent"])
def test_a_harmed_row_is_repaired(shelf: Shelf, good: Shelf, harm: str) -> None:
    with shelf.rows() as rows:
        HARMED_ROWS[harm](rows)
    assert problems(examined(shelf))
    repaired = examined(shelf, repair=True)
    assert problems(repaired) == []
    assert shelf.encoder.encoded == ("vector" in harm)  # the one that was harmed
    assert all(same_hits(some, others) for some, others in zip(answers(shelf), answers(good), strict=True))


@pytest.mark.parametrize("harm", ["a breadcrumb that is no JSON", "a generation that is no number"])
def test_a_question_that_meets_such_a_row_names_the_repair(shelf: Shelf, harm: str) -> None:
    with shelf.rows() as rows:
        HARMED_ROWS[harm](rows)
        rows.execute("UPDATE nodes SET breadcrumb = '[oops'") if "JSON" in harm else None
    with pytest.raises(IndexDamagedError, match="doctor --repair --index"):
        shelf.ask(QUESTIONS[0], **NEVER_REFRESH)


@pytest.mark.parametrize("seed", range(4))
def test_broken_pages_cost_only_the_vectors_in_them(shelf: Shelf, good: Shelf, seed: int) -> None:
    path = shelf.index / "index.sqlite"
    data = bytearray(path.read_bytes())
    chance = random.Random(seed)
    with shelf.rows() as rows:
        roots = {row[0] for row in rows.execute("SELECT rootpage FROM sqlite_master")}
    page = chance.choice([number for number in range(3, len(data) // 4096) if number + 1 not in roots])
    data[page * 4096 : page * 4096 + 4096] = chance.randbytes(4096)
    path.write_bytes(data)
    before = problems(examined(shelf))
    repaired = examined(shelf, repair=True)
    assert problems(repaired) == []
    assert all(same_hits(some, others) for some, others in zip(answers(shelf), answers(good), strict=True))
    assert shelf.encoder.encoded <= 20, (page, before, repaired.repairs)
    if before:
        (aside,) = kept_aside(shelf.index)
        assert aside.read_bytes() == data
        assert "left over" in notes(repaired)


@pytest.mark.parametrize("left", [0, 4096, 0.5])
def test_a_database_that_is_cut(shelf: Shelf, good: Shelf, left: float) -> None:
    path = shelf.index / "index.sqlite"
    size = path.stat().st_size
    os.truncate(path, int(left if left >= 1 or not left else left * size // 4096 * 4096))
    if left:
        with pytest.raises(IndexDamagedError, match="doctor --repair"):
            shelf.update()
    repaired = examined(shelf, repair=True)
    if "folders it held cannot be read" in " ".join(repaired.repairs) or not left:
        assert problems(repaired) or notes(repaired)["index"]
        shelf.update()
    assert problems(examined(shelf)) == []
    assert all(same_hits(some, others) for some, others in zip(answers(shelf), answers(good), strict=True))


def test_what_was_forgotten_stays_forgotten_after_a_rescue(shelf: Shelf) -> None:
    assert main(["forget", "kitchen.md", "--index", str(shelf.index), "-q"]) == ExitCode.OK
    with shelf.rows() as rows:
        rows.execute("UPDATE nodes SET kind = 'none'")
    assert problems(examined(shelf, repair=True)) == []
    with shelf.rows() as rows:
        assert rows.execute("SELECT count(*) FROM documents WHERE path = 'kitchen.md'").fetchone() == (0,)
        assert rows.execute("SELECT path FROM forgotten").fetchall() == [("kitchen.md",)]


@pytest.mark.parametrize(
    "part", ["manifest.json", "lexical/weights.npy", "chroma/chroma.sqlite3", "chroma/inventory.json"]
)
def test_a_broken_generation_is_made_anew_without_embedding(shelf: Shelf, good: Shelf, part: str) -> None:
    file = shelf.index / "gen-1" / part
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    assert any("run: " in item.cure for item in examined(shelf).findings if item.level == "problem")
    repaired = examined(shelf, repair=True)
    assert repaired.repairs == ("generation 2 was made anew from the database; nothing was embedded",)
    assert (problems(repaired), notes(repaired)) == ([], {})
    assert shelf.encoder.encoded == 0
    assert shelf.generations() == ["gen-2"]
    assert all(same_hits(some, others) for some, others in zip(answers(shelf), answers(good), strict=True))


def test_what_is_worth_knowing_is_a_note(shelf: Shelf, tmp_path: Path) -> None:
    shelf.docs = tmp_path / "docs"
    shelf.write("a.md", "# A\n\n[b](missing.md)\n")
    shelf.write("copy.md", "# A\n\n[b](missing.md)\n")
    shelf.update(index=tmp_path / "other")
    shelf.index = tmp_path / "other"
    shelf.write("new.md", "# New\n\nword\n")
    (shelf.index / "gen-7").mkdir()
    (shelf.index / "index.sqlite.format-1").write_bytes(b"old")
    found = examined(shelf)
    assert problems(found) == []
    assert notes(found).keys() == {"links", "duplicates", "folder", "left over"}
    assert "1 file changed" in notes(found)["folder"]
    assert all(item.cure for item in found.findings if item.level == "note")
    shutil.rmtree(shelf.docs)
    assert "kept as they were" in notes(examined(shelf))["folder"]


def test_an_index_in_use_is_looked_at_and_not_repaired(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.doctor.repairing.WAIT_FOR_WRITER_S", 0.1)
    with writer_lock(shelf.index, 0):
        assert f"process {os.getpid()} is writing" in notes(examined(shelf))["locks"]
        with pytest.raises(IndexLockedError, match=f"process {os.getpid()} is writing"):
            examined(shelf, repair=True)


def test_other_formats_are_named_and_left_alone(shelf: Shelf) -> None:
    newest = migrating.newest_format()
    for number, level in ((newest - 1, "note"), (newest + 1, "problem")):
        with shelf.rows() as rows:
            rows.execute(f"PRAGMA user_version = {number}")
        (seen,) = [item for item in examined(shelf).findings if item.name == "index.sqlite"]
        assert seen.level == level
        assert f"format {number}" in seen.says
        with closing(sqlite3.connect(shelf.index / "index.sqlite")) as rows:
            assert migrating.format_of(rows) == number


def test_the_command_exits_with_1_for_problems_only(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--index", str(shelf.index)]) == ExitCode.OK
    assert "PROBLEM" not in capsys.readouterr().out
    (shelf.index / "gen-1" / "manifest.json").unlink()
    assert main(["doctor", "--index", str(shelf.index), "--json"]) == ExitCode.ERROR
    content = json.loads(capsys.readouterr().out)
    assert content["problems"] == 2
    assert {"area", "name", "level", "says", "cure"} == content["findings"][0].keys()
    assert main(["doctor", "--index", str(shelf.index.parent / "nowhere")]) == ExitCode.OK
    assert "there is no index in" in capsys.readouterr().out
