"""The way of a question: few calls to `search`, and none from there back to what has called it."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import hybrid_retrieve
from tests.program import PROJECT

MOST_CALLS = 7
SEARCH = str(PROJECT / "retriever/search.py")
STAGES = ("search", "searching", "models", "expansion", "rerank", "places", "lexical", "store")
"""Modules and packages of `retriever`."""


class Profiler:
    """Follows the calls of one question."""

    def __init__(self) -> None:
        self.way: list[str] = []  # from search to the program's own main
        self.back: set[str] = set()  # calls below search into a stage that waits for the one that calls
        self._stages: list[str] = []  # that wait for one another, each with those that it called

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        name, caller = frame.f_code.co_name, frame.f_back
        if event == "return" and self._stages:
            self._stages.pop()
        elif event == "call" and (self._stages or (frame.f_code.co_filename, name) == (SEARCH, "search")):
            stage = find_stage(frame) or self._stages[-1]
            if not name.startswith("<") and stage in self._stages and stage != self._stages[-1]:
                self.back.add(f"{self._stages[-1]} -> {stage}: {name}")
            while not self._stages and caller and "main" not in self.way:
                self.way.append(caller.f_code.co_name)
                caller = caller.f_back
            self._stages.append(self._stages[-1] if name.startswith("<") else stage)


def find_stage(frame: FrameType) -> str:
    """The module of a stage; empty for any other."""
    path = Path(frame.f_code.co_filename)
    is_stage = path.parent.name in STAGES or path.stem in STAGES
    return path.stem if is_stage and path.is_relative_to(PROJECT / "retriever") else ""


@pytest.fixture
def follow(larder: Path) -> Callable[[str], Profiler]:
    def ask(question: str) -> Profiler:
        profiler = Profiler()
        sys.setprofile(profiler)
        try:
            hybrid_retrieve.main(["ask", question, "--index", str(larder)])
        finally:
            sys.setprofile(None)
        return profiler

    return ask


def test_a_question_is_seven_calls_from_the_program_to_search(follow: Callable[[str], Profiler]) -> None:
    way = follow("how long is a snapshot kept?").way
    assert way[-1] == "main"
    assert len(way) < MOST_CALLS, way


@pytest.mark.parametrize(
    "question", ["how long is a snapshot kept?", 'in:index.md "larder" -"shelf"', "snapshots", "snapshto rentention"]
)
def test_no_stage_of_a_search_calls_back(follow: Callable[[str], Profiler], question: str) -> None:
    assert follow(question).back == set()
