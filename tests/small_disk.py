"""A disk that is too small, or read-only."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _pytest.outcomes import Skipped  # what pytest.skip raises


class NoMountError(Skipped):
    """This user may not mount a file system; a test that raises it is skipped."""

    def __init__(self) -> None:
        super().__init__("this user may not mount a file system")


@contextmanager
def small_disk(place: Path, room: int) -> Iterator[Path]:
    """A file system in memory, of so many bytes.

    Raises:
        NoMountError: it cannot be mounted.
    """
    place.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={room}", "tmpfs", place)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder mounted over itself, read-only.

    Raises:
        NoMountError: it cannot be mounted.
    """
    _mount("--bind", folder, folder)
    try:
        _mount("-o", "remount,bind,ro", folder)
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def _mount(*arguments: str | Path) -> None:
    if sys.platform != "linux" or subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode:
        raise NoMountError
