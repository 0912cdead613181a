"""Files on disk: what it refuses becomes one error that says what to do; which files of an index's folder are ours.

Files and folders are made for this user alone. An index may be kept in any folder, beside files of its user: nothing
else is ever removed or overwritten. ChromaDB's folder is known by its name and by what is in it; whatever is a link,
has another name, or holds something of another name stays where it is. Locks die with the process that held them.
"""

import os
import shutil
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Self

from platformdirs import user_cache_path

from pageindex.corpus import open_regular
from retriever.errors import IndexLockedError, StorageError, UsageError


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn the OSError of a write below `folder` into a StorageError that says what to do about it."""
    try:
        yield
    except OSError as error:
        hint = "free some space, change its permissions, or keep the index elsewhere (--index)"
        raise StorageError(f"{folder}: cannot be written ({error.strerror or error})", hint=hint) from error


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone, whatever the umask.

    >>> with tempfile.TemporaryDirectory() as place:
    ...     make_private_folder(Path(place, "notes/idx"))
    ...     [oct(folder.stat().st_mode & 0o777) for folder in sorted(Path(place).rglob("*"))]
    ['0o700', '0o700']
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)  # an error when it is a file


def find_cache_file(name: str) -> Path | None:
    """Return the path of this name in the program's folder of the user's cache; None for a user without one."""
    try:
        folder = user_cache_path("hybrid-retrieve", appauthor=False)
    except RuntimeError:
        return None
    return folder / name if folder.is_absolute() else None


def absolute(path: str | Path) -> Path:
    """Return the path without `~`, links and `..`. Raises UsageError when it is no path.

    >>> absolute("notes/../tea") == Path.cwd() / "tea", absolute("~/tea") == Path.home() / "tea"
    (True, True)
    >>> absolute("~.md") == Path.cwd() / "~.md"
    True
    """
    try:
        own = Path(path)  # a file may be called `~.md`
        return (own.expanduser() if own.parts[:1] == ("~",) else own).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{str(path)!r} is no folder: {error}") from error


def is_folder(path: str | Path) -> bool:
    """Return whether a folder is there that this user may look at."""
    return os.path.isdir(path)  # noqa: PTH112 - Path's raises where a folder above may not be entered


def measure_folder(folder: Path) -> int:
    """Return the bytes of all files in a folder and below."""
    size = 0
    for place, _, names in os.walk(folder):  # which passes over folders that a writer removes meanwhile: rglob does not
        for name in names:
            with suppress(FileNotFoundError):
                size += Path(place, name).stat().st_size
    return size


def write_file(path: Path, text: str) -> None:
    """Write a small file for this user alone, whole or not at all; a link under its name is replaced, not followed.

    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = Path(place, "note.json")
    ...     file.symlink_to("elsewhere.json")
    ...     write_file(file, "{}")
    ...     file.read_text(), oct(file.lstat().st_mode), measure_folder(Path(place))
    ('{}', '0o100600', 2)
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        draft = Path(folder, path.name)
        draft.touch(0o600)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)


# What is closed at the end of a `with` block.


class Closing(ABC):
    """A context manager that closes itself."""

    @abstractmethod
    def close(self) -> None:
        """Release what is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# The files of an index.

FILE_NAME = "index.sqlite"
OWNER = 0x48524958  # SQLite's application_id of index.sqlite: others are not replaced
LOCK_NAME = "writer.lock"
LOGS = tuple(f"{FILE_NAME}{ending}" for ending in ("-wal", "-shm", "-journal"))
UUID_LENGTH = 36  # of the names that ChromaDB gives


def locate_chroma(index: Path, name: str) -> Path:
    """Return ChromaDB's folder of a state, whose name has 16 hexadecimal digits."""
    return index / f"chroma-{name}"


def list_chroma(index: Path) -> list[Path]:
    """Return ChromaDB's folders, and drafts of some, in an index's folder: no links, nothing of another name in them.

    A copy that somebody made has another name.
    """
    name = locate_chroma(index, "[0-9a-f]" * 16).name
    found = [folder for ending in ("", ".draft") for folder in index.glob(name + ending)]
    return [
        folder
        for folder in found
        if folder.is_dir()
        and not folder.is_symlink()
        and all(path.name.startswith("chroma.sqlite3") or len(path.name) == UUID_LENGTH for path in folder.iterdir())
    ]


def require_own(index: Path) -> None:
    """Raise UsageError where index.sqlite is another program's: neither its first bytes nor a ChromaDB are ours."""
    try:
        with FileIO(open_regular(index / FILE_NAME), "r") as file:
            head = file.read(72)
    except OSError as error:
        raise UsageError(f"{index / FILE_NAME} cannot be read: {error.strerror}; name another with --index") from error
    is_own = not head or head[68:] == OWNER.to_bytes(4, "big")  # where SQLite keeps the application_id
    if not is_own and not list_chroma(index):
        raise UsageError(f"{index / FILE_NAME} belongs to another program; name another folder with --index")


def remove_files(index: Path) -> None:
    """Remove all that is ours from an index's folder, and the folder if nothing else is in it; for the one writer."""
    for folder in list_chroma(index):
        shutil.rmtree(folder, ignore_errors=True)
    for name in (FILE_NAME, *LOGS, LOCK_NAME):
        if (index / name).is_file() and not (index / name).is_symlink():
            (index / name).unlink()
    if not any(index.iterdir()):
        index.rmdir()


# The lock.


@contextmanager
def writer_lock(index: Path, wait_s: float) -> Iterator[None]:
    """Let only one process write to an index, whose folder is made; IndexLockedError after `wait_s` seconds."""
    from filelock import FileLock, Timeout  # 40 ms: only a writer needs it

    path = index / LOCK_NAME
    lock = FileLock(path, mode=0o600)
    with writing_to(index):
        make_private_folder(index)
        with suppress(FileNotFoundError):
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_size:  # ours is an empty file
                hint = "remove it, or name another index with --index"
                raise StorageError(f"{path} is not this program's", hint=hint)
        try:
            lock.acquire(timeout=wait_s)
        except Timeout as error:
            raise IndexLockedError(
                f"another process is writing to the index {index}; try again when it has finished"
            ) from error
    try:
        yield
    finally:
        lock.release()
