"""A question with a budget: what cannot finish is skipped and named, and the answer is the one without it."""

from collections.abc import Mapping
from typing import Any

import pytest

from retriever.errors import OutOfTimeError
from retriever.trace import Deadline
from retriever.types import StageName
from tests.real.scripted_server import QUESTION, ScriptedServer, help_and_reverse, silence
from tests.shelf import Shelf, found

pytestmark = pytest.mark.shared_index

answered = help_and_reverse
ALWAYS = {"use_llm": True, "hyde": "always"}


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def with_model(ollama: ScriptedServer, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever the profile holds
    return {**ALWAYS, "llm": {"url": ollama.url}, "rerank": {"kind": "llm"}, **more}


def test_a_stage_has_what_is_left_but_for_those_that_always_run() -> None:
    clock = Clock()
    deadline = Deadline(5.0, clock, clock.now)
    assert deadline.seconds_for(StageName.EXPAND) == pytest.approx(4.75)
    clock.now += 2
    assert deadline.seconds_for(StageName.RERANK) == pytest.approx(2.98)
    clock.now += 2.99
    with pytest.raises(OutOfTimeError, match="skipped, 10 ms of the budget of 5,000 ms were left, and 20 ms are"):
        deadline.seconds_for(StageName.RERANK)
    clock.now += 1
    with pytest.raises(OutOfTimeError, match="skipped, 0 ms of the budget"):
        deadline.seconds_for(StageName.RERANK)


def ask(shelf: Shelf, wishes: Mapping[str, Any]) -> tuple[list[tuple[str, float]], tuple[str, ...]]:
    with shelf.open(**wishes) as retriever:
        retriever.clock = Clock()
        answer = retriever.search(QUESTION)
    return found(answer), tuple(map(str, answer.degraded))


def test_a_stage_that_has_no_time_is_skipped_alone(shelf: Shelf, ollama: ScriptedServer) -> None:
    _, degraded = ask(shelf, with_model(ollama, budget=0.2))
    assert degraded == ("expand: skipped, 200 ms of the budget of 200 ms were left, and 250 ms are needed",)
    assert [asked.properties for asked in ollama.asked] == [{"best_first"}]


def test_an_answer_without_time_for_a_model_is_the_one_without_it(shelf: Shelf, ollama: ScriptedServer) -> None:
    hits, degraded = ask(shelf, with_model(ollama, budget=0.01))
    assert hits == found(shelf.ask(QUESTION))
    assert [item.partition(",")[0] for item in degraded] == ["expand: skipped", "rerank: skipped"]
    assert ollama.asked == []


def test_a_model_is_left_when_the_time_is_over(shelf: Shelf, ollama: ScriptedServer) -> None:
    """The model never answers, its own limits are longer, and what each stage has is known: this clock stands still."""
    ollama.answer = lambda asked: silence()
    hits, degraded = ask(shelf, with_model(ollama, budget=1.5))
    assert hits == found(shelf.ask(QUESTION))
    assert len(degraded) == 2
    assert all("takes too long" in item for item in degraded)
