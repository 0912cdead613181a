"""A checksum in each row of index.sqlite: SQLite has none, and a bit that flips in a title is a title all the same.

A new row gets its checksum from its values. A change adds the difference that it makes (new values less old ones), so
that a row which was damaged before stays one that differs: no later write can approve of the damage.
"""

import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

COVERED = {
    table: tuple(columns.split())
    for table, columns in {
        "meta": "key value",
        "folders": "path prefix",
        "documents": "folder_key path size mtime_ns ctime_ns inode digest title boilerplate aliases warnings dated",
        "nodes": "node_id document_key parent_id kind level title breadcrumb first_line last_line text"
        " front_matter_lines anchor summary",
        "links": "source_key position line kind target_path target_anchor target_id problem",
        "chunks": "node_key first_line last_line text text_hash former",
        "vectors": "fingerprint text_hash vector",
        "tokens": "fingerprint text_hash bits",
        "skipped": "folder_key path size mtime_ns ctime_ns inode reason",
        "forgotten": "folder_key path",
        "summaries": "writer text_hash summary",
        "queries": "asked_at question verdict citation record",
        "opened": "node_id times",
    }.items()
}
"""Tables to the columns that their checksum covers, in its order: all but the keys that SQLite gives.

Such a key stands in the table's indexes as well, and SQLite compares these.
"""
KEYS = {
    "meta": ("key",),
    "links": ("source_key", "position"),
    "skipped": ("folder_key", "path"),
    "forgotten": ("folder_key", "path"),
    "summaries": ("writer", "text_hash"),
    "opened": ("node_id",),
}
"""Tables to the columns that name a row; of all others, the row's number does."""


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """A row whose values are not those that were written."""

    table: str
    key: tuple[object, ...]
    """The values of its key columns, as they are now; texts as bytes in UTF-8."""


def crc32(*values: object) -> int:
    """CRC-32 of values of SQLite's, each with its length before it; a text and its bytes in UTF-8 count as one."""
    checksum = 0
    for value in values:
        data = value if isinstance(value, bytes) else str(value).encode()
        checksum = zlib.crc32(data, zlib.crc32(b"%d:" % len(data), checksum))
    return checksum


def register(connection: sqlite3.Connection) -> None:
    """Lets SQL call `crc32`: every connection that writes needs it."""
    connection.create_function("crc32", -1, crc32, deterministic=True)


@cache
def inserting(table: str, verb: str = "INSERT") -> str:
    """The statement for a new row of the covered columns, in their order."""
    columns = COVERED[table]
    values = ", ".join(f"?{number}" for number in range(1, len(columns) + 1))
    return f"{verb} INTO {table} ({', '.join(columns)}, checksum) VALUES ({values}, crc32({values}))"


def updating(table: str, **changes: str) -> str:
    """The beginning of a statement that sets columns to SQL expressions; a WHERE clause follows."""
    old = ", ".join(COVERED[table])
    new = ", ".join(changes.get(column, column) for column in COVERED[table])
    assignments = ", ".join(f"{column} = {value}" for column, value in changes.items())
    return f"UPDATE {table} SET {assignments}, checksum = checksum - crc32({old}) + crc32({new})"


def deleting(table: str) -> str:
    """The statement that removes the row of a key, as a `DamagedRow` has it."""
    if table not in KEYS:
        return f"DELETE FROM {table} WHERE rowid = ?"
    alike = " AND ".join(f"CAST({name} AS BLOB) = CAST(? AS BLOB)" for name in KEYS[table])
    return f"DELETE FROM {table} WHERE {alike}"


def rows_that_differ(connection: sqlite3.Connection, table: str) -> list[DamagedRow]:
    """The rows of a table that are not as they were written."""
    return [DamagedRow(table, key) for key, is_damaged in _compared(connection, table) if is_damaged]


def _compared(connection: sqlite3.Connection, table: str) -> Iterator[tuple[tuple[object, ...], bool]]:
    """Each row's key, and whether it differs. Texts are read as bytes: what is no UTF-8 any more differs as well."""
    key = KEYS.get(table, ("rowid",))
    known, connection.text_factory = connection.text_factory, bytes
    try:
        for row in connection.execute(f"SELECT checksum, {', '.join((*key, *COVERED[table]))} FROM {table}"):
            yield row[1 : 1 + len(key)], row[0] != crc32(*row[1 + len(key) :])
    finally:
        connection.text_factory = known
