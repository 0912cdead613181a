"""Reads out of a damaged index.sqlite what no document can give back, and the vectors, into a new one."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from retriever.display.phrases import counted
from retriever.errors import RetrieverError
from retriever.settings.layers import DEFAULT_PROFILE, given_settings
from retriever.store import writing
from retriever.store.by_text import NORM_TOLERANCE
from retriever.store.database import create_database, transaction

SAVED = {
    "folders": ("folder", ("folder_key",)),
    "forgotten": ("forgotten path", ("folder_key", "path")),
    "queries": ("recorded question", ("query_id",)),
    "opened": ("opened section", ("node_id",)),
    "vectors": ("vector", ("rowid",)),
    "tokens": ("token list", ("rowid",)),
    "summaries": ("summary text", ("writer", "text_hash")),
}
"""Tables, what a report calls one of their rows, and the order in which SQLite stores these.

Indexing makes the other tables again; of `meta` only the settings are saved.
"""
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the second where an error message quotes a damaged schema
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What could be read of a damaged index."""

    folders: tuple[str, ...]
    """The indexed folders; empty when they cannot be read."""
    summary: str
    """How much was saved, and of what not everything could be read: a sentence for people."""


def salvage(damaged: Path, draft: Path) -> Salvaged:
    """Fills the database of a new index; nothing is written to the damaged one.

    Args:
        damaged: the database.
        draft: the folder of the new index, empty.

    Raises:
        StorageError: the disk is full or read-only.
    """
    saved, broken = {}, []
    with closing(create_database(draft)) as target, closing(_open_damaged(damaged)) as source:
        target.execute("PRAGMA foreign_keys = OFF")
        with transaction(target):
            settings = _read_settings(source)
            if settings is None:
                broken.append("settings")
            writing.set_meta(target, "settings", settings or "{}")
            for table, (name, _) in SAVED.items():
                before = target.total_changes
                if not _copy_table(source, target, table):
                    broken.append(f"{name}s")
                saved[name] = target.total_changes - before
            _remove_odd_vectors(target)
            target.execute("DELETE FROM forgotten WHERE folder_key NOT IN (SELECT folder_key FROM folders)")
        folders = tuple(path for (path,) in target.execute("SELECT path FROM folders ORDER BY folder_key"))
    counts = ", ".join(counted(count, name) for name, count in saved.items() if count) or "nothing"
    lost = f"; not all could be read of: {', '.join(broken)}" if broken else ""
    return Salvaged(folders, f"saved of the damaged one: {counts}{lost}")


def _open_damaged(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    # Then SQLite passes over a table whose definition is damaged, and reads the others; nothing is written here.
    connection.execute("PRAGMA writable_schema = ON")
    return connection


def _read_settings(source: sqlite3.Connection) -> str | None:
    """The settings that the index was made with, in JSON; None when they cannot be read."""
    try:
        row = source.execute("SELECT value FROM meta WHERE key = 'settings'").fetchone()
        given_settings(DEFAULT_PROFILE, None, json.loads(row[0])).profile()
    except (*UNREADABLE, RetrieverError, ValueError, TypeError, AttributeError):
        return None
    return str(row[0])


def _copy_table(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> bool:
    """Copies the rows that can be read and believed; whether that was all of them."""
    columns = [name for _, name, *_ in target.execute(f"PRAGMA table_info({table})")]
    insert = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    whole = True
    for row in _read_rows(source, table, columns):
        if row is None or (table == "vectors" and not _is_unit(row[-1])):
            whole = False
            continue
        try:
            target.execute(insert, row)
        except sqlite3.IntegrityError:  # a value of another type than the table's
            whole = False
    return whole


def _read_rows(source: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[Row | None]:
    """From the first row to the first that cannot be read, then from the last back; None for what lies between."""
    for direction in ("ASC", "DESC"):
        order = ", ".join(f"{column} {direction}" for column in SAVED[table][1])
        try:
            yield from source.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}")
            return
        except UNREADABLE:
            yield None


def _is_unit(vector: object) -> bool:
    import numpy as np

    if not isinstance(vector, bytes) or len(vector) % 4:
        return False
    with np.errstate(all="ignore"):
        norm = float(np.linalg.norm(np.frombuffer(vector, "<f4").astype(float)))
    return abs(norm - 1) <= NORM_TOLERANCE


def _remove_odd_vectors(target: sqlite3.Connection) -> None:
    """Those that have not as many numbers as most of the same encoder."""
    lengths: dict[str, Counter[int]] = {}
    for fingerprint, length, count in target.execute(
        "SELECT fingerprint, length(vector), count(*) FROM vectors GROUP BY 1, 2"
    ):
        lengths.setdefault(fingerprint, Counter())[length] += count
    for fingerprint, counter in lengths.items():
        ((usual, _),) = counter.most_common(1)
        target.execute("DELETE FROM vectors WHERE fingerprint = ? AND length(vector) <> ?", (fingerprint, usual))
