"""The worst cases of benchmarks/hostile.py, much smaller: every stage takes each of them without an error.

The benchmark prints their times; a step that is not linear shows in its column of ratios.
"""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "hostile.py"
STAGES = {"read", "chunk", "front matter", "words", "ignore", "show", "web page"}


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_every_stage_takes_its_worst_cases() -> None:
    command = [sys.executable, str(BENCHMARK), "--scale", "0.002"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert {row[0] for row in rows} == STAGES
    assert len(rows) > 120
