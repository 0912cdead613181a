"""Which files in an index's folder are ours, and whether they are whole: nothing else is ever removed or overwritten.

An index may be kept in any folder, beside files of its user. A snapshot is known by its name and by what is in it;
whatever is a link, has another name, or holds something of another name stays where it is. The sizes and checksums of
the files of a derived folder find damage before a library reads them.
"""

import shutil
import stat
from collections.abc import Iterable, Mapping
from io import FileIO
from pathlib import Path
from zlib import crc32

from pageindex.corpus import open_regular, require_regular
from retriever.errors import SnapshotError, UsageError
from retriever.store.database import FILE_NAME, OWNER
from retriever.store.locks import LOCK_NAME, READERS_NAME

LOGS = tuple(f"{FILE_NAME}{ending}" for ending in ("-wal", "-shm", "-journal"))
INDEX_FILES = frozenset({FILE_NAME, *LOGS, LOCK_NAME})
MANIFEST_NAME = "manifest.json"
SNAPSHOT_PARTS = frozenset({READERS_NAME, MANIFEST_NAME, "lexical", "spellings", "chroma"})


def list_snapshots(index: Path) -> list[Path]:
    """Return the snapshots in an index's folder."""
    return [folder for folder in sorted(index.glob("snapshot-*")) if _is_snapshot(folder)]


def require_own(index: Path) -> None:
    """Raise UsageError where index.sqlite is another program's: neither its first bytes nor a snapshot are ours."""
    try:
        with FileIO(open_regular(index / FILE_NAME), "r") as file:
            head = file.read(72)
    except OSError as error:
        raise UsageError(f"{index / FILE_NAME} cannot be read: {error.strerror}; name another with --index") from error
    is_own = not head or head[68:] == OWNER.to_bytes(4, "big")  # where SQLite keeps the application_id
    if not is_own and not list_snapshots(index):
        raise UsageError(f"{index / FILE_NAME} belongs to another program; name another folder with --index")


def remove_files(index: Path) -> None:
    """Remove all that is ours from an index's folder, and the folder if nothing else is in it; for the one writer."""
    for folder in list_snapshots(index):
        shutil.rmtree(folder, ignore_errors=True)
    for name in INDEX_FILES:
        if _is_file(index / name):
            (index / name).unlink()
    if not any(index.iterdir()):
        index.rmdir()


def next_snapshot(index: Path) -> int:
    """Return a number above those of all snapshots in a folder, whoever made them."""
    numbers = [path.name.removeprefix("snapshot-") for path in index.glob("snapshot-*")]
    return 1 + max((int(number) for number in numbers if number.isdecimal()), default=0)


def _is_snapshot(folder: Path) -> bool:
    """Return whether this is a folder, not a link, with the readers' lock in it and nothing of another name."""
    if folder.is_symlink() or not folder.is_dir() or not _is_file(folder / READERS_NAME):
        return False
    return all(path.name.partition(".draft-")[0] in SNAPSHOT_PARTS for path in folder.iterdir())


def _is_file(path: Path) -> bool:
    """Return whether this is a regular file, and no link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


MAX_MANIFEST_BYTES = 1_000_000  # some 20 files, a name and two numbers each

# Size in bytes and CRC-32 of each file, by its path in the folder, with `/` on every system.
Checksums = Mapping[str, tuple[int, int]]


def describe_files(folder: Path, files: Iterable[Path]) -> dict[str, tuple[int, int]]:
    """The checksums of some files below a folder, at 2 GB/s."""
    return {file.relative_to(folder).as_posix(): _describe(file) for file in sorted(files)}


def check_names(checksums: Checksums) -> None:
    """ValueError when a manifest names files of other folders."""
    if any(not {"", ".", ".."}.isdisjoint(name.split("/")) for name in checksums):
        raise ValueError("a file of another folder")


def check_sizes(folder: Path, checksums: Checksums) -> None:
    """Looks at every file, without reading it: SnapshotError when one is cut, OSError when one is missing."""
    for name, (size, _) in checksums.items():
        require_regular(folder / name)  # before a library opens it by its name
        if (folder / name).stat().st_size != size:
            raise SnapshotError(f"{folder / name} has not the size that it was written with; index the documents again")


def check_contents(folder: Path, checksums: Checksums) -> None:
    """Reads every file, as a bit that flipped would give wrong answers; SnapshotError when one did."""
    try:
        for name, described in checksums.items():
            if _describe(folder / name) != tuple(described):
                raise SnapshotError(f"{folder / name} is damaged; index the documents again")
    except OSError as error:
        raise SnapshotError(f"{folder} cannot be read ({error.strerror}); index the documents again") from error


def _describe(path: Path) -> tuple[int, int]:
    checksum = 0
    block = memoryview(bytearray(1 << 20))
    with FileIO(open_regular(path), "r") as file:
        while length := file.readinto(block):
            checksum = crc32(block[:length], checksum)
        return file.tell(), checksum
