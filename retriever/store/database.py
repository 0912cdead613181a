"""The connection to index.sqlite: opening, transactions, and SQLite's errors as our own."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retriever.errors import (
    IndexDamagedError,
    IndexLockedError,
    IndexUnusableError,
    IndexVersionError,
    NoIndexError,
    StorageError,
)

FILE_NAME = "index.sqlite"
FORMAT = 1
"""Kept in SQLite's user_version; raised when the schema changes."""
BUSY_TIMEOUT_S = 10.0


def create_database(folder: Path) -> sqlite3.Connection:
    """A connection for the writer; makes the index when there is none.

    Raises:
        IndexUnusableError: or one of its kinds, with the cure.
    """
    with foreign_errors(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (folder / FILE_NAME).touch(mode=0o600)
        except OSError as error:
            raise StorageError(f"the index {folder} cannot be written: {error.strerror}") from error
        with _closed_on_failure(_connect(f"{(folder / FILE_NAME).as_uri()}?mode=rw")) as connection:
            if _format(connection) == 0:
                _make_schema(connection, folder)
            _check_format(connection, folder)
        return connection


def open_database(folder: Path) -> sqlite3.Connection:
    """A connection for a reader; works on a read-only folder too.

    Raises:
        NoIndexError: there is none in that folder.
        IndexUnusableError: or one of its other kinds, with the cure.
    """
    path = folder / FILE_NAME
    if not is_index(folder):
        raise NoIndexError(f"there is no index in {folder}; make one with: hybrid_retrieve.py index FOLDER")
    with foreign_errors(folder):
        last_error: sqlite3.OperationalError | None = None
        for mode in _reading_modes(path):
            try:
                with _closed_on_failure(_connect(f"{path.as_uri()}?{mode}")) as connection:
                    _check_format(connection, folder)
                    connection.execute("SELECT count(*) FROM meta").fetchone()
                return connection
            except sqlite3.OperationalError as error:
                last_error = error
        assert last_error is not None
        raise last_error


def is_index(folder: Path) -> bool:
    """Whether there is an index in that folder.

    Raises:
        StorageError: this user may not look.
    """
    try:
        return (folder / FILE_NAME).is_file()
    except OSError as error:
        raise StorageError(f"the index {folder} cannot be read: {error.strerror}; name another with --index") from error


def identity(folder: Path) -> tuple[int, int] | None:
    """What tells the database from any other while it is open; None when there is none."""
    try:
        status = (folder / FILE_NAME).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _reading_modes(path: Path) -> Iterator[str]:
    """Ways to open a database in WAL mode, which wants to write a file beside it.

    On a read-only file system only `immutable` reads it, but not what is still in the log.
    """
    yield from ("mode=rw", "mode=ro")
    try:
        unread = path.with_name(f"{path.name}-wal").stat().st_size
    except FileNotFoundError:
        unread = 0
    if not unread:
        yield "mode=ro&immutable=1"


@contextmanager
def _closed_on_failure(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Closes the connection when an exception passes, and only then."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """All or nothing: commits at the end, rolls back when an exception passes."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite rolls back by itself when the disk is full
            connection.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything read inside is one state, whatever a writer does meanwhile."""
    with transaction(connection, "DEFERRED"):
        yield


@contextmanager
def foreign_errors(folder: Path) -> Iterator[None]:
    """sqlite3's exceptions leave as ours, and so do those of what it holds: texts in UTF-8, lists in JSON."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(error, folder) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise damaged(folder, error) from error


def require_intact(connection: sqlite3.Connection, folder: Path, error: Exception) -> None:
    """Check the whole file, which takes seconds for a large one, after something in it made no sense.

    Raises:
        IndexDamagedError: it is damaged.
    """
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise damaged(folder, found) from error


def damaged(folder: Path, what: object) -> IndexDamagedError:
    """What is said of an index whose truth cannot be believed."""
    return IndexDamagedError(
        f"{folder / FILE_NAME} is damaged ({what}); move the folder {folder} away and index the documents again"
    )


def _translated(error: sqlite3.Error, folder: Path) -> IndexUnusableError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return StorageError(f"the index {folder} cannot be read or written: {error}; free some space or name another")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return IndexLockedError(f"another process is writing to the index {folder}; try again when it has finished")
    return damaged(folder, error)


def _connect(uri: str) -> sqlite3.Connection:
    # Transactions are written out (isolation_level=None): sqlite3's implicit ones begin where nobody looks.
    # One thread at a time, not always the same one: `Retriever` has the lock for that.
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
    with _closed_on_failure(connection):
        connection.execute("PRAGMA foreign_keys = ON")
        # The commit names a generation, and the old one is removed after it: it must not be lost with the power.
        connection.execute("PRAGMA synchronous = FULL")
        # What was deleted from the documents is not to stay in the file's free pages.
        connection.execute("PRAGMA secure_delete = ON")
    return connection


def _format(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check_format(connection: sqlite3.Connection, folder: Path) -> None:
    found = _format(connection)
    if found > FORMAT:
        raise IndexVersionError(
            f"the index {folder} has format {found}, this version reads up to {FORMAT}; update hybrid-retrieve"
        )
    if found < FORMAT:
        raise NoIndexError(f"the index {folder} is empty; make it with: hybrid_retrieve.py index FOLDER")


def _make_schema(connection: sqlite3.Connection, folder: Path) -> None:
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise IndexDamagedError(f"{folder / FILE_NAME} belongs to another program; name another folder with --index")
    connection.execute("PRAGMA journal_mode = WAL")
    schema = (Path(__file__).parent / "schema.sql").read_text(encoding="utf-8")
    connection.executescript(f"BEGIN IMMEDIATE;\n{schema}\nPRAGMA user_version = {FORMAT};\nCOMMIT;")
