"""All rows of one index into another, whatever engine each is in: how an index is exported and imported."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

from retriever.store.connection import Connection
from retriever.store.database import make_schema
from retriever.store.text_vectors import PackedVector
from retriever.store.writing import insert

ROWS_AT_ONCE = 1_000
DERIVED = ("manifest_hash", "lexical_version")  # what `meta` says of what is made of the rows


def copy_rows(source: Connection, target: Connection) -> None:
    """Into an index without rows; what is derived is made by `Derived.renew`. Inside a transaction of each."""
    for table, columns in list_tables():
        order = " ORDER BY rowid" if table == "pending" else ""
        rows = iter(source.execute(f"SELECT {', '.join(columns)} FROM {table}{order}"))
        while batch := list(islice(rows, ROWS_AT_ONCE)):
            # Vectors come last in their table; a database has a type for them.
            new = ((*row[:-1], PackedVector(row[-1])) for row in batch) if table == "vectors" else batch
            insert(target, table, ", ".join(columns), new)
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
            columns = [name for _, name, *_ in empty.execute(f"PRAGMA table_info({table})")]
            yield table, [name for name in columns if name != "vector_key"]  # which each index gives for itself
