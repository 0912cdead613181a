"""Who may write to an index, and which snapshots are being read. Locks die with the process that held them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from pageindex.corpus import open_regular, require_regular
from retriever.errors import IndexLockedError, StorageError
from retriever.files import make_private_folder

LOCK_NAME = "writer.lock"
READERS_NAME = "readers.lock"


@contextmanager
def writer_lock(index: Path, wait_s: float) -> Iterator[None]:
    """Only one process writes to an index, whose folder is made."""
    from filelock import FileLock, Timeout  # 40 ms: only who writes needs it

    lock = FileLock(index / LOCK_NAME, mode=0o600)
    try:
        make_private_folder(index)
        with suppress(FileNotFoundError):
            require_regular(index / LOCK_NAME)  # a pipe would block filelock
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
