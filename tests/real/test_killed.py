"""Commands are killed at any moment: nothing is lost, nothing is computed twice, and no answer is of half a state.

The trials are those of benchmarks/faults.py, which runs more of them.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SEED = 2


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.skipif(sys.platform != "linux", reason="it forks")
@pytest.mark.parametrize(
    ("scenarios", "number"), [("", 20), ("first indexing,repairing", 12)], ids=["all", "first indexing, repairing"]
)
def test_a_killed_command_costs_nothing_but_time(
    scenarios: str, number: int, record_property: Callable[[str, object], None]
) -> None:
    command = [sys.executable, str(PROJECT / "benchmarks" / "faults.py"), "--kinds", "kill", "--json"]
    finished = subprocess.run(
        [*command, "--scenarios", scenarios, "--trials", str(number), "--seed", str(SEED)],
        capture_output=True,
        text=True,
        check=False,
    )
    record_property("seed", SEED)
    assert finished.stderr == ""
    trials = [json.loads(line) for line in finished.stdout.splitlines()]
    assert len(trials) >= number
    assert len({trial["what"] for trial in trials}) == (2 if scenarios else 8)
    assert [trial for trial in trials if trial["wrong"]] == []
