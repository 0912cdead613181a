"""Turns what the disk refuses into one error that says what to do; files and folders for this user alone."""

import errno
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from platformdirs import user_cache_path

from retriever.errors import StorageError, UsageError

# numpy reports a short write as an OSError without a number: the disk took no more.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, None})
_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """The OSError of a write below `folder` becomes a StorageError that says what to do about it."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            advice = "the disk is full; free some space, or keep the index on another disk (--index)"
        else:
            cure = "change its permissions" if error.errno in _FORBIDDEN else "check the disk"
            reason = error.strerror or error
            advice = f"cannot be written ({reason}); {cure}, or keep the index elsewhere (--index)"
        raise StorageError(f"{folder}: {advice}") from error


def make_private_folder(folder: Path) -> None:
    """Makes a folder, and those above it that are missing, for this user alone, whatever the umask."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)  # an error when it is a file


def find_cache_file(name: str) -> Path | None:
    """The program's file or folder of this name in the user's cache folder; None for a user without one."""
    try:
        folder = user_cache_path("hybrid-retrieve", appauthor=False)
    except RuntimeError:
        return None
    return folder / name if folder.is_absolute() else None


def absolute(path: str | Path) -> Path:
    """The path without `~`, links and `..`. Raises UsageError when it is no path."""
    try:
        own = Path(path)  # a file may be called `~.md`
        return (own.expanduser() if own.parts[:1] == ("~",) else own).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{str(path)!r} is no folder: {error}") from error


def is_folder(path: str | Path) -> bool:
    """Whether a folder is there that this user may look at."""
    return os.path.isdir(path)  # noqa: PTH112 - Path's raises where a folder above may not be entered


def measure_folder(folder: Path) -> int:
    """Bytes of all files in it."""
    size = 0
    for place, _, names in os.walk(folder):  # which passes over folders that a writer removes meanwhile: rglob does not
        for name in names:
            with suppress(FileNotFoundError):
                size += Path(place, name).stat().st_size
    return size


def check_new(path: Path) -> None:
    """Raise UsageError where something has the name of a file that is to be written: it is not ours."""
    if os.path.lexists(path):
        raise UsageError(f"{path} is there already; remove it, or name another file")


def write_file(path: Path, text: str) -> None:
    """Write a small file for this user alone, whole or not at all; a link under its name is replaced, not followed."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        draft = Path(file.name)
        try:
            file.write(text)
            file.flush()
            draft.replace(path)
        except BaseException:
            draft.unlink()
            raise


def sync(path: Path) -> None:
    """Brings a file, or the names in a folder, to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows syncs folders by itself
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# What is closed at the end of a `with` block.


class Closing(ABC):
    """A context manager that closes itself."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of what is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
