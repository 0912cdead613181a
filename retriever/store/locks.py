"""Who may write to an index, and which snapshots are being read. Locks die with the process that held them."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from pageindex.corpus import open_regular, read_file, require_regular
from retriever.errors import IndexLockedError, StorageError
from retriever.files import make_private_folder

LOCK_NAME = "writer.lock"
HOLDER_NAME = "writer.pid"
READERS_NAME = "readers.lock"
MAX_HOLDER_BYTES = 100


@contextmanager
def writer_lock(index: Path, wait_s: float) -> Iterator[bool]:
    """Only one process writes to an index, whose folder is made; yields whether it had to wait for another one."""
    from filelock import FileLock, Timeout  # 40 ms: only who writes needs it

    lock, waited = FileLock(index / LOCK_NAME, mode=0o600), False
    try:
        make_private_folder(index)
        _require_own(index)  # a pipe would block filelock, and it empties what it opens
        try:
            lock.acquire(timeout=0)
        except Timeout:
            waited = True
            lock.acquire(timeout=wait_s)
        with FileIO(open_regular(index / HOLDER_NAME, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), "w") as file:
            file.write(str(os.getpid()).encode("ascii"))
    except Timeout as error:
        raise IndexLockedError(
            f"process {_holder(index)} is writing to the index {index}; try again when it has finished"
        ) from error
    except OSError as error:
        lock.release()
        raise _refuse(index, error.strerror) from error
    try:
        # What was seen of the documents before is old by now, if there was another writer to wait for.
        yield waited
    finally:
        lock.release()


def _require_own(index: Path) -> None:
    """Raise StorageError for a lock that somebody else made: ours are empty, or begin with a process's number."""
    for name in (LOCK_NAME, HOLDER_NAME):
        try:
            require_regular(index / name)
            # Read only where it is not empty: Windows lets nobody read a lock that is held.
            content = read_file(index / name, MAX_HOLDER_BYTES) if (index / name).stat().st_size else b""
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _refuse(index, f"{name} is to be removed: {error.strerror}") from error
        # Where the system has no such locks, filelock writes the process's number and more into a file of its own.
        number = content.split(maxsplit=1)[0] if content.strip() and name == LOCK_NAME else content.strip()
        if content and not number.isdigit():
            raise _refuse(index, f"{name} is to be removed: it holds something else")


def _refuse(index: Path, reason: str | None) -> StorageError:
    return StorageError(f"the index {index} cannot be written: {reason}; name another with --index")


def writer_of(index: Path) -> str:
    with contextlib.suppress(OSError), FileIO(open_regular(index / LOCK_NAME), "r") as file:
        return "" if _flock(file, shared=False) else _holder(index)
    return ""


def _holder(index: Path) -> str:
    with contextlib.suppress(OSError):
        return read_file(index / HOLDER_NAME, MAX_HOLDER_BYTES).decode("ascii", "replace").strip() or "?"
    return "?"


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
