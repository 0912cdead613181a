"""An index of an older format becomes one of today's, all or nothing, with a copy kept; a newer one is refused."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from retriever.errors import IndexDamagedError, IndexLockedError, IndexVersionError, StorageError
from retriever.indexing.locks import writer_lock
from retriever.store import checksums, database, migrating
from retriever.store.checking import find_damage
from retriever.store.database import create_database, open_database
from tests.shelf import LONG_AGO_NS, NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found, same_hits

PROJECT = Path(__file__).parents[2]
FORMATS = sorted((PROJECT / "tests" / "index_formats").glob("format-*.sql"), key=lambda path: int(path.stem[7:]))
NEXT_STEP = (
    "CREATE TABLE of_the_next_format (word TEXT NOT NULL) STRICT; INSERT INTO of_the_next_format VALUES ('new');"
)


def shelf_of(fixture: Path, place: Path) -> Shelf:
    """The pages, and the index that another version made of them."""
    shelf = Shelf(place, PAGES)
    shelf.index.mkdir()
    with closing(sqlite3.connect(shelf.index / "index.sqlite")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(fixture.read_text(encoding="utf-8").replace("/DOCS", str(shelf.docs)))
        if migrating.format_of(connection) >= 6:  # the first one with checksums
            checksums.register(connection)
            connection.execute("UPDATE folders SET checksum = crc32(path, prefix)")
            connection.commit()
    return shelf


def tables(index: Path) -> dict[str, list[tuple[object, ...]]]:
    """The columns of each table, and the indexes: what a program can tell of a schema."""
    with closing(sqlite3.connect(index / "index.sqlite")) as connection:
        names = connection.execute("SELECT type, name FROM sqlite_master ORDER BY type, name").fetchall()
        return {
            f"{kind} {name}": connection.execute(
                f"PRAGMA table_xinfo({name})" if kind == "table" else f"PRAGMA index_xinfo({name})"
            ).fetchall()
            for kind, name in names
        }


def vectors(index: Path) -> list[tuple[str, bytes, bytes]]:
    with closing(sqlite3.connect(index / "index.sqlite")) as connection:
        return connection.execute("SELECT fingerprint, text_hash, vector FROM vectors ORDER BY text_hash").fetchall()


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """An index made by today's version, which then becomes one format older than the program."""
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    monkeypatch.setattr(migrating, "STEPS", (*migrating.STEPS, NEXT_STEP))
    return shelf


def test_there_is_a_fixture_of_each_format() -> None:
    assert [int(path.stem[7:]) for path in FORMATS] == list(range(1, migrating.newest_format() + 1))


@pytest.mark.parametrize("fixture", FORMATS, ids=lambda path: path.stem)
def test_each_format_becomes_todays_and_answers_as_a_new_index(fixture: Path, tmp_path: Path) -> None:
    shelf = shelf_of(fixture, tmp_path)
    known = vectors(shelf.index)
    fresh = tmp_path / "fresh"
    shelf.update(index=fresh)
    shelf.encoder.encoded = 0
    with closing(open_database(shelf.index)) as connection:
        assert tables(shelf.index) == tables(fresh)
        assert list(find_damage(connection)) == []
    assert vectors(shelf.index) == known
    shelf.update()
    for question in QUESTIONS:
        assert same_hits(
            found(shelf.ask(question, **NEVER_REFRESH)), found(shelf.ask(question, index=fresh, **NEVER_REFRESH))
        )
    assert shelf.encoder.encoded == 0


@pytest.mark.parametrize("by", ["ask", "index"])
def test_the_first_command_migrates_and_keeps_a_copy(older: Shelf, by: str) -> None:
    before = vectors(older.index)
    if by == "ask":
        assert older.ask(QUESTIONS[0]).hits
    else:
        older.update()
    with older.rows() as rows:
        assert rows.execute("SELECT word FROM of_the_next_format").fetchall() == [("new",)]
        assert rows.execute("PRAGMA foreign_key_check").fetchall() == []
    assert vectors(older.index) == before
    (copy,) = migrating.copies(older.index)
    assert copy.name == f"index.sqlite.format-{migrating.newest_format() - 1}"
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as connection:
        assert migrating.format_of(connection) == migrating.newest_format() - 1
        assert connection.execute("SELECT count(*) FROM documents").fetchone() == (len(PAGES),)
    assert older.encoder.encoded == 8


def test_the_copy_goes_after_its_time(older: Shelf) -> None:
    older.update()
    (copy,) = migrating.copies(older.index)
    older.update()
    assert copy.exists()
    os.utime(copy, ns=(LONG_AGO_NS, LONG_AGO_NS))
    older.update()
    assert list(migrating.copies(older.index)) == []


def test_a_step_that_fails_leaves_the_index_as_it_was(older: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = f"{NEXT_STEP} INSERT INTO of_the_next_format VALUES (NULL);"
    monkeypatch.setattr(migrating, "STEPS", (*migrating.STEPS[:-1], broken))
    with pytest.raises(IndexDamagedError, match="NOT NULL"):
        older.ask(QUESTIONS[0])
    with older.rows() as rows:
        assert migrating.format_of(rows) == migrating.newest_format() - 1
        assert rows.execute("SELECT count(*) FROM sqlite_master WHERE name = 'of_the_next_format'").fetchone() == (0,)
    monkeypatch.undo()
    assert older.ask(QUESTIONS[0]).degraded == ()


def test_no_room_for_the_copy_leaves_the_index_as_it_was_and_answers(
    older: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Iterator[None]:
        raise StorageError("the disk is full")

    monkeypatch.setattr(migrating, "_keep_copy", full)
    assert older.ask(QUESTIONS[0], **NEVER_REFRESH).hits
    with pytest.raises(StorageError, match="the disk is full"):
        older.update()
    with older.rows() as rows:
        assert migrating.format_of(rows) == migrating.newest_format() - 1


def test_a_question_waits_for_the_writer_of_an_older_index(older: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.1)
    with writer_lock(older.index, 0), pytest.raises(IndexLockedError, match=f"process {os.getpid()} is writing"):
        older.ask(QUESTIONS[0])
    assert older.ask(QUESTIONS[0]).hits


@pytest.mark.skipif(sys.platform != "linux", reason="mount is Linux's")
def test_an_older_index_that_cannot_be_written_is_asked_all_the_same(older: Shelf) -> None:
    for command in (["mount", "--bind"], ["mount", "-o", "remount,bind,ro"]):
        if subprocess.run([*command, older.index, older.index], capture_output=True, check=False).returncode:
            pytest.skip("this user may not mount a folder read-only")
    try:
        answer = older.ask(QUESTIONS[0])
        assert answer.hits[0].node_id == "mail.md#mail/stamps"
    finally:
        subprocess.run(["umount", "-l", older.index], check=True)
    with older.rows() as rows:
        assert migrating.format_of(rows) == migrating.newest_format() - 1


@pytest.mark.skipif(sys.platform != "linux", reason="it forks")
def test_killed_between_the_copy_and_the_commit(older: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    process = os.fork()
    if not process:
        migrating._run_steps = lambda connection: os.kill(os.getpid(), signal.SIGKILL)  # in the child alone
        with writer_lock(older.index, 0):
            create_database(older.index)
        os._exit(1)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL
    assert len(list(migrating.copies(older.index))) == 1
    assert older.ask(QUESTIONS[0]).degraded == ()
    with older.rows() as rows:
        assert migrating.format_of(rows) == migrating.newest_format()


@pytest.mark.parametrize("command", ["ask", "index"])
def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path, command: str) -> None:
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    newest = migrating.newest_format()
    with shelf.rows() as rows:
        rows.execute(f"PRAGMA user_version = {newest + 1}")
    before = (shelf.index / "index.sqlite").read_bytes()
    with pytest.raises(IndexVersionError, match=rf"has format {newest + 1}, this version reads up to {newest}; update"):
        shelf.ask("word") if command == "ask" else shelf.update()
    assert (shelf.index / "index.sqlite").read_bytes() == before
