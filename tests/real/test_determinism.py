"""The same question, index and profile give the same bytes, in any process and on any number of threads."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from retriever.display.as_json import answer_object
from retriever.library import index_folders, open_retriever
from retriever.timing import Spent

PROJECT = Path(__file__).parents[2]
LARDER = PROJECT / "tests" / "eval_corpus" / "larder"
QUESTIONS = ("how long are snapshots kept?", "the store is full, what now", "catch_up", "banana bread")
TIMES = ("timings_ms", "milliseconds")
"""Keys whose values are measured times."""


def without_times(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def answers(index: Path, profile: str = "balanced", **settings: object) -> list[str]:
    """The JSON of every question, with all that can be said of an answer."""
    with open_retriever(index=index, profile=profile, settings=settings) as retriever:
        found = [retriever.search(question) for question in QUESTIONS]
    objects = [answer_object(answer, Spent(0.0, 0.0), full=True, explain=True) for answer in found]
    return [json.dumps(without_times(item)) for item in objects]


def answers_elsewhere(index: Path, seed: int, threads: int) -> list[str]:
    """As `answers`, in a process of its own."""
    program = (
        "import json, pathlib; from tests.real.test_determinism import answers;"
        f"print(json.dumps(answers(pathlib.Path({str(index)!r}))))"
    )
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(seed),
        "PYTHONPATH": str(PROJECT),
        "HYBRID_RETRIEVE_ENCODER_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
    }
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=index)
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("determinism") / "index"
    index_folders([LARDER], place)
    return place


def test_every_process_gives_the_same_bytes(index: Path) -> None:
    here = answers(index)
    assert answers_elsewhere(index, 0, 1) == here
    assert answers_elsewhere(index, 4321, 4) == here


@pytest.mark.parametrize(
    ("profile", "settings"),
    [
        ("balanced", {}),
        ("balanced", {"vector_search": "chroma"}),
        ("balanced", {"fusion": {"method": "convex"}, "neighbors": "merged"}),
    ],
    ids=["balanced", "chroma", "convex"],
)
def test_a_question_asked_again_gives_the_same_bytes(index: Path, profile: str, settings: dict[str, Any]) -> None:
    assert answers(index, profile, **settings) == answers(index, profile, **settings)


def test_an_index_made_in_another_order_finds_the_same(index: Path, tmp_path: Path) -> None:
    """Its keys are others: what is shown of it, and in which order, is not."""
    other = tmp_path / "index"
    docs = tmp_path / "docs"
    docs.mkdir()
    files = sorted(LARDER.iterdir())
    random.Random(5).shuffle(files)
    for some in (files[:5], files[5:]):
        for file in some:
            (docs / file.name).write_bytes(file.read_bytes())
        index_folders([docs], other)
    for one, two in zip(answers(index), answers(other), strict=True):
        assert _found(one) == _found(two)


def _found(answer: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in hit.items() if key != "folder"} for hit in json.loads(answer)["hits"]]
