"""`doctor` finds nothing in an index that is whole, everything that is broken, and repairs what can be repaired."""

import os
import random
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import pytest

from retriever.command_line.options import ExitCode
from retriever.errors import DocumentsError, IndexDamagedError, IndexLockedError, IndexVersionError, OldIndexError
from retriever.store.database import INDEX_FORMAT
from retriever.store.files import writer_lock
from retriever.upkeep import CheckUp, check_up, examine_software
from tests.program import Cli
from tests.scenarios import chapter_pages
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found, same_hits


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """Enough pages that a broken page of the database is not all of it; copied, never changed."""
    shelf = Shelf(tmp_path_factory.mktemp("good"), PAGES | chapter_pages(24))
    shelf.update()
    return shelf


ask_once = cache(Shelf.ask_all)
examine_once = cache(lambda: [*examine_software()])  # sums of the models' files: longer than all of a small index


@pytest.fixture
def shelf(good: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setattr("retriever.upkeep.examine_software", examine_once)
    return good.cloned(tmp_path)


def examined(shelf: Shelf, *, repair: bool = False) -> CheckUp:
    return check_up(shelf.index, repair=repair, encoder=shelf.encoder)


def problems(found: CheckUp) -> list[str]:
    return [f"{item.name}: {item.says}" for item in found.findings if item.level == "problem"]


def notes(found: CheckUp) -> dict[str, str]:
    return {item.name: item.says for item in found.findings if item.level == "note"}


def assert_same_answers(shelf: Shelf, good: Shelf) -> None:
    for one, two in zip(shelf.ask_all(), ask_once(good), strict=True):
        assert same_hits(found(one), found(two)), one.question


def test_a_whole_index_has_neither_problems_nor_notes(shelf: Shelf) -> None:
    found = examined(shelf)
    assert (problems(found), notes(found)) == ([], {})
    names = {item.name for item in found.findings}
    assert names >= {"software", "bundled models", "rows", "vectors", "words", "vectors in ChromaDB"}
    assert examined(shelf, repair=True).repairs == ()
    with shelf.rows() as rows:
        rows.execute("INSERT INTO pending (text_hash, text) VALUES (x'00', '')")
    assert "1 text without" in notes(examined(shelf))["vectors"]


ORPHAN = "UPDATE chunks SET node_key = 7"


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE nodes SET breadcrumb = '[oops'",
        "UPDATE vectors SET vector = x'00' WHERE rowid = 3",
        "UPDATE nodes SET title = CAST(x'ff' AS TEXT)",
        "DROP TABLE forgotten",
    ],
)
def test_a_question_that_meets_damage_names_the_repair(shelf: Shelf, harm: str) -> None:
    with shelf.rows() as rows:
        rows.execute(harm)
    with pytest.raises(IndexDamagedError, match="doctor --repair --index"):
        shelf.update() if "DROP" in harm else shelf.ask(QUESTIONS[0], **NEVER_REFRESH)


@pytest.mark.parametrize("seed", range(2))
def test_broken_pages_are_repaired(shelf: Shelf, good: Shelf, seed: int) -> None:
    path = shelf.index / "index.sqlite"
    data = bytearray(path.read_bytes())
    chance = random.Random(seed)
    with shelf.rows() as rows:
        roots = {row[0] for row in rows.execute("SELECT rootpage FROM sqlite_master")}
    page = chance.choice([number for number in range(3, len(data) // 4096) if number + 1 not in roots])
    data[page * 4096 : page * 4096 + 4096] = chance.randbytes(4096)
    path.write_bytes(data)
    assert problems(examined(shelf, repair=True)) == []
    assert_same_answers(shelf, good)


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "one page": lambda data: data[:4096],
    "twenty pages": lambda data: data[: 20 * 4096],
    "zeros": lambda data: bytes(len(data)),
    "rubbish": lambda data: random.Random(1).randbytes(len(data)),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_broken_database_stays_as_it_is_until_it_is_repaired(shelf: Shelf, good: Shelf, harm: str) -> None:
    """Where no folder can be read in it, those that were named for it are indexed again."""
    path = shelf.index / "index.sqlite"
    harmed = HARMS[harm](path.read_bytes())
    path.write_bytes(harmed)
    for use in (lambda: shelf.ask(QUESTIONS[0]), shelf.update):
        with pytest.raises(IndexDamagedError, match=r"is damaged .*; run: python -m retriever doctor --repair --index"):
            use()
    assert path.read_bytes() == harmed
    assert "28 documents indexed again" in examined(shelf, repair=True).repairs[1]
    assert problems(examined(shelf)) == []
    assert_same_answers(shelf, good)


def test_what_no_document_gives_back_is_saved(shelf: Shelf, cli: Cli) -> None:
    cli("forget", "kitchen.md", "--index", shelf.index, "-q")
    tables = ("folders", "forgotten", "vectors")
    with shelf.rows() as rows:
        before = [rows.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables]
        settings = rows.execute("SELECT value FROM meta WHERE key = 'settings'").fetchone()
        rows.execute(ORPHAN)
    repaired = examined(shelf, repair=True)
    assert (problems(repaired), shelf.encoder.encoded) == ([], 0)
    assert "1 folder, 1 forgotten path" in repaired.repairs[0]
    with shelf.rows() as rows:
        assert [rows.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables] == before
        assert rows.execute("SELECT value FROM meta WHERE key = 'settings'").fetchone() == settings
        assert rows.execute("SELECT count(*) FROM documents WHERE path = 'kitchen.md'").fetchone() == (0,)
        rows.execute("DELETE FROM meta WHERE key = 'settings'")
        rows.execute(ORPHAN)
    assert (problems(examined(shelf, repair=True)), shelf.encoder.encoded) == ([], 0)


def test_a_folder_that_is_away_leaves_the_damaged_index_as_it_is(shelf: Shelf, tmp_path: Path) -> None:
    shelf.docs = shutil.copytree(shelf.docs, tmp_path / "away")
    shelf.update(shelf.docs)
    shelf.docs.rename(tmp_path / "elsewhere")
    with shelf.rows() as rows:
        rows.execute(ORPHAN)
    with pytest.raises(DocumentsError, match="bring it back"):
        examined(shelf, repair=True)
    assert problems(examined(shelf))


@pytest.mark.parametrize("step", ["copy_into", "update_index"])
def test_an_interrupted_repair_goes_on_the_next_time(
    shelf: Shelf, good: Shelf, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with shelf.rows() as rows:
        rows.execute(ORPHAN)
        rows.execute("DELETE FROM vectors WHERE rowid <= 5")
    with monkeypatch.context() as patch:
        patch.setattr(f"retriever.upkeep.{step}", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            examined(shelf, repair=True)
    assert problems(examined(shelf))
    assert problems(examined(shelf, repair=True)) == []
    assert shelf.encoder.encoded == 5
    assert not [*shelf.index.glob("chroma-*")]
    assert_same_answers(shelf, good)


def test_a_broken_chromadb_is_made_anew_without_embedding(shelf: Shelf, good: Shelf) -> None:
    file = shelf.chroma / "chroma.sqlite3"
    os.truncate(file, file.stat().st_size // 2)
    assert any("run: " in item.cure for item in examined(shelf).findings if item.level == "problem")
    repaired = examined(shelf, repair=True)
    assert repaired.repairs == ("the words were made anew, and the next `index` writes ChromaDB; nothing was embedded",)
    assert (problems(repaired), notes(repaired)) == ([], {})
    assert shelf.encoder.encoded == 0
    assert not file.exists()
    assert_same_answers(shelf, good)


@pytest.mark.parametrize("row", ["[]", "5", '["STATE"]', '["STATE", "a", "b"]', "no JSON"])
def test_a_row_of_somebody_elses_chromadb_is_a_problem_and_no_crash(shelf: Shelf, row: str) -> None:
    state = shelf.chroma.name.removeprefix("chroma-")
    with shelf.rows() as rows:
        rows.execute("UPDATE meta SET value = ? WHERE key = 'chroma'", (row.replace("STATE", state),))
    assert len(problems(examined(shelf))) == 1
    assert "answered without it" in str(shelf.ask(QUESTIONS[0], **NEVER_REFRESH).degraded)


def test_an_index_in_use_is_looked_at_and_not_repaired(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.upkeep.WAIT_FOR_WRITER_S", 0.1)
    (shelf.chroma / "chroma.sqlite3").unlink()
    with writer_lock(shelf.index, 0), pytest.raises(IndexLockedError, match="another process is writing"):
        examined(shelf, repair=True)


def test_a_later_format_is_refused_and_left_alone(shelf: Shelf) -> None:
    with shelf.rows() as rows:
        rows.execute(f"PRAGMA user_version = {INDEX_FORMAT + 1}")
        rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = (shelf.index / "index.sqlite").read_bytes()
    for use in (lambda: shelf.ask("word"), shelf.update, lambda: examined(shelf, repair=True)):
        with pytest.raises(IndexVersionError, match=r"this version reads format .*update this"):
            use()
    assert problems(examined(shelf))
    assert (shelf.index / "index.sqlite").read_bytes() == before


def test_an_earlier_format_is_made_again(shelf: Shelf, good: Shelf) -> None:
    with shelf.rows() as rows:
        rows.execute("CREATE TABLE tokens (fingerprint, text_hash, bits)")
        rows.execute(f"PRAGMA user_version = {INDEX_FORMAT - 1}")
    command = re.escape(f"doctor --repair --index {shelf.index}")
    for use in (lambda: shelf.ask("word"), shelf.update):
        with pytest.raises(OldIndexError, match=f"has format {INDEX_FORMAT - 1}, .*{command}"):
            use()
    assert problems(examined(shelf, repair=True)) == []
    assert_same_answers(shelf, good)


def test_the_command_exits_with_1_for_problems_only(shelf: Shelf, cli: Cli) -> None:
    assert "PROBLEM" not in cli("doctor", "--index", shelf.index).out
    (shelf.chroma / "chroma.sqlite3").unlink()
    content = cli("doctor", "--index", shelf.index, "--json", code=ExitCode.ERROR).json
    assert content["problems"] == 1
    assert {"name", "level", "says", "cure"} == content["findings"][0].keys()
    assert "there is no index in" in cli("doctor", "--index", shelf.index.parent / "nowhere").out
