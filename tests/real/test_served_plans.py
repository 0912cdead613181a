"""Requests to slow models and to those with a small context, planned by what their servers say."""

import time
from pathlib import Path

import pytest
from pydantic import BaseModel

from retriever.api import open_retriever
from retriever.errors import LanguageModelTimeoutError
from retriever.served.task import SPEEDS, Speed, Task
from retriever.types import Answer
from tests.program import Cli
from tests.real.conftest import SHIPS_QUESTION as QUESTION
from tests.real.scripted_server import Asked, Model, ScriptedServer, help_and_reverse
from tests.shelf import Shelf
from tests.tables import read_table


class Written(BaseModel):
    numbers: list[int]


TASK = Task("Write numbers.", "Text of some length. " * 60, Written, 64, 20)
NUMBERS = {"numbers": list(range(1, 20))}


def answered(asked: Asked) -> object:
    return NUMBERS if "numbers" in asked.properties else help_and_reverse(asked)


def ask(ships: Shelf, server: ScriptedServer, profile: str = "full") -> Answer:
    settings = {
        "llm": {"url": server.url},
        "hyde": "always" if profile == "full" else "auto",
        "rerank": {"kind": "llm"},
    }
    with open_retriever((), ships.index, profile, settings, encoder=ships.encoder) as retriever:
        return retriever.search(QUESTION)


def test_the_newest_speed_counts(ollama: ScriptedServer) -> None:
    generator = ollama.open()
    for ollama.reads in (60.0, 160.0):
        ollama.writes = 12.0
        generator.write(TASK)
    assert generator.speed
    assert generator.speed.reads == pytest.approx(160)


def test_after_an_hour_a_slow_model_is_tried_again() -> None:
    assert Speed(60, 30, measured_at=time.time() - 3000).current == Speed(60, 30)
    assert Speed(60, 30, measured_at=time.time() - 4000).current == Speed(150, 30)


def test_a_loaded_model_that_does_not_begin_in_time_is_known_to_be_slow(openai: ScriptedServer) -> None:
    openai.listed = [{"id": "llama3.2", "meta": {"size": 9}}]
    openai.described["/props"] = {"chat_template": "message", "default_generation_settings": {"n_ctx": 4096}}
    openai.answer, openai.waits, openai.reads, openai.writes = answered, True, 1.0, 1.0
    generator = openai.open(seconds=1)
    with pytest.raises(LanguageModelTimeoutError):
        generator.write(TASK)
    assert generator.speed
    assert generator.speed.reads < 200, "half of the 360 tokens, in a second"


@pytest.mark.parametrize("content", ["[]", "no JSON", '{"URL llama3.2": [0, "x"]}', '{"x": 5}'])
def test_a_damaged_file_says_nothing_of_speeds(ollama: ScriptedServer, tmp_path: Path, content: str) -> None:
    SPEEDS.write(f"{ollama.url} llama3.2", Speed(60, 12))
    (file,) = (tmp_path / "cache").rglob(SPEEDS.name)
    file.write_text(content.replace("URL", ollama.url))
    assert ollama.open().speed is None


@pytest.mark.parametrize(
    ("reads", "writes", "most_s", "passages", "least"), read_table("models", "What a model has time for")
)
def test_a_stage_asks_for_what_the_model_can_do(
    ships: Shelf, ollama: ScriptedServer, reads: float, writes: float, most_s: float, passages: int, least: int
) -> None:
    """The time is what the server would take by its own speed: by its tokens, which are shorter than most models'."""
    SPEEDS.write(f"{ollama.url} llama3.2", Speed(reads, writes))
    ollama.reads, ollama.writes = reads, writes
    answer = ask(ships, ollama)
    assert answer.degraded == ()
    expansion, rerank = ollama.asked
    assert f"{passages} passages" in expansion.instructions
    assert least <= len(rerank.candidates) <= 30
    seconds = sum(asked.prompt_tokens for asked in ollama.asked) / reads + (3 * 22 + 30 + 4 * least) / writes
    assert seconds <= most_s
    if least < 30:
        assert f"{len(rerank.candidates)} candidates" in [stage.note for stage in answer.trace.stages]
        assert len(answer.trace.order) == 30, "the others stay behind them"


def test_a_slow_model_finishes_whether_its_headers_come_late_or_early(ships: Shelf, served: ScriptedServer) -> None:
    """It is planned at 150 tokens a second read and 20 written, and runs 20 times as fast."""
    SPEEDS.write(f"{served.url} llama3.2", Speed(150.0, 20.0))
    served.waits, served.reads, served.writes = True, 150.0 * 20, 20.0 * 20
    answer = ask(ships, served)
    assert answer.degraded == ()
    assert {hit.scale for hit in answer.hits} == {"reranked"}


def test_stages_without_the_time_for_their_least_task_are_left_out(ships: Shelf, ollama: ScriptedServer) -> None:
    SPEEDS.write(f"{ollama.url} llama3.2", Speed(60, 12))
    said = "llama3.2 could not finish in 8 s at 60 tokens a second read, 12 written: give it longer (llm.seconds)"
    assert [*map(str, ask(ships, ollama).degraded)] == [f"expand: {said}", f"rerank: {said}"]
    assert not ollama.asked


@pytest.mark.parametrize("profile", ["precision", "full"])
@pytest.mark.parametrize("length", [32_768, 4096, 2048])
def test_every_context_window_holds_candidates(ships: Shelf, ollama: ScriptedServer, profile: str, length: int) -> None:
    ollama.models["llama3.2:latest"] = Model(context_length=length)
    SPEEDS.write(f"{ollama.url} llama3.2", Speed(1e5, 1e5))  # time is no reason to ask for less
    answer = ask(ships, ollama, profile)
    assert answer.degraded == ()
    reranks = [asked for asked in ollama.asked if "best_first" in asked.properties]
    assert {hit.scale for hit in answer.hits} == {"reranked"}
    assert all(asked.prompt_tokens + asked.num_predict <= length for asked in ollama.asked)
    if length == 32_768:
        assert [len(asked.candidates) for asked in reranks] == [30]
    assert all(len(asked.candidates) >= 6 for asked in reranks)


def test_doctor_tries_the_language_model_and_measures_its_speed(ollama: ScriptedServer, cli: Cli) -> None:
    ollama.reads, ollama.writes = 150.0, 20.0
    asked = ("doctor", "--llm", "--profile", "full", "--llm-url", ollama.url)
    assert "150 tokens a second read, 20 written" in cli(*asked).out
    assert "PROBLEM  model" in cli(*asked, "--llm-model", "mistral", code=1).out
    assert "are for --llm" in cli("doctor", "--profile", "full", code=2).err


@pytest.fixture
def slot(openai: ScriptedServer) -> ScriptedServer:
    """llama.cpp's server with a model that does not think, and a window of 2,048 tokens."""
    openai.listed = [{"id": "llama3.2", "meta": {"n_params": 1_500_000_000, "size": 9}}]
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    openai.described["/props"] = {"chat_template": template, "default_generation_settings": {"n_ctx": 2048}}
    SPEEDS.write(f"{openai.url} llama3.2", Speed(1e5, 1e5))
    return openai


def test_a_slot_of_2048_tokens_holds_both_tasks(ships: Shelf, slot: ScriptedServer) -> None:
    assert ask(ships, slot).degraded == ()
    assert all(asked.prompt_tokens + asked.num_predict <= 2048 for asked in slot.asked)
    assert slot.open().look_up().weights == "1500000000 9"


def test_a_slot_that_is_too_small_for_thoughts_is_named(ships: Shelf, slot: ScriptedServer) -> None:
    slot.described["/props"] |= {"chat_template": "<think>"}
    said = "llama3.2 reads 2,048 with its answer: raise llm.num_ctx; llama-server gives each of its -np"
    assert {said in str(reason) for reason in ask(ships, slot).degraded} == {True}
