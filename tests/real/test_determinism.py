"""The same question, index and profile give the same bytes, in any process and on any number of threads."""

import os
import re
from pathlib import Path

from tests.program import PROJECT, Cli, run_all

TIMES = re.compile(r'(?<="milliseconds": )[\d.]+|(?<="timings_ms": ){.*?}')
ELSEWHERE = {"PYTHONHASHSEED": "4321", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""A process with other hashes of strings, on one thread."""


def test_every_process_gives_the_same_bytes(larder: Path, cli: Cli) -> None:
    questions = ("catch_up: how long are snapshots kept?", "banana bread")
    lines = [("ask", question, "--index", str(larder), "--json", "--full", "--explain") for question in questions]
    there = run_all(*lines, cwd=PROJECT, env=os.environ | ELSEWHERE).stdout
    assert TIMES.sub("", there) == TIMES.sub("", "".join(cli(*line).out for line in lines))
