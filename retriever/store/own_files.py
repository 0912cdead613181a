"""The files in an index's folder: which are ours, who writes, which snapshots are read, and whether they are whole.

An index may be kept in any folder, beside files of its user: nothing else is ever removed or overwritten. A snapshot is
known by its name and by what is in it; whatever is a link, has another name, or holds something of another name stays
where it is. Locks die with the process that held them.
"""

import json
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path
from typing import Self

from pageindex.corpus import open_regular, read_file
from retriever.errors import IndexLockedError, SnapshotError, StorageError, UsageError
from retriever.files import make_private_folder, writing_to
from retriever.store.database import FILE_NAME, OWNER

LOCK_NAME = "writer.lock"
READERS_NAME = "readers.lock"
LOGS = tuple(f"{FILE_NAME}{ending}" for ending in ("-wal", "-shm", "-journal"))
INDEX_FILES = frozenset({FILE_NAME, *LOGS, LOCK_NAME})
MANIFEST_NAME = "manifest.json"
MAX_MANIFEST_BYTES = 1_000_000  # some 20 files, a name and a number each
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


# Locks.


@contextmanager
def writer_lock(index: Path, wait_s: float) -> Iterator[None]:
    """Only one process writes to an index, whose folder is made."""
    from filelock import FileLock, Timeout  # 40 ms: only who writes needs it

    lock = FileLock(index / LOCK_NAME, mode=0o600)
    try:
        make_private_folder(index)
        with suppress(FileNotFoundError):
            if (index / LOCK_NAME).stat().st_size:  # it empties what it opens, and ours is empty
                raise OSError(0, f"{LOCK_NAME} is to be removed: it holds something else")
        lock.acquire(timeout=wait_s)
    except Timeout as error:
        raise IndexLockedError(
            f"another process is writing to the index {index}; try again when it has finished"
        ) from error
    except OSError as error:
        hint = f"remove {index / LOCK_NAME}, or name another index with --index"
        raise StorageError(f"the index {index} cannot be written: {error.strerror}", hint=hint) from error
    try:
        yield
    finally:
        lock.release()


def share_snapshot(snapshot: Path) -> FileIO:
    """Marks a snapshot as being read until the file is closed; FileNotFoundError when it is gone."""
    file = FileIO(open_regular(snapshot / READERS_NAME), "r")
    if not _flock(file, shared=True):
        file.close()
        raise FileNotFoundError(snapshot)
    return file


def is_read(snapshot: Path) -> bool:
    try:
        with FileIO(open_regular(snapshot / READERS_NAME), "r") as file:
            return not _flock(file, shared=False)
    except OSError:
        return False


def _flock(file: FileIO, *, shared: bool) -> bool:
    """Takes the lock if it is free. Windows has no flock, and does not remove what is open."""
    try:
        import fcntl
    except ModuleNotFoundError:
        return True
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a derived folder holds, and the sizes of the files in its parts: written last, when it is whole."""

    snapshot: str  # of vectors: the manifest hash of the snapshot whose chunks these are
    fingerprint: str  # of the encoder; empty without vectors
    count: int  # how many sections or vectors
    dimension: int = 0  # the length of a vector
    files: dict[str, int] = field(default_factory=dict)  # sizes in bytes, by path in the folder

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest; SnapshotError when it is damaged, or missing because the folder was not finished."""
        try:
            values = json.loads(read_file(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES))
            return cls(**values | {"files": dict(values["files"])})
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise SnapshotError(f"{folder}: not a whole folder; index the documents again") from error

    def write(self, folder: Path) -> None:
        """Write the manifest of the files as they are."""
        with writing_to(folder):
            found = sorted(file for part in folder.iterdir() if part.is_dir() for file in part.iterdir())
            sizes = {file.relative_to(folder).as_posix(): file.stat().st_size for file in found}
            (folder / MANIFEST_NAME).write_text(json.dumps(asdict(self) | {"files": sizes}), encoding="utf-8")

    def check(self, folder: Path) -> None:
        """Raise SnapshotError where a file is missing or cut, before a library reads it."""
        for name, size in self.files.items():
            if not {"", ".", ".."}.isdisjoint(name.split("/")):
                raise SnapshotError(f"{folder} names a file of another folder; index the documents again")
            try:
                found = (folder / name).stat().st_size
            except OSError as error:
                reason = f"cannot be read ({error.strerror})"
                raise SnapshotError(f"{folder / name} {reason}; index the documents again") from error
            if found != size:
                raise SnapshotError(f"{folder / name} has not the size that it had; index the documents again")
