"""Which bytes of chroma.sqlite3 stay as they were written.

Opening a collection, even to read it, adds a row to the table `acquire_write`. That changes this table's page and the
counters in the file's header, and may take pages that were free; nothing else (measured over 300 openings). All other
bytes have a checksum: a flipped bit among them can end the process inside ChromaDB, about once in 300 times.
"""

import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

HEADER = 100
"""Bytes before the first page's content; see sqlite.org/fileformat2.html for all that is read of the file here."""
_FIRST_FREE = 32
"""Where the header names the first page of the list of free ones."""
_TABLE = "acquire_write"


def settled_ranges(database: Path) -> list[tuple[int, int]]:
    """The parts of the file, (first byte, byte after the last), that opening does not change.

    Raises:
        OSError, sqlite3.Error: it cannot be read.
    """
    with closing(_connected(database)) as connection:
        size = int(connection.execute("PRAGMA page_size").fetchone()[0])
        count = int(connection.execute("PRAGMA page_count").fetchone()[0])
        root = int(connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (_TABLE,)).fetchone()[0])
    with database.open("rb") as file:
        changing = {root, *_free_pages(file, size)}
    rest = ((size * (page - 1), size * page) for page in range(2, count + 1) if page not in changing)
    return list(_merged([(HEADER, size), *rest]))


def checksum(database: Path, ranges: Iterable[Sequence[int]]) -> int:
    """The CRC-32 of these parts, at 2 GB/s.

    Raises:
        OSError: the file cannot be read.
    """
    found = 0
    with database.open("rb", buffering=0) as file:
        for start, end in ranges:
            file.seek(start)
            while start < end and (block := file.read(min(end - start, 1 << 20))):
                found = zlib.crc32(block, found)
                start += len(block)
    return found


def opens(database: Path) -> bool:
    """Whether what the checksum leaves out can be read: the header, and the table that each opening writes to."""
    try:
        with closing(_connected(database)) as connection:
            connection.execute(f"SELECT count(*), max(id) FROM {_TABLE}").fetchone()
    except sqlite3.Error:
        return False
    return True


def _connected(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)


def _free_pages(file: BinaryIO, size: int) -> Iterator[int]:
    """SQLite's list of free pages: each trunk page names the next one, and up to a pageful of others."""
    file.seek(_FIRST_FREE)
    (trunk,) = struct.unpack(">I", file.read(4))
    while trunk:
        yield trunk
        file.seek(size * (trunk - 1))
        following, count = struct.unpack(">II", file.read(8))
        yield from struct.unpack(f">{count}I", file.read(4 * count))
        trunk = following


def _merged(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Neighbouring ranges, ascending, as one."""
    begun: tuple[int, int] | None = None
    for start, end in ranges:
        if begun is not None and begun[1] == start:
            begun = begun[0], end
            continue
        if begun is not None:
            yield begun
        begun = start, end
    if begun is not None:
        yield begun
