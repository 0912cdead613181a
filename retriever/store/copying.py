"""All rows of one index into another, whatever engine each is in: how an index is exported and imported."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

from retriever.store.connection import Connection
from retriever.store.database import make_schema
from retriever.store.text_vectors import PackedVector

ROWS_AT_ONCE = 1_000
KEYS = {"folders": "folder_key", "documents": "document_key", "nodes": "node_key", "chunks": "chunk_key"}
REFERENCES = {"folder_key": "folders", "document_key": "documents", "node_key": "nodes", "source_key": "nodes"}
UNNAMED = {"vector_key"}  # keys that no other row has, and each index gives for itself
DERIVED = ("manifest_hash", "lexical_version", "unsettled")  # what `meta` says of what is made of the rows


def copy_rows(source: Connection, target: Connection) -> None:
    """Into an index without rows; what is derived is made by `Derived.renew`. Inside a transaction of each."""
    made: dict[str, dict[object, int]] = {}  # keys by table: the old one -> the new one
    for table, columns in list_tables():
        key = KEYS.get(table)
        order = "rowid" if table == "pending" else key
        own = [name for name in columns if name not in {key, *UNNAMED}]
        query = f"SELECT {', '.join([key or own[0], *own])} FROM {table}" + (f" ORDER BY {order}" if order else "")
        rows = iter(source.execute(query))
        while batch := list(islice(rows, ROWS_AT_ONCE if key not in ("node_key", "chunk_key") else None)):
            new = [_renumber(table, dict(zip(own, row[1:], strict=True)), made) for row in batch]
            if key:
                numbers = target.insert_rows(table, new)
                made.setdefault(table, {}).update(zip((row[0] for row in batch), numbers, strict=True))
            else:
                statement = f"INSERT INTO {table} ({', '.join(own)}) VALUES ({', '.join('?' * len(own))})"
                target.executemany(statement, [tuple(row.values()) for row in new])
    for name in DERIVED:
        target.execute("DELETE FROM meta WHERE key = ?", (name,))


def remove_rows(connection: Connection) -> None:
    """Empties an index, inside a transaction."""
    for table, _ in reversed(list(list_tables())):
        connection.execute(f"DELETE FROM {table}")


def list_tables() -> Iterator[tuple[str, list[str]]]:
    """The tables and their columns, each after those that its rows belong to."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        make_schema(empty)
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        for (table,) in empty.execute(names).fetchall():
            yield table, [name for _, name, *_ in empty.execute(f"PRAGMA table_info({table})")]


def _renumber(table: str, row: dict[str, object], made: dict[str, dict[object, int]]) -> dict[str, object]:
    for column in row.keys() & REFERENCES.keys():
        row[column] = made[REFERENCES[column]][row[column]]
    if table == "vectors":
        vector = row["vector"]
        assert isinstance(vector, bytes)
        row["vector"] = PackedVector(vector)
    return row
