"""Connections to the rows of an index: what engines have in common, index.sqlite, transactions, SQLite's errors.

Statements are written for SQLite, in words that other engines read too; the few others a connection to one translates.
"""

import json
import shlex
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from retriever.errors import (
    IndexDamagedError,
    IndexLockedError,
    IndexVersionError,
    NoIndexError,
    OldIndexError,
    StorageError,
    suggest,
)
from retriever.store.files import FILE_NAME, OWNER, writing_to

BUSY_TIMEOUT_S = 10.0
PAGE_BYTES = 16_384  # rows with vectors have 400 to 2,000 bytes: pages of 4,096 would be a quarter empty
MAPPED_BYTES = 1 << 31  # of index.sqlite, by a reader: as much as SQLite maps at most; what is beyond is read

# Of index.sqlite, in SQLite's user_version. An index of another format is refused: it is made again by `index`.
INDEX_FORMAT = 19
MAX_NAMED = 5  # SQLite lists every cell of a broken page; more of them say nothing new
MAX_CHARS = 160


class Rows(Protocol):
    """The rows that a statement gave."""

    def fetchone(self) -> Any:  # noqa: ANN401  # a row is a tuple of what the statement names
        """Return the next row; None after the last."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to the rows of an index; one thread at a time."""

    def execute(self, query: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run one statement."""

    def executemany(self, query: str, parameters: Iterable[Sequence[Any]], /) -> object:
        """Run one statement for each of several rows of values."""

    def pack_list(self, values: Sequence[int | str]) -> object:
        """Return many values as the one parameter that `reading.GIVEN` takes."""

    def find_damage(self) -> Iterator[str]:
        """Yield what is damaged of the database's own pages and tables, as clauses; values in rows are not checked."""

    def close(self) -> None:
        """Close the connection."""


class FileConnection(sqlite3.Connection):
    """A connection to index.sqlite."""

    def pack_list(self, values: Sequence[int | str]) -> object:
        """Return the values as JSON: SQLite takes only 32,766 variables in a statement."""
        return json.dumps(values, default=int)  # numpy's integers

    def find_damage(self) -> Iterator[str]:
        """Compare the schema, which SQLite trusts, with a new one; then check the pages, then the keys."""
        try:
            yield from self._check_schema() or self._check_pages() or self._check_keys()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            yield str(error)

    def _check_schema(self) -> list[str]:
        # First of all: SQLite would run the triggers and functions in it.
        query = "SELECT name, sql FROM sqlite_master"
        with closing(sqlite3.connect(":memory:")) as new:
            make_schema(new)
            others = {name for name, _ in {*new.execute(query)} ^ {*self.execute(query)}}
        return [f"{name} is not defined as it should be" for name in sorted(others)]

    def _check_pages(self) -> list[str]:
        rows = self.execute(f"PRAGMA integrity_check({MAX_NAMED})")
        clauses = [clause.removeprefix("*** in database main ***") for (clause,) in rows if clause != "ok"]
        return [" ".join(clause.split())[:MAX_CHARS] for clause in clauses]

    def _check_keys(self) -> list[str]:
        rows = self.execute("PRAGMA foreign_key_check").fetchmany(MAX_NAMED)
        return [f"a row of {table} belongs to no row of {parent}" for table, _, parent, _ in rows]


def create_file(folder: Path) -> FileConnection:
    """Open a connection for the writer, which holds the lock; make the index when there is none."""
    with writing_to(folder):
        (folder / FILE_NAME).touch(mode=0o600)
    with _connect(f"{(folder / FILE_NAME).as_uri()}?mode=rw") as connection:
        try:
            _check_format(connection, folder)
        except NoIndexError:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            make_schema(connection)
        # The words of a document are spread over their tables: pages are written again and again.
        connection.execute("PRAGMA cache_size = -32000")
    return connection


def copy_into(source: sqlite3.Connection, path: Path) -> None:
    """Let a database hold the pages of another one, in one transaction; readers of the old ones are not disturbed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as target:
        target.execute("PRAGMA writable_schema = ON")  # passes over a definition that is damaged
        source.backup(target)
        target.execute("PRAGMA journal_mode = WAL")
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def make_schema(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty database, all or none."""
    numbers = f"PRAGMA application_id = {OWNER};\nPRAGMA user_version = {INDEX_FORMAT};"
    connection.executescript(f"BEGIN IMMEDIATE;\n{read_schema()}\n{numbers}\nCOMMIT;")


def read_schema() -> str:
    return Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")


def open_file(folder: Path) -> FileConnection:
    """Open a connection for a reader, of a read-only folder too; NoIndexError or another IndexUnusableError."""
    if not is_index(folder):
        raise NoIndexError(f"there is no index in {folder}", hint=suggest("index FOLDER"))
    with translate_sqlite_errors(folder):
        try:
            return _open_reader(folder, "mode=rw")
        except sqlite3.OperationalError:
            log = folder / f"{FILE_NAME}-wal"
            if log.exists() and log.stat().st_size:
                raise
            # Only this reads a database in WAL mode on a read-only disk, but not what is still in the log.
            return _open_reader(folder, "mode=ro&immutable=1")


def _open_reader(folder: Path, mode: str) -> FileConnection:
    with _connect(f"{(folder / FILE_NAME).as_uri()}?{mode}") as connection:
        _check_format(connection, folder)
        # A search reads some hundred pages here and there, which are then not copied. No memory is taken: what is
        # mapped stays in the system's cache.
        connection.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")
    return connection


def _check_format(connection: sqlite3.Connection, folder: Path) -> None:
    """Refuse an index that another version made, another program's tables, and an empty database."""
    query = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    found, tables = connection.execute(query).fetchone()
    if not found and not tables:
        raise NoIndexError(
            f"the index {folder} is empty", hint=suggest(f"index FOLDER --index {shlex.quote(str(folder))}")
        )
    if not found:
        raise IndexDamagedError(f"{folder / FILE_NAME} belongs to another program; name another folder with --index")
    says = f"the index {folder} has format {found}, this version reads format {INDEX_FORMAT}"
    if found > INDEX_FORMAT:
        raise IndexVersionError(says, hint="update this program, or name another folder with --index")
    if found < INDEX_FORMAT:
        command = f"doctor --repair --index {shlex.quote(str(folder))}"
        raise OldIndexError(says, hint=suggest(command, "to make it again, run"))


def is_index(folder: Path) -> bool:
    try:
        return (folder / FILE_NAME).is_file()
    except OSError as error:
        raise StorageError(f"the index {folder} cannot be read: {error.strerror}; name another with --index") from error


@contextmanager
def transaction(connection: Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Let a writer's changes come together; a reader, with "DEFERRED", see one state, whatever a writer does."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(Exception):  # nothing is left to do where the disk is full, or the server gone
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translate_sqlite_errors(folder: Path) -> Iterator[None]:
    """Turn errors of sqlite3, and of what it holds (texts in UTF-8, lists in JSON), into those of this program."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            cure = "free some space or name another"
            raise StorageError(f"the index {folder} cannot be read or written: {error}; {cure}") from error
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            cure = "try again when it has finished"
            raise IndexLockedError(f"another process is writing to the index {folder}; {cure}") from error
        raise make_damage_error(folder, error) from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise make_damage_error(folder, error) from error


def make_damage_error(place: object, what: object) -> IndexDamagedError:
    """Return the error for an index whose rows cannot be relied on; `place` is its store or its folder."""
    repair = suggest(f"doctor --repair --index {shlex.quote(str(place))}")
    return IndexDamagedError(f"{place}/{FILE_NAME} is damaged ({what})", hint=repair)


@contextmanager
def _connect(uri: str) -> Iterator[FileConnection]:
    """Open a connection, and close it where the block fails."""
    # Transactions are written out (isolation_level=None): sqlite3's implicit ones begin where nobody looks.
    # One thread at a time, not always the same one: `Retriever` has the lock for that.
    connection = sqlite3.connect(
        uri,
        uri=True,
        isolation_level=None,
        timeout=BUSY_TIMEOUT_S,
        check_same_thread=False,
        factory=FileConnection,
    )
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        # The commit names a state, and what the old one had is removed after it: it must not be lost with the power.
        connection.execute("PRAGMA synchronous = FULL")
        # Somebody else may have made the index: nothing in its schema calls a function with side effects.
        connection.execute("PRAGMA trusted_schema = OFF")
        # What was deleted from the documents is not to stay in the file's free pages.
        connection.execute("PRAGMA secure_delete = ON")
        yield connection
    except BaseException:
        connection.close()
        raise
