"""Saves what of a damaged index.sqlite the documents cannot give back: vectors, settings, what was forgotten.

SQLite stops at the first page that it cannot read. So a table is read in halves, and these in halves again, until what
remains unread is single rows. All that is read must pass the checks of a sound row, or is left behind.
"""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from retriever.disk import writing_to
from retriever.store.by_text import NORM_TOLERANCE
from retriever.store.checksums import COVERED, crc32, register
from retriever.store.database import FILE_NAME, create_database, kept_aside, transaction

Row = tuple[object, ...]

MADE_OF_DOCUMENTS = frozenset({"documents", "nodes", "links", "chunks", "skipped"})
"""Tables that indexing fills again."""
SETTINGS = ("settings",)
"""Of the values in `meta`, those that people chose; the others are told by a new generation."""
ROWS_AT_ONCE = 1024
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged database raises; the second where the message itself quotes a damaged schema."""
LOGS = ("-wal", "-shm")
"""What SQLite keeps beside a database."""


@dataclass(frozen=True, slots=True)
class Rescued:
    """What was saved."""

    aside: Path
    """The damaged database."""
    folders: tuple[Path, ...]
    """The indexed folders; empty when they cannot be read."""
    counts: dict[str, int]
    """Rows saved, by table."""
    broken: tuple[str, ...]
    """Tables of which something could not be read."""

    @property
    def says(self) -> str:
        """What was saved, and what was not, in a clause."""
        saved = ", ".join(f"{count:,} {table}" for table, count in self.counts.items() if count) or "nothing"
        lost = f"; not all could be read of: {', '.join(self.broken)}" if self.broken else ""
        return f"saved of it: {saved}{lost}"


def rescue(index: Path) -> Rescued:
    """Puts a new database in the place of the damaged one; for the one writer.

    Killed at any moment, the damaged one is still there, under its own name or aside, and the next repair reads both.

    Raises:
        StorageError: the disk is full or read-only.
    """
    aside = _put_aside(index)
    draft = index / f"{FILE_NAME}.draft"
    with writing_to(draft):
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
    counts, broken = _saved([path for path in kept_aside(index) if path.suffix.rpartition("-")[2].isdigit()], draft)
    with closing(create_database(draft)) as connection:
        folders = tuple(Path(path) for (path,) in connection.execute("SELECT path FROM folders ORDER BY folder_key"))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with writing_to(index):
        for log in LOGS:  # or SQLite would take them for the new one's
            (index / f"{FILE_NAME}{log}").unlink(missing_ok=True)
        (draft / FILE_NAME).replace(index / FILE_NAME)
        shutil.rmtree(draft)
    return Rescued(aside, folders, counts, broken)


def _put_aside(index: Path) -> Path:
    """A copy of the damaged database with its log."""
    names = {path.name for path in kept_aside(index)}
    number = next(n for n in range(1, len(names) + 2) if f"{FILE_NAME}.damaged-{n}" not in names)
    aside = index / f"{FILE_NAME}.damaged-{number}"
    draft = index / f"{FILE_NAME}.damaged.part"
    with writing_to(aside):
        log = index / f"{FILE_NAME}{LOGS[0]}"
        if log.exists() and log.stat().st_size:
            shutil.copyfile(log, f"{aside}{LOGS[0]}")
        shutil.copyfile(index / FILE_NAME, draft)
        draft.chmod(0o600)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(aside)
    return aside


def _saved(sources: list[Path], draft: Path) -> tuple[dict[str, int], tuple[str, ...]]:
    """Fills a new database from the damaged ones, the newest first."""
    counts: dict[str, int] = {}
    broken: set[str] = set()
    with closing(create_database(draft)) as target:
        target.execute("PRAGMA foreign_keys = OFF")
        with transaction(target):
            for source in reversed(sources):
                with closing(_opened(source)) as damaged:
                    for table in _tables(target):
                        saved, whole = _copied(damaged, target, table)
                        counts[table] = counts.get(table, 0) + saved
                        broken |= set() if whole else {table}
            for table in _tables(target):
                _remove_orphans(target, table)
    return counts, tuple(sorted(broken))


def _opened(source: Path) -> sqlite3.Connection:
    """For reading; a database without a log leaves no files beside it that way."""
    has_log = source.with_name(f"{source.name}{LOGS[0]}").exists()
    mode = "mode=ro" if has_log else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"{source.absolute().as_uri()}?{mode}", uri=True)
    # Then SQLite passes over a table whose definition is damaged, and reads the others; nothing is written here.
    connection.execute("PRAGMA writable_schema = ON")
    return connection


def _tables(connection: sqlite3.Connection) -> list[str]:
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return [name for (name,) in names if name not in MADE_OF_DOCUMENTS]


def _copied(damaged: sqlite3.Connection, target: sqlite3.Connection, table: str) -> tuple[int, bool]:
    """How many rows of a table were new and sound, and whether every row could be read."""
    columns = [row[1] for row in target.execute(f"PRAGMA table_info({table})")]
    insert = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(columns))})"
    saved, whole = 0, True
    for row in _rows(damaged, table, _selected(damaged, table, columns)):
        if row is None or not _is_sound(table, dict(zip(columns, row, strict=True))):
            whole = False
            continue
        with suppress(sqlite3.IntegrityError):  # of another type than the table's
            saved += target.execute(insert, row).rowcount if _is_kept(table, row) else 0
    return saved, whole


def _selected(damaged: sqlite3.Connection, table: str, columns: list[str]) -> str:
    """The columns to read; before format 6 rows had no checksums, so theirs cannot differ."""
    try:
        damaged.execute(f"SELECT checksum FROM {table} LIMIT 0")
    except UNREADABLE:
        register(damaged)
        columns = [f"crc32({', '.join(COVERED[table])})" if name == "checksum" else name for name in columns]
    return ", ".join(columns)


def _is_kept(table: str, row: Row) -> bool:
    return table != "meta" or row[0] in SETTINGS


def _is_sound(table: str, row: dict[str, object]) -> bool:
    if row["checksum"] != crc32(*(row[name] for name in COVERED[table])):
        return False
    if table == "meta" and row["key"] in SETTINGS:
        return _is_object(str(row["value"]))
    return table != "vectors" or (isinstance(row["vector"], bytes) and _is_unit(row["vector"]))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _is_unit(data: bytes) -> bool:
    import numpy as np

    with np.errstate(all="ignore"):
        norm = float(np.linalg.norm(np.frombuffer(data[: len(data) // 4 * 4], "<f4").astype(float)))
    return abs(norm - 1) <= NORM_TOLERANCE


def _rows(damaged: sqlite3.Connection, table: str, columns: str) -> Iterator[Row | None]:
    """What can be read of a table; None for each part that cannot."""
    try:
        first, last = damaged.execute(f"SELECT min(rowid), max(rowid) FROM {table}").fetchone()
    except UNREADABLE:
        yield from _from_both_ends(damaged, table, columns)
        return
    if first is not None:
        for start in range(first, last + 1, ROWS_AT_ONCE):
            yield from _in_halves(damaged, table, columns, start, min(start + ROWS_AT_ONCE - 1, last))


def _in_halves(damaged: sqlite3.Connection, table: str, columns: str, first: int, last: int) -> Iterator[Row | None]:
    query = f"SELECT {columns} FROM {table} WHERE rowid BETWEEN ? AND ?"
    try:
        yield from damaged.execute(query, (first, last)).fetchall()
    except UNREADABLE:
        if first == last:
            yield None
            return
        middle = (first + last) // 2
        yield from _in_halves(damaged, table, columns, first, middle)
        yield from _in_halves(damaged, table, columns, middle + 1, last)


def _from_both_ends(damaged: sqlite3.Connection, table: str, columns: str) -> Iterator[Row | None]:
    """For a table without row numbers, or one whose end is broken: what is before the first broken page, and after."""
    for order in ("ASC", "DESC"):
        try:
            yield from damaged.execute(f"SELECT {columns} FROM {table} ORDER BY 1 {order}, 2 {order}")
        except UNREADABLE:
            yield None


def _remove_orphans(target: sqlite3.Connection, table: str) -> None:
    """Rows that refer to rows that were not saved."""
    for _, _, parent, column, key, *_ in target.execute(f"PRAGMA foreign_key_list({table})").fetchall():
        referred = key or next(row[1] for row in target.execute(f"PRAGMA table_info({parent})") if row[5])
        target.execute(f"DELETE FROM {table} WHERE {column} NOT IN (SELECT {referred} FROM {parent})")
