"""What a whole Chroma folder holds, and how one is copied.

    chroma.sqlite3, UUID/    Chroma's own
    inventory.json           ours, written last: how many vectors, of what length, and checksums

Chroma writes its vector files without a checksum. It reads a missing one as "no vectors", silently, and a changed byte
may end the process with a signal (measured). So every file of them is read before Chroma sees it: 3 GB/s, 2 ms at 5,000
vectors and 50 ms at 100,000, and Chroma then finds them in the system's cache. Opening a collection, even to read it,
writes a row into chroma.sqlite3; what that leaves as it was has a checksum as well (`pages.py`).
"""

import json
import shutil
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Self

from pageindex.files import read_file, require_regular
from retriever.errors import SnapshotError, StorageError
from retriever.files import writing_to

# Which bytes of chroma.sqlite3 stay as they were written.
#
# Opening a collection, even to read it, adds a row to the table `acquire_write`. That changes this table's page and the
# counters in the file's header, and may take pages that were free; nothing else (measured over 300 openings). All other
# bytes have a checksum: a flipped bit among them can end the process inside ChromaDB, about once in 300 times.

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


_NAME = "inventory.json"
_DATABASE = "chroma.sqlite3"
_MAX_BYTES = 64_000_000
"""Of an inventory: a range for each run of pages of the database that do not change."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a whole folder holds."""

    count: int
    """How many vectors."""
    dimension: int
    """The length of a vector."""
    checksums: Mapping[str, int]
    """The CRC-32 of each vector file, by its path in the folder, with `/` on every system; see `_checksums`."""
    settled: Sequence[Sequence[int]]
    """The parts of chroma.sqlite3, first byte and byte after the last, that opening does not change."""
    database_checksum: int
    """The CRC-32 of these parts."""

    @classmethod
    def of(cls, folder: Path, count: int, dimension: int) -> Self:
        """Take stock of a folder that was just written and closed."""
        settled = settled_ranges(folder / _DATABASE)
        return cls(count, dimension, _checksums(folder), settled, checksum(folder / _DATABASE, settled))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a folder's inventory.

        Raises:
            SnapshotError: there is none, because the folder is missing or was not finished, or it is damaged.
        """
        try:
            values = json.loads(read_file(folder / _NAME, _MAX_BYTES))
            return cls(
                count=int(values["count"]),
                dimension=int(values["dimension"]),
                checksums=dict(values["checksums"]),
                settled=[(int(start), int(end)) for start, end in values["settled"]],
                database_checksum=int(values["database_checksum"]),
            )
        except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
            raise SnapshotError(f"{folder}: not a whole folder of vectors; index the documents again") from error

    def write(self, folder: Path) -> None:
        """Write it beside Chroma's files.

        Raises:
            StorageError: the disk is full or the folder cannot be written.
        """
        with writing_to(folder):
            (folder / _NAME).write_text(json.dumps(asdict(self), sort_keys=True), encoding="utf-8")

    def check_files(self, folder: Path) -> None:
        """Compare the vector files with the inventory.

        Raises:
            SnapshotError: one is missing, too many, or not as it was written.
        """
        try:
            database = folder / _DATABASE
            for file in folder.rglob("*"):  # a pipe would block SQLite and Chroma, a link lead elsewhere
                if file.is_symlink() or not file.is_dir():
                    require_regular(file)
            whole = (
                checksum(database, self.settled) == self.database_checksum
                and opens(database)
                and _checksums(folder) == self.checksums
            )
        except OSError:
            whole = False
        if not whole:
            raise SnapshotError(f"{folder}: a file is missing, cut or damaged; index the documents again")

    def copy(self, source: Path, target: Path) -> None:
        """Copy a folder that others may have open; the copy has no inventory before it is finished.

        The database is copied by SQLite itself, because opening it writes to it: a plain copy could be torn.

        Raises:
            SnapshotError: the source cannot be read.
            StorageError: the disk is full or the target cannot be written.
        """
        with writing_to(target):
            target.mkdir(parents=True)
            for name in self.checksums:
                (target / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(source / name, target / name)
        try:
            with (
                closing(sqlite3.connect(f"{(source / _DATABASE).absolute().as_uri()}?mode=ro", uri=True)) as original,
                closing(sqlite3.connect(target / _DATABASE)) as copy,
            ):
                original.backup(copy)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY):
                raise StorageError(f"{target}: {error}; free some space, or keep the index elsewhere") from error
            raise SnapshotError(f"{source}: cannot be read ({error}); index the documents again") from error


def _checksums(folder: Path) -> dict[str, int]:
    """Of every vector file that counts.

    Below `sync_threshold` vectors nothing has been flushed, and there is no metadata file: then all vectors are in
    chroma.sqlite3, and each opening makes the other files anew, with whatever was in memory.
    """
    flushed = sorted(metadata.parent for metadata in folder.glob("*/index_metadata.pickle"))
    files = [file for segment in flushed for file in sorted(segment.iterdir())]
    return {file.relative_to(folder).as_posix(): checksum(file, [(0, file.stat().st_size)]) for file in files}


def remove_unflushed(folder: Path) -> None:
    """Removes vector files that do not count; what they hold besides is whatever was in this process's memory.

    Raises:
        StorageError: they cannot be removed.
    """
    with writing_to(folder):
        for file in folder.glob("*/data_level0.bin"):
            if not file.with_name("index_metadata.pickle").exists():
                shutil.rmtree(file.parent)
