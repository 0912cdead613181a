"""A disk that is too small: a file system of so many bytes, and a limit for the size of a file."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _pytest.outcomes import Skipped  # what pytest.skip raises

from tests.trials import Ended, Stage, aftermath, ended, in_a_child, put_back, stored

ROOMY = 256_000_000
"""Bytes: more than any command needs."""


class NoMountError(Skipped):
    """This user may not mount a file system; a test that raises it is skipped."""

    def __init__(self) -> None:
        super().__init__("this user may not mount a file system")


@contextmanager
def small_disk(place: Path, room: int = ROOMY) -> Iterator[Path]:
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


def resize(disk: Path, room: int = ROOMY) -> None:
    _mount("-o", f"remount,size={room}", disk)


def _mount(*arguments: str | Path) -> None:
    if sys.platform != "linux" or subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode:
        raise NoMountError


def on_small_disk(stage: Stage, disk: Path, room: int) -> list[str]:
    """Leaves the command so many bytes; what is wrong when it has ended, and when there is room again."""
    put_back(stage)
    at_first = stored(stage.shelf)
    resize(disk, shutil.disk_usage(disk).used + room)
    outcome = ended(*in_a_child(lambda: stage.scenario.act(stage.shelf) and None))
    resize(disk)
    return _refused(outcome) + aftermath(stage, len(stored(stage.shelf) - at_first))


def with_short_files(stage: Stage, most: int) -> list[str]:
    """Lets no file of the command grow beyond so many bytes; what is wrong then, and without the limit."""
    put_back(stage)
    at_first = stored(stage.shelf)

    def act() -> None:
        import resource  # Windows has none

        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        stage.scenario.act(stage.shelf)

    outcome = ended(*in_a_child(act))
    return _refused(outcome) + aftermath(stage, len(stored(stage.shelf) - at_first))


def _refused(outcome: Ended) -> list[str]:
    """A disk that takes no more is an error of ours that names it, or nothing at all."""
    names_it = outcome.error.startswith("StorageError: ") or "disk I/O error" in outcome.error  # SQLite's, for a limit
    expected = not outcome.wrong and (names_it or not outcome.error)
    return [] if expected else [f"it ended with {outcome.error or outcome.wrong}"]
