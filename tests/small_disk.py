"""A disk that is too small: a file system of so many bytes, and a limit for the size of a file."""

import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.trials import Ended, Stage, aftermath, ended, in_a_child, put_back, stored

ROOMY = 256_000_000
"""Bytes: more than any command needs."""


class NoMountError(Exception):
    """This user may not mount a file system."""


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system in memory, with room at first.

    Raises:
        NoMountError: it cannot be mounted.
    """
    place.mkdir(parents=True)
    if not _mounted("-t", "tmpfs", "-o", f"size={ROOMY}", "tmpfs", str(place)):
        raise NoMountError("this user may not mount a small file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def _mounted(*arguments: str) -> bool:
    return not subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode


def on_small_disk(stage: Stage, disk: Path, room: int) -> list[str]:
    """Leaves the command so many bytes; what is wrong when it has ended, and when there is room again."""
    put_back(stage)
    at_first = stored(stage.shelf)
    _resize(disk, shutil.disk_usage(disk).used + room)
    outcome = ended(*in_a_child(lambda: stage.scenario.act(stage.shelf) and None))
    _resize(disk, ROOMY)
    return _refused(outcome) + aftermath(stage, len(stored(stage.shelf) - at_first))


def _resize(disk: Path, size: int) -> None:
    assert _mounted("-o", f"remount,size={size}", str(disk)), disk


def with_short_files(stage: Stage, most: int) -> list[str]:
    """Lets no file of the command grow beyond so many bytes; what is wrong then, and without the limit."""
    put_back(stage)
    at_first = stored(stage.shelf)

    def act() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        stage.scenario.act(stage.shelf)

    outcome = ended(*in_a_child(act))
    return _refused(outcome) + aftermath(stage, len(stored(stage.shelf) - at_first))


def _refused(outcome: Ended) -> list[str]:
    """A disk that takes no more is an error of ours that names it, or nothing at all."""
    names_it = outcome.error.startswith("StorageError: ") or "disk I/O error" in outcome.error  # SQLite's, for a limit
    expected = not outcome.wrong and (names_it or not outcome.error)
    return [] if expected else [f"it ended with {outcome.error or outcome.wrong}"]
