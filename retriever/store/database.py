"""The connection to index.sqlite: opening, transactions, and SQLite's errors as our own."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pageindex.regular_file import require_regular
from retriever.errors import (
    IndexDamagedError,
    IndexLockedError,
    IndexUnusableError,
    NoIndexError,
    StorageError,
)
from retriever.indexing.locks import writer_lock
from retriever.store import checksums, migrating

FILE_NAME = "index.sqlite"
BUSY_TIMEOUT_S = 10.0


def create_database(folder: Path) -> sqlite3.Connection:
    """A connection for the writer, which holds the lock; makes the index when there is none, and migrates an older one.

    Raises:
        IndexUnusableError: or one of its kinds, with the cure.
    """
    with foreign_errors(folder):
        _require_files(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (folder / FILE_NAME).touch(mode=0o600)
        except OSError as error:
            raise StorageError(f"the index {folder} cannot be written: {error.strerror}") from error
        with _closed_on_failure(_connect(f"{(folder / FILE_NAME).as_uri()}?mode=rw")) as connection:
            if migrating.format_of(connection) == 0:
                migrating.make_schema(connection, folder / FILE_NAME)
            if migrating.is_older(connection, folder / FILE_NAME):
                migrating.migrate(connection, folder / FILE_NAME)
        migrating.remove_copies(folder)
        return connection


def open_database(folder: Path) -> sqlite3.Connection:
    """A connection for a reader; works on a read-only folder too. An index of an older format is migrated first.

    Raises:
        NoIndexError: there is none in that folder.
        IndexUnusableError: or one of its other kinds, with the cure.
    """
    with foreign_errors(folder):
        connection = open_unmigrated(folder)
        with _closed_on_failure(connection):
            older = migrating.is_older(connection, folder / FILE_NAME)
        return _migrated(connection, folder) if older else connection


def open_unmigrated(folder: Path) -> sqlite3.Connection:
    """A connection for a reader, of whatever format.

    Raises:
        NoIndexError: there is none in that folder.
        sqlite3.Error: it cannot be opened.
    """
    _require_files(folder)
    if not is_index(folder):
        raise NoIndexError(f"there is no index in {folder}; make one with: hybrid_retrieve.py index FOLDER")
    path, last_error = folder / FILE_NAME, None
    for mode in _reading_modes(path):
        try:
            with _closed_on_failure(_connect(f"{path.as_uri()}?{mode}")) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return connection
        except sqlite3.OperationalError as error:
            last_error = error
    assert last_error is not None
    raise last_error


def _migrated(connection: sqlite3.Connection, folder: Path) -> sqlite3.Connection:
    """The older index on the disk, migrated; where nothing can be written, a copy in memory."""
    try:
        with writer_lock(folder, BUSY_TIMEOUT_S):
            create_database(folder).close()
    except StorageError:
        return migrating.migrated_in_memory(connection)
    except BaseException:
        connection.close()
        raise
    connection.close()
    return open_unmigrated(folder)


def is_index(folder: Path) -> bool:
    """Whether there is an index in that folder.

    Raises:
        StorageError: this user may not look.
    """
    try:
        return (folder / FILE_NAME).is_file()
    except OSError as error:
        raise StorageError(f"the index {folder} cannot be read: {error.strerror}; name another with --index") from error


def _require_files(folder: Path) -> None:
    """Look at the files that SQLite is about to open: a pipe would block it, a link lead elsewhere.

    Raises:
        StorageError: one of them is no regular file.
    """
    for name in (FILE_NAME, *(f"{FILE_NAME}{ending}" for ending in ("-wal", "-shm", "-journal"))):
        try:
            require_regular(folder / name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise StorageError(
                f"the index {folder} cannot be read: {name}: {error.strerror}; remove it, or name another with --index"
            ) from error


def kept_aside(folder: Path) -> list[Path]:
    """Damaged databases that a repair has put aside."""
    return sorted(folder.glob(f"{FILE_NAME}.damaged-*"))


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


@contextmanager
def believed(connection: sqlite3.Connection, folder: Path) -> Iterator[None]:
    """Rows that contradict one another are damage, or else we are wrong: only a look at all of them can tell."""
    try:
        yield
    except (LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
        _require_intact(connection, folder, error)
        raise


def damaged(folder: Path, what: object) -> IndexDamagedError:
    """What is said of an index whose truth cannot be believed."""
    return IndexDamagedError(
        f"{folder / FILE_NAME} is damaged ({what}); run: hybrid_retrieve.py doctor --repair --index {folder}"
    )


def _require_intact(connection: sqlite3.Connection, folder: Path, error: Exception) -> None:
    """Check everything, which takes seconds for a large index, after something in it made no sense.

    Raises:
        IndexDamagedError: it is damaged.
    """
    from retriever.store.checking import find_damage  # 40 ms of imports, when something is wrong

    found = next(find_damage(connection), None)
    if found is not None:
        raise damaged(folder, found) from error


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
        checksums.register(connection)
        # Somebody else may have made the index: nothing in its schema calls a function with side effects.
        connection.execute("PRAGMA trusted_schema = OFF")
        # What was deleted from the documents is not to stay in the file's free pages.
        connection.execute("PRAGMA secure_delete = ON")
    return connection
