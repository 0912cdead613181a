"""The same question, index and profile give the same bytes, in any process and on any number of threads."""

import json
import os
from pathlib import Path
from typing import Any

from retriever.api import open_retriever
from retriever.display.json import dump_answer
from retriever.trace import Spent
from tests.program import PROJECT, run_python

QUESTIONS = ("how long are snapshots kept?", "the store is full, what now", "catch_up", "banana bread")
TIMES = ("timings_ms", "milliseconds")
"""Keys whose values are measured times."""


def without_times(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def answers(index: Path) -> list[str]:
    """The JSON of every question, with all that can be said of an answer."""
    with open_retriever(index=index) as retriever:
        found = [retriever.search(question) for question in QUESTIONS]
    objects = [dump_answer(answer, Spent(0.0, 0.0), full=True, explain=True) for answer in found]
    return [json.dumps(without_times(item)) for item in objects]


def answers_elsewhere(index: Path) -> list[str]:
    """Those of a process with other hashes of strings, on one thread."""
    program = (
        "import json, pathlib; from tests.real.test_determinism import answers;"
        f"print(json.dumps(answers(pathlib.Path({str(index)!r}))))"
    )
    numbers = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    variables = {"PYTHONHASHSEED": "4321", "PYTHONPATH": str(PROJECT), **dict.fromkeys(numbers, "1")}
    done = run_python(program, cwd=index, env=os.environ | variables)
    found: list[str] = json.loads(done.stdout)
    return found


def test_every_process_gives_the_same_bytes(larder: Path) -> None:
    assert answers_elsewhere(larder) == answers(larder)
