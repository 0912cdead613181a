"""The format of index.sqlite: making it, telling it, and bringing an older one up to date.

Formats are counted in SQLite's user_version. schema.sql is the newest one; `STEPS` lead to it from all before.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from retriever.disk import writing_to
from retriever.errors import IndexDamagedError, IndexVersionError, NoIndexError
from retriever.store import checksums

STEPS: tuple[str, ...] = (
    """
    CREATE TABLE forgotten (
        folder_key INTEGER NOT NULL REFERENCES folders ON DELETE CASCADE,
        path TEXT NOT NULL,
        PRIMARY KEY (folder_key, path)
    ) STRICT, WITHOUT ROWID;
    """,
    """
    ALTER TABLE documents ADD COLUMN dated INTEGER;
    CREATE TABLE summaries (
        writer TEXT NOT NULL,
        text_hash BLOB NOT NULL,
        summary TEXT NOT NULL,
        PRIMARY KEY (writer, text_hash)
    ) STRICT, WITHOUT ROWID;
    """,
    """
    CREATE TABLE queries (
        query_id INTEGER PRIMARY KEY AUTOINCREMENT,
        asked_at TEXT NOT NULL,
        question TEXT NOT NULL,
        verdict TEXT NOT NULL,
        citation TEXT,
        record TEXT NOT NULL
    ) STRICT;
    CREATE TABLE opened (
        node_id TEXT PRIMARY KEY,
        times INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    """,
    """
    ALTER TABLE chunks ADD COLUMN former INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX former_chunks ON chunks (chunk_key) WHERE former;
    """,
    """
    ALTER TABLE meta ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE folders ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE documents ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE nodes ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE links ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE chunks ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE vectors ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE tokens ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE skipped ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE forgotten ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE summaries ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE queries ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE opened ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
    UPDATE meta SET checksum = crc32(key, value);
    UPDATE folders SET checksum = crc32(path, prefix);
    UPDATE documents SET checksum = crc32(folder_key, path, size, mtime_ns, digest, title, boilerplate,
        aliases, warnings, dated);
    UPDATE nodes SET checksum = crc32(node_id, document_key, parent_id, kind, level, title, breadcrumb,
        first_line, last_line, text, front_matter_lines, anchor, summary);
    UPDATE links SET checksum = crc32(source_key, position, line, kind, target_path, target_anchor,
        target_id, problem);
    UPDATE chunks SET checksum = crc32(node_key, first_line, last_line, text, text_hash, former);
    UPDATE vectors SET checksum = crc32(fingerprint, text_hash, vector);
    UPDATE tokens SET checksum = crc32(fingerprint, text_hash, bits);
    UPDATE skipped SET checksum = crc32(folder_key, path, size, mtime_ns, reason);
    UPDATE forgotten SET checksum = crc32(folder_key, path);
    UPDATE summaries SET checksum = crc32(writer, text_hash, summary);
    UPDATE queries SET checksum = crc32(asked_at, question, verdict, citation, record);
    UPDATE opened SET checksum = crc32(node_id, times);
    """,
)
"""SQL, one script for each format after the first: the first of them makes format 2 of format 1."""
COPY_KEPT_S = 7 * 24 * 3600.0
"""How long the copy from before a migration is kept, in seconds: it holds texts that may since have been deleted."""


def newest_format() -> int:
    """The one that schema.sql makes, and that everything else reads and writes."""
    return 1 + len(STEPS)


def format_of(connection: sqlite3.Connection) -> int:
    """The format of an open index; 0 when nothing is in it yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def make_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Fills an empty database.

    Raises:
        IndexDamagedError: it has tables of another program.
    """
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise IndexDamagedError(f"{path} belongs to another program; name another folder with --index")
    connection.execute("PRAGMA journal_mode = WAL")
    _run_at_once(connection, newest_schema())


def made_in_memory() -> sqlite3.Connection:
    """An empty database of the newest format, to compare others with."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _run_at_once(connection, newest_schema())
    return connection


def newest_schema() -> str:
    """The SQL of the newest format."""
    return (Path(__file__).parent / "schema.sql").read_text(encoding="utf-8")


def is_older(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether an index has to be migrated before it can be used.

    Raises:
        IndexVersionError: it was made by a newer version.
        NoIndexError: nothing is in it.
    """
    found = format_of(connection)
    if found > newest_format():
        raise IndexVersionError(
            f"the index {path.parent} has format {found}, this version reads up to {newest_format()};"
            " update hybrid-retrieve"
        )
    if not found:
        raise NoIndexError(f"the index {path.parent} is empty; make it with: hybrid_retrieve.py index FOLDER")
    return found < newest_format()


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Brings an older index up to date, all or nothing, with a copy of it kept aside; for the one writer.

    Raises:
        StorageError: there is no room for the copy.
        sqlite3.Error: the index is as it was.
    """
    _keep_copy(connection, path)
    _run_steps(connection)


def migrated_in_memory(connection: sqlite3.Connection) -> sqlite3.Connection:
    """An up-to-date copy of an index that cannot be written; the given connection is closed."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    checksums.register(copy)
    with closing(connection):
        connection.backup(copy)
    _run_steps(copy)
    return copy


def copies(folder: Path) -> Iterator[Path]:
    """The copies from before migrations, and what is left of one that was interrupted."""
    yield from sorted(folder.glob("index.sqlite.format-*"))


def remove_copies(folder: Path, *, older_than_s: float = COPY_KEPT_S) -> None:
    """Removes the copies whose time is over."""
    for copy in copies(folder):
        with suppress(OSError):  # another time
            if copy.stat().st_mtime < time.time() - older_than_s:
                copy.unlink()


def _run_steps(connection: sqlite3.Connection) -> None:
    # A step may make a table anew: dropping the old one must not take along the rows that refer to it.
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        _run_at_once(connection, "\n".join(STEPS[format_of(connection) - 1 :]))
    finally:
        connection.execute("PRAGMA foreign_keys = ON")


def _run_at_once(connection: sqlite3.Connection, script: str) -> None:
    try:
        connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {newest_format()};\nCOMMIT;")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _keep_copy(connection: sqlite3.Connection, path: Path) -> None:
    """SQLite's own backup: a plain copy would miss what is still in the log."""
    copy = path.with_name(f"{path.name}.format-{format_of(connection)}")
    draft = copy.with_name(f"{copy.name}.part")
    with writing_to(copy):
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600)
        with closing(sqlite3.connect(draft)) as target:
            connection.backup(target)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(copy)
