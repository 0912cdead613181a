"""A question with a budget: what cannot finish is skipped and named, and the answer is the one without it."""

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from retriever.errors import LanguageModelTimeoutError, OutOfTimeError, ProfileError
from retriever.query import AskRequest, Expansion
from retriever.settings.duration import parse_duration
from retriever.settings.layers import load_profile
from retriever.trace import EXPECTED_SECONDS, RETRY_SECONDS, Deadline, StageTimes
from retriever.types import Stage, StageName
from tests.program import Cli
from tests.real.scripted_server import HELPFUL, QUESTION, ScriptedServer, delayed, help_and_reverse, silence
from tests.real.served import indexed
from tests.shelf import PAGES, Shelf, found

pytestmark = pytest.mark.shared_index

answered = help_and_reverse
ALWAYS = {"use_llm": True, "hyde": {"gate": "always", "cache_entries": 0}}


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def with_model(ollama: ScriptedServer, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever the profile holds
    return {**ALWAYS, "llm": {"url": ollama.url}, "rerank": {"kind": "llm"}, **more}


@pytest.mark.parametrize(
    ("text", "seconds"), [("800ms", 0.8), ("2s", 2.0), ("1.5s", 1.5), (" 20 ms ", 0.02), ("3600s", 3600)]
)
def test_a_time_has_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)
    assert load_profile(flags={"budget": text}, environment={}).budget == text


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("800", "must have a unit: 800ms or 800s"), (800, "must have a unit: 800ms or 800s"),
        (1.5, "must have a unit: 1.5ms or 1.5s"), ("0ms", "more than 0"), ("2h", "such as 800ms or 2s"),
        ("-2s", "such as 800ms or 2s"), ("4000s", "at most 3600s"), ("\u0662s", "such as 800ms or 2s"),
        (None, "such as 800ms or 2s"), (True, "such as 800ms or 2s"), ([], "such as 800ms or 2s"),
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused_with_the_reason(given: object, reason: str) -> None:
    with pytest.raises(ProfileError, match="budget") as caught:
        load_profile(flags={"budget": given}, environment={})
    assert reason in str(caught.value)


def test_the_flag_and_the_variable(shelf: Shelf, cli: Cli) -> None:
    index = ["--index", str(shelf.index), "--encoder-kind", "none"]
    assert "must have a unit: 800ms or 800s" in cli("ask", QUESTION, "--budget", "800", *index, code=2).err
    cli("ask", QUESTION, "--budget", "20s", *index)
    assert load_profile(environment={"HYBRID_RETRIEVE_BUDGET": "2s"}).budget == "2s"
    with pytest.raises(ProfileError, match="must have a unit"):
        load_profile(environment={"HYBRID_RETRIEVE_BUDGET": "2"})


def test_without_a_budget_nothing_is_limited() -> None:
    assert Deadline().seconds_for(StageName.EXPAND, needs=1e9) is None


REQUIRED = (StageName.EMBED, StageName.SEMANTIC, StageName.KEYWORD, StageName.NEIGHBORS, StageName.FUSE, StageName.HITS)


def test_a_stage_has_what_is_left_but_for_those_that_always_run() -> None:
    clock = Clock()
    deadline = Deadline(5.0, StageTimes(), clock, clock.now)
    always = sum(EXPECTED_SECONDS[stage] for stage in REQUIRED)
    assert deadline.seconds_for(StageName.EXPAND) == pytest.approx(5.0 - always)
    clock.now += 2
    assert deadline.seconds_for(StageName.RERANK) == pytest.approx(3.0 - EXPECTED_SECONDS[StageName.HITS])
    with pytest.raises(
        OutOfTimeError, match="skipped, 3,000 ms of the budget of 5,000 ms were left, and 10,020 ms are"
    ):
        deadline.seconds_for(StageName.RERANK, needs=10.0)
    clock.now += 2.99
    with pytest.raises(OutOfTimeError, match="skipped, 10 ms of the budget of 5,000 ms were left"):
        deadline.seconds_for(StageName.RERANK)
    clock.now += 1
    with pytest.raises(OutOfTimeError, match="skipped, the budget is used up"):
        deadline.seconds_for(StageName.RERANK)


def test_a_stage_is_expected_to_take_what_it_took_last() -> None:
    times = StageTimes()
    times.record(
        [
            Stage("semantic", 400.0, ""),
            Stage("token_match", 0.1, "skipped", skipped=True),
            Stage("expand", 9000.0, ""),
            Stage("own", 1, ""),
        ]
    )
    expected = [
        times.expected(stage, now=0.0) for stage in (StageName.SEMANTIC, StageName.TOKEN_MATCH, StageName.EXPAND)
    ]
    assert expected == [0.4, EXPECTED_SECONDS[StageName.TOKEN_MATCH], 0.0]
    times.record([Stage("semantic", 5.0, "")])
    assert times.expected(StageName.SEMANTIC, now=0.0) == 0.005


def test_a_model_that_had_too_little_is_not_asked_so_again_for_a_minute() -> None:
    clock = Clock()
    deadline = Deadline(5.0, StageTimes(), clock, clock.now)
    with pytest.raises(LanguageModelTimeoutError), deadline.allow(StageName.RERANK):
        raise LanguageModelTimeoutError("late")
    with pytest.raises(OutOfTimeError, match="needed"):
        deadline.seconds_for(StageName.RERANK)
    assert Deadline(9.0, deadline.times, clock, clock.now).seconds_for(StageName.RERANK) == pytest.approx(8.98)
    clock.now += RETRY_SECONDS + 1
    assert Deadline(5.0, deadline.times, clock, clock.now).seconds_for(StageName.RERANK) == pytest.approx(4.98)


def ask(
    shelf: Shelf, wishes: Mapping[str, Any], clock: Callable[[], float], expansion: Expansion | None = None
) -> tuple[list[tuple[str, float]], tuple[str, ...]]:
    with shelf.open(**wishes) as retriever:
        retriever.clock = clock
        answer = retriever.search(AskRequest(QUESTION, expansion=expansion))
    return found(answer), tuple(map(str, answer.degraded))


def test_what_has_no_time_is_skipped_and_the_answer_is_the_one_without_it(
    shelf: Shelf, ollama: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = found(shelf.ask(QUESTION))
    monkeypatch.setitem(EXPECTED_SECONDS, StageName.SEMANTIC, 100.0)
    hits, degraded = ask(shelf, with_model(ollama, budget="60s"), Clock())
    assert hits != plain, "the reranking had time: what follows it takes little"
    assert [item.partition(",")[0] for item in degraded] == ["expand: skipped"]
    assert "60,000 ms of the budget of 60,000 ms were left, and 100,200 ms are needed" in degraded[0]
    assert [asked.properties for asked in ollama.asked] == [{"best_first"}]

    hits, degraded = ask(shelf, with_model(ollama, budget="10ms"), Clock())
    assert hits == plain
    assert [item.partition(",")[0] for item in degraded] == ["expand: skipped", "rerank: skipped"]
    assert len(ollama.asked) == 1


def test_late_interaction_is_skipped_in_the_same_way(tmp_path: Path, cli: Cli) -> None:
    """With the bundled model, whose stage it is."""
    index = indexed(tmp_path, PAGES)
    asked = ["ask", "tomatoes in a wet summer", "--index", str(index), "--json"]
    without = json.loads(cli(*asked, "--token-match-weight", "0").out)
    hurried = json.loads(cli(*asked, "--budget", "1ms").out)
    hits, others = ([(hit["node_id"], hit["score"]) for hit in found["hits"]] for found in (hurried, without))
    assert hits == others
    assert (hurried["degraded"], without["degraded"]) == (["token_match: skipped, the budget is used up"], [])


def test_a_model_is_left_when_the_time_is_over(shelf: Shelf, ollama: ScriptedServer) -> None:
    """The model never answers, its own limits are longer, and what each stage has is known: this clock stands still."""
    ollama.answer = lambda asked: silence()
    hits, degraded = ask(shelf, with_model(ollama, budget="1500ms"), Clock())
    assert hits == found(shelf.ask(QUESTION))
    stages = [item.partition(":")[0] for item in degraded]
    assert stages == ["expand", "rerank"]
    assert "did not finish in the 0.4 s" in degraded[0]
    assert "did not finish in the 1.5 s" in degraded[1]


def test_a_model_that_is_not_loaded_says_how_to_load_it(shelf: Shelf, ollama: ScriptedServer) -> None:
    ollama.loaded.clear()
    ollama.answer = lambda asked: delayed(30, HELPFUL)
    _, degraded = ask(shelf, with_model(ollama, budget="3s", rerank={"kind": "none"}), Clock())
    (sentence,) = degraded
    assert sentence.startswith("expand: llama3.2 was not loaded in the 1.9 s")
    assert sentence.endswith("`ollama run llama3.2` loads it")


def test_a_remembered_expansion_needs_no_time(shelf: Shelf, ollama: ScriptedServer) -> None:
    clock = Clock()
    with shelf.open(**with_model(ollama, budget="60s", rerank={"kind": "none"}, hyde={"gate": "always"})) as retriever:
        retriever.clock = clock
        first = retriever.search(QUESTION)
        retriever.clock = itertools.count(step=100).__next__
        second = retriever.search(QUESTION)
    assert first.degraded == second.degraded == ()
    assert found(first) == found(second)
    assert len(ollama.asked) == 1
