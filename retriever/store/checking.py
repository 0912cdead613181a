"""Whether index.sqlite can be used: its pages, its tables, and whether each row reads as a search reads it.

SQLite has no checksum of what it stores: a bit that flips inside a text or a number is not found.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

from pageindex.links import LinkKind
from retriever.store import reading, text_vectors
from retriever.store.connection import Connection
from retriever.store.database import make_schema

MAX_NAMED = 5  # SQLite lists every cell of a broken page; more of them say nothing new
MAX_CHARS = 160


def find_damage(connection: Connection) -> Iterator[str]:
    """Everything that is wrong, a clause each; nothing for an index that can be used. Reads all of it."""
    try:
        if isinstance(connection, sqlite3.Connection):  # PostgreSQL looks after its own pages
            broken = [found for (found,) in connection.execute(f"PRAGMA integrity_check({MAX_NAMED})") if found != "ok"]
            for found in broken:
                yield " ".join(str(found).removeprefix("*** in database main ***").split())[:MAX_CHARS]
            if broken:
                return
            yield from _compare_schema(connection)
        for table, read in _READERS.items():
            try:
                read(connection)
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
                yield f"a row of {table} makes no sense: {error}"[:MAX_CHARS]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        yield str(error)


def _compare_schema(connection: sqlite3.Connection) -> Iterator[str]:
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(MAX_NAMED):
        yield f"a row of {table} belongs to no row of {parent}"
    # SQLite believes what its schema says: it is compared with a new one.
    query = "SELECT name, sql FROM sqlite_master"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        make_schema(new)
        expected, defined = dict(new.execute(query)), dict(connection.execute(query))
    for name in sorted(expected.keys() | defined.keys()):
        if defined.get(name) != expected.get(name):
            yield f"{name} is not defined as it should be"


def _read_meta(connection: Connection) -> None:
    reading.snapshot_number(connection)
    for key in ("settings", "documents"):
        dict(json.loads(reading.meta(connection, key) or "{}").items())
    for key in ("index_config", "background"):
        json.loads(reading.meta(connection, key) or "null")


def _read_documents(connection: Connection) -> None:
    for row in connection.execute("SELECT aliases, warnings FROM documents"):
        for text in row:
            if not all(isinstance(item, str) for item in json.loads(text)):
                raise ValueError(text)


def _read_nodes(connection: Connection) -> None:
    for stored in reading.nodes_of_documents(connection, _keys(connection, "documents", "document_key")):
        if not all(isinstance(title, str) for title in stored.node.breadcrumb):
            raise ValueError(stored.node.breadcrumb)


def _keys(connection: Connection, table: str, key: str) -> list[int]:
    return [found for (found,) in connection.execute(f"SELECT {key} FROM {table}")]


def _read_vectors(connection: Connection) -> None:
    for (fingerprint,) in connection.execute("SELECT DISTINCT fingerprint FROM vectors").fetchall():
        text_vectors.chunk_vectors(connection, fingerprint)


# By table, what reads every row of it.
_READERS: Mapping[str, Callable[[Connection], object]] = {
    "meta": _read_meta,
    "documents": _read_documents,
    "nodes": _read_nodes,
    "chunks": lambda connection: reading.chunks(connection, _keys(connection, "chunks", "chunk_key")),
    "links": lambda connection: [LinkKind(kind) for (kind,) in connection.execute("SELECT DISTINCT kind FROM links")],
    "vectors": _read_vectors,
    "queries": lambda connection: [json.loads(text) for (text,) in connection.execute("SELECT record FROM queries")],
}
