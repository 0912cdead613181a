"""The disk fails, the files are damaged, many read while one writes: an error that says what to do, and nothing lost.

The trials are those of benchmarks/faults.py, which runs more of them.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

import pytest

from tests.faulty_disk import built
from tests.program import PROJECT, run_command, run_python
from tests.small_disk import small_disk

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="it forks, and counts what Linux's C library does")


def trials(kind: str, number: int, *more: str) -> list[dict[str, object]]:
    """Runs so many trials of a kind; what each of them was."""
    command = [sys.executable, str(PROJECT / "benchmarks" / "faults.py"), "--kinds", kind, "--json"]
    finished = run_command([*command, "--trials", str(number), *more])
    assert finished.stderr == ""
    return [json.loads(line) for line in finished.stdout.splitlines()]


@pytest.mark.slow
@LINUX
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("kind", "number"), [("fault", 18), ("space", 4), ("limit", 4), ("damage", 18), ("bits", 8), ("readers", 8)]
)
def test_nothing_is_lost(tmp_path: Path, kind: str, number: int) -> None:
    if kind == "fault":
        built(tmp_path)  # or it is skipped
    with small_disk(tmp_path / "tried") if kind == "space" else contextlib.nullcontext():
        pass
    done = trials(kind, number, "--seed", "5")
    assert len(done) == (1 if kind == "readers" else number)
    assert [trial for trial in done if trial["wrong"]] == []


@LINUX
def test_the_faulty_disk_fails_where_it_is_told(tmp_path: Path) -> None:
    library = built(tmp_path)
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
    finished = run_python(script, library, tmp_path / "disk", env=environment)
    assert finished.stderr == ""
    assert finished.stdout == "3 EIO EIO EIO well\n"


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.skipif(sys.platform != "linux", reason="it forks")
@pytest.mark.parametrize(
    ("scenarios", "number"), [("", 20), ("first indexing,repairing", 12)], ids=["all", "first indexing, repairing"]
)
def test_a_killed_command_costs_nothing_but_time(scenarios: str, number: int) -> None:
    done = trials("kill", number, "--scenarios", scenarios, "--seed", "2")
    assert len(done) >= number
    assert len({trial["what"] for trial in done}) == (2 if scenarios else 8)
    assert [trial for trial in done if trial["wrong"]] == []
