"""Processes are killed, and many read while one writes: nothing is lost.

The trials are those of benchmarks/faults.py, which runs more of them.
"""

import json
import sys

import pytest

from tests.program import PROJECT, run_command
from tests.scenarios import SCENARIOS

pytestmark = pytest.mark.timeout(240)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="it forks")


def trials(kind: str, number: int, *more: str) -> list[dict[str, object]]:
    """Runs so many trials of a kind; what each of them was."""
    command = [sys.executable, str(PROJECT / "benchmarks/faults.py"), "--kinds", kind, "--json"]
    finished = run_command([*command, "--trials", str(number), *more])
    assert finished.stderr == ""
    return [json.loads(line) for line in finished.stdout.splitlines()]


@pytest.mark.slow
@LINUX
def test_readers_see_a_state_that_was_in_force() -> None:
    (done,) = trials("readers", 8, "--seed", "5")
    assert done["wrong"] == []


@pytest.mark.slow
@LINUX
@pytest.mark.parametrize(
    ("scenarios", "number"), [("", 20), ("first indexing,repairing", 12)], ids=["all", "first indexing, repairing"]
)
def test_a_killed_command_costs_nothing_but_time(scenarios: str, number: int) -> None:
    done = trials("kill", number, "--scenarios", scenarios, "--seed", "2")
    assert len(done) >= number
    assert len({trial["what"] for trial in done}) == (2 if scenarios else len(SCENARIOS))
    assert [trial for trial in done if trial["wrong"]] == []
