"""The same question, index and profile give the same bytes, in any process and on any number of threads."""

import os
import re
from pathlib import Path

import pytest

from tests.program import Cli, command, run_command

TIMES = re.compile(r'(?<="milliseconds": )[\d.]+|(?<="timings_ms": ){.*?}')
ELSEWHERE = {"PYTHONHASHSEED": "4321", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""A process with other hashes of strings, on one thread."""


@pytest.mark.parametrize("question", ["catch_up: how long are snapshots kept?", "banana bread"])
def test_every_process_gives_the_same_bytes(larder: Path, cli: Cli, question: str) -> None:
    asked = ("ask", question, "--index", larder, "--json", "--full", "--explain")
    there = run_command(command(*asked), env=os.environ | ELSEWHERE).stdout
    assert TIMES.sub("", there) == TIMES.sub("", cli(*asked).out)
