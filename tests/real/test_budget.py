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


def with_model(ollama: ScriptedServer, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever the profile holds
    return {**ALWAYS, "llm": {"url": ollama.url}, "rerank": {"kind": "llm"}, **more}


def seconds_left(stage: StageName, elapsed: float) -> float:
    return Deadline(5.0, lambda: elapsed).seconds_for(stage)


def test_a_stage_has_what_is_left_but_for_those_that_always_run() -> None:
    assert seconds_left(StageName.EXPAND, 0.0) == pytest.approx(4.75)
    assert seconds_left(StageName.RERANK, 2.0) == pytest.approx(2.98)
    for elapsed, left in ((4.99, 10), (6.0, 0)):
        said = f"skipped, {left} ms of the budget of 5,000 ms were left, and 20 ms are"
        with pytest.raises(OutOfTimeError, match=said):
            seconds_left(StageName.RERANK, elapsed)


def ask(shelf: Shelf, wishes: Mapping[str, Any]) -> tuple[list[tuple[str, float]], tuple[str, ...]]:
    with shelf.open(**wishes) as retriever:
        retriever.clock = lambda: 100.0  # it stands still
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
