"""The disk fails, the files are damaged, many read while one writes: an error that says what to do, and nothing lost.

The trials are those of benchmarks/faults.py, which runs more of them.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retriever.errors import StorageError
from retriever.vectors.chroma import run_in_time
from tests.faulty_disk import NoCompilerError, built
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found, same_hits

PROJECT = Path(__file__).parents[2]
SEED = 5
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="it forks, and counts what Linux's C library does")


@pytest.fixture
def trials(record_property: Callable[[str, object], None]) -> Callable[[str, int], list[dict[str, object]]]:
    """Runs so many trials of a kind; what each of them was."""

    def run(kind: str, number: int) -> list[dict[str, object]]:
        command = [sys.executable, str(PROJECT / "benchmarks" / "faults.py"), "--kinds", kind, "--json"]
        finished = subprocess.run(
            [*command, "--trials", str(number), "--seed", str(SEED)], capture_output=True, text=True, check=False
        )
        record_property("seed", SEED)
        assert finished.stderr == ""
        return [json.loads(line) for line in finished.stdout.splitlines()]

    return run


@pytest.fixture
def may_mount(tmp_path: Path) -> bool:
    if sys.platform != "linux":
        return False
    from tests.small_disk import NoMountError, small_disk

    try:
        with small_disk(tmp_path / "tried"):
            return True
    except NoMountError:
        return False


@LINUX
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("kind", "number"), [("fault", 18), ("space", 4), ("limit", 4), ("damage", 18), ("bits", 8), ("readers", 8)]
)
def test_nothing_is_lost(
    trials: Callable[[str, int], list[dict[str, object]]], kind: str, number: int, *, may_mount: bool
) -> None:
    if kind == "fault" and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("there is no C compiler to build the faulty disk with")
    if kind == "space" and not may_mount:
        pytest.skip("this user may not mount a small file system")
    done = trials(kind, number)
    assert len(done) == (1 if kind == "readers" else number)
    assert [trial for trial in done if trial["wrong"]] == []


@LINUX
def test_the_faulty_disk_fails_where_it_is_told(tmp_path: Path) -> None:
    try:
        library = built(tmp_path)
    except NoCompilerError as error:
        pytest.skip(str(error))
    script = """
import errno, os, sys
from pathlib import Path
from tests.trials import Faults
faults, folder = Faults(sys.argv[1]), Path(sys.argv[2])
folder.mkdir()
faults.arm(folder, 0)
(folder / "a").write_bytes(b"1")
(folder / "a").replace(folder / "b")
(folder.parent / "elsewhere").write_bytes(b"1")
total = faults.counted()
seen = []
for operation in range(1, total + 2):
    faults.arm(folder, operation, errno.EIO)
    try:
        (folder / "a").write_bytes(b"1")
        (folder / "a").replace(folder / "b")
        seen.append("well")
    except OSError as error:
        seen.append(errno.errorcode[error.errno])
print(total, *seen)
"""
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-c", script, str(library), str(tmp_path / "disk")]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.stderr == ""
    assert finished.stdout == "3 EIO EIO EIO well\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a file system of so many kilobytes."""
    mounted = []

    def mount(kilobytes: int) -> Path:
        place = tmp_path / f"disk-{kilobytes}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
        if sys.platform != "linux" or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("this user may not mount a small file system")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_is_an_error_and_no_damage(tmp_path: Path, small_disk: Callable[[int], Path]) -> None:
    """Sizes from far too small to enough for an index and its next snapshot; then what was in the way goes."""
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    truth = [found(shelf.ask(question, **NEVER_REFRESH)) for question in QUESTIONS]
    succeeded = 0
    for kilobytes in (100, 400, 1000, 3000, 5000, 8000):
        shelf.index = small_disk(kilobytes) / "index"
        with contextlib.suppress(StorageError):
            shelf.update()
            succeeded += 1
        subprocess.run(["mount", "-o", "remount,size=20m", shelf.index.parent], check=True)
        shelf.update()
        answers = [shelf.ask(question, **NEVER_REFRESH) for question in QUESTIONS]
        assert all(same_hits(found(answer), true) for answer, true in zip(answers, truth, strict=True))
        assert [answer.degraded for answer in answers] == [()] * len(QUESTIONS)
    assert 0 < succeeded < 6


def test_a_write_that_hangs_is_given_up(tmp_path: Path) -> None:
    for_ever = threading.Event()
    with pytest.raises(StorageError, match=r"ChromaDB did not finish within 0.05 s.*free some space"):
        run_in_time(0.05, tmp_path, for_ever.wait)
    assert run_in_time(5.0, tmp_path, lambda: 7) == 7
    with pytest.raises(KeyError):
        run_in_time(5.0, tmp_path, lambda: dict[int, int]()[1])
    for_ever.set()
