"""Language models on servers of both kinds: what is asked, and what follows each fault of a stream."""

import json
import re
import time
from dataclasses import replace

import pytest
from pydantic import BaseModel

from retriever.errors import (
    LanguageModelError,
    LanguageModelTimeoutError,
    WrongAnswerError,
)
from retriever.served.generator import Generator
from retriever.served.server import THOUGHT_TOKENS
from retriever.served.task import Task
from retriever.settings import LlmSettings, Profile
from retriever.upkeep import examine_language_model
from tests.real.scripted_server import (
    Asked,
    Fault,
    Model,
    ScriptedServer,
    cut_stream,
    delayed,
    hang_up,
    parts,
    silence,
    status,
    trickle,
    written,
)
from tests.tables import read_table

SECONDS = 0.3
"""The longest wait of the tests that wait for its end."""
SLACK = 5.0
"""Seconds that a shared machine may take besides; a limit that is not kept is exceeded by far more."""


class Answer(BaseModel):
    queries: tuple[str, ...]


TASK = Task(
    instructions="Reword the question.", material="What is a boat?", answer=Answer, max_tokens=100, usual_tokens=33
)
GOOD = {"queries": ["a boat is"], "numbers": [1, 2, 3, 4, 5, 6, 7, 8, 9]}


def answered(asked: Asked) -> object:
    return GOOD


def failure(generator: Generator, task: Task[Answer] = TASK) -> LanguageModelError:
    """The error that a call raises; it must be of this kind, and take no longer than allowed."""
    started = time.monotonic()
    with pytest.raises(LanguageModelError) as caught:
        generator.write(task)
    assert time.monotonic() - started < SLACK
    return caught.value


# What is asked


def test_how_ollama_is_asked(ollama: ScriptedServer) -> None:
    ollama.open(num_ctx=4096).write(replace(TASK, temperature=0.3))
    (asked,) = ollama.asked
    assert asked.body["format"] == Answer.model_json_schema()
    assert asked.body["options"] == {"num_ctx": 4096, "num_predict": 100, "temperature": 0.3, "seed": 7}
    assert (asked.body["think"], asked.body["keep_alive"]) == (False, 600)


def test_how_a_server_with_the_api_of_openai_is_asked(openai: ScriptedServer) -> None:
    openai.open().write(replace(TASK, temperature=0.3))
    (asked,) = openai.asked
    schema = {"name": "answer", "schema": Answer.model_json_schema()}
    assert asked.body["response_format"] == {"type": "json_schema", "json_schema": schema}
    rest = {name: asked.body[name] for name in ("model", "seed", "temperature", "max_tokens")}
    assert rest == {"model": "llama3.2", "seed": 7, "temperature": 0.3, "max_tokens": 100 + THOUGHT_TOKENS}
    assert asked.body["chat_template_kwargs"]["enable_thinking"] is False


def test_a_model_is_looked_up_once(served: ScriptedServer) -> None:
    generator = served.open()
    for _ in range(2):
        generator.write(TASK)
    looks = {"ollama": ["/api/tags", "/api/show"], "openai": ["/v1/models"]}[served.kind]
    assert [path for path in served.paths if "/chat" not in path] == looks


# What goes wrong

STRANGE = "speaks otherwise than (Ollama|OpenAI-compatible server)"
AGAIN = "wrote until it was stopped.*, and so it did when asked again"
FAULTS: dict[str, tuple[Fault, type[LanguageModelError], str, int]] = {
    "cut stream": (cut_stream(), LanguageModelError, "ended its answer in the middle", 1),
    "error in the middle": (parts({"error": "the runner has died"}), LanguageModelError, "runner has died", 1),
    "a part is half": (parts(b'{"message": {"role"'), WrongAnswerError, STRANGE, 1),
    "200 KB part": (parts(b" " * 200_000), WrongAnswerError, STRANGE, 1),
    "a loop": (written("no, " * 100, reason="length"), WrongAnswerError, AGAIN, 2),
    "unloaded": (written('{"queries": ["x', reason="unload"), LanguageModelError, r"in the middle \(unload\)", 1),
    "wrong shape": (written('{"passages": []}'), WrongAnswerError, "a wrong shape.* when asked again", 2),
    "only thoughts": (written("", thinking="Hm. What is a boat?"), WrongAnswerError, "wrote no JSON object", 2),
    "endless thoughts": (written("", thinking="Hm.", reason="length"), LanguageModelError, "thought aloud until", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_has_its_error_and_is_tried_again_only_where_that_may_help(
    served: ScriptedServer, name: str
) -> None:
    fault, kind, message, tries = FAULTS[name]
    served.once.extend([fault, fault, fault])
    error = failure(served.open())
    assert isinstance(error, kind)
    assert len(str(error)) < 600
    assert re.search(message, str(error))
    assert len(served.asked) == tries


@pytest.mark.parametrize("faults", [[delayed(2 * SECONDS, "no")] * 2, [hang_up(), silence()]], ids=["wrong", "broken"])
def test_all_tries_share_the_time(served: ScriptedServer, faults: list[Fault], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.served.generator.LOAD_S", 0.01)
    served.once.extend(faults)
    generator = served.open(seconds=3 * SECONDS)
    generator.look_up()
    error = failure(generator)
    assert type(error) is LanguageModelTimeoutError
    assert len(served.asked) == 2


def test_a_model_that_is_not_loaded_gets_longer_but_not_longer_than_the_task_allows(ollama: ScriptedServer) -> None:
    generator = ollama.open(seconds=SECONDS)
    ollama.once.extend([delayed(3 * SECONDS, GOOD)] * 2)
    assert generator.write(TASK).queries == ("a boat is",)
    assert type(failure(generator)) is LanguageModelTimeoutError, "it is loaded by now"
    ollama.once.append(silence())
    error = failure(ollama.open(), replace(TASK, seconds=SECONDS))
    assert type(error) is LanguageModelTimeoutError
    assert "takes too long" in str(error)


@pytest.mark.parametrize(
    "health", [silence(), trickle(), status(500), status(200, "no"), status(200, "[]"), hang_up()], ids=range(6)
)
def test_a_server_that_cannot_say_what_it_has_is_not_asked(served: ScriptedServer, health: Fault) -> None:
    served.described = dict.fromkeys(["/api/tags", "/v1/models"], health)
    failure(served.open())
    assert not served.asked


def test_a_wrong_answer_is_asked_for_again_with_the_shape_in_words(served: ScriptedServer) -> None:
    served.answer = lambda asked: "\n" * 400 if asked.has_schema else GOOD
    task = replace(TASK, example='{"queries": ["what a ship is"]}')
    assert served.open().write(task).queries == ("a boat is",)
    first, second = served.asked
    assert first.instructions == TASK.instructions
    assert second.instructions.startswith(TASK.instructions)
    assert '"queries"' in second.instructions
    assert "what a ship is" in second.instructions
    assert first.material == second.material


@pytest.mark.parametrize(("wrong", "times"), [("\n" * 400, 4), ("no", 5)])
def test_that_a_model_loops_under_a_schema_is_remembered(served: ScriptedServer, wrong: str, times: int) -> None:
    served.reads, served.writes = 200.0, 40.0
    served.open().write(replace(TASK, material="What is a boat? " * 50))
    served.answer = lambda asked: wrong if asked.has_schema else GOOD
    for _ in range(2):  # a new process, say
        assert served.open().write(TASK).queries == ("a boat is",)
    assert len(served.asked) == times


# Which model, and how much it reads


@pytest.mark.parametrize(
    ("name", "listed", "asked"),
    [
        ({"model": "small"}, ["models/small", "large"], "models/small"),
        ({}, ["/models/the-only-one.gguf"], "/models/the-only-one.gguf"),
    ],
    ids=["the end of a name", "none"],
)
def test_a_model_is_named_as_the_server_lists_it(
    openai: ScriptedServer, name: dict[str, str], listed: list[str], asked: str
) -> None:
    openai.listed = [{"id": model} for model in listed]
    openai.open(**name).write(TASK)
    assert openai.asked[0].model == asked


def test_a_model_that_is_not_there_is_an_error_that_names_those_that_are(served: ScriptedServer) -> None:
    served.listed = [{"id": "models/small"}, {"id": "large"}]
    said = str(failure(served.open(model="qwen3:8b")))
    help_of = {
        "ollama": "run: ollama pull qwen3:8b (it has llama3.2:latest, nomic-",
        "openai": "it has models/small, large",
    }
    assert help_of[served.kind] in said
    assert not served.asked


def test_material_that_fills_the_room_fits_the_window_and_more_is_refused(served: ScriptedServer) -> None:
    served.models["llama3.2:latest"] = Model(context_length=4096)
    served.listed = [{"id": "llama3.2", "max_model_len": 4096}]
    generator = served.open(num_ctx=8192)
    room = generator.room(replace(TASK, material=""))
    generator.write(replace(TASK, material="x" * room))
    (asked,) = served.asked
    assert asked.prompt_tokens + asked.num_predict < 4096
    assert room > 3000
    for material in ("x" * (room + 3), "船" * room):
        with pytest.raises(LanguageModelError, match=r"llm\.num_ctx"):
            generator.write(replace(TASK, material=material))
    assert len(served.asked) == 1
    assert generator.room(replace(TASK, material="x" * 20_000)) < 0


def test_a_prompt_that_the_server_cut_is_not_answered(served: ScriptedServer) -> None:
    last = {"message": {"role": "assistant", "content": '{"queries": ["x"]}'}, "done": True, "done_reason": "stop"}
    choices = [{"delta": {"content": '{"queries": ["x"]}'}, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 8192, "completion_tokens": 9}
    served.once.append(parts({**last, "prompt_eval_count": 8192, "choices": choices, "usage": usage}))
    error = failure(served.open())
    assert type(error) is LanguageModelError
    assert "first 8192 tokens" in str(error)


@pytest.mark.parametrize(
    ("listed", "path", "described", "window"), read_table("models", "The window that a server says")
)
def test_the_window_is_what_the_server_says_else_the_usual_one(
    openai: ScriptedServer, listed: str, path: str, described: str, window: int
) -> None:
    openai.listed = [{"id": "llama3.2", "object": "model", **json.loads(listed)}]
    openai.described = {path: json.loads(described)}
    room = openai.open().room(replace(TASK, instructions="", material=""))
    assert room == (min(int(window * 0.75), window - 100 - THOUGHT_TOKENS) - 256) * 3


# What models and servers do in their own ways


def test_a_server_that_refuses_fields_is_asked_with_the_standard_ones_alone(openai: ScriptedServer) -> None:
    refusal = status(400, {"error": {"message": "Unrecognized request argument supplied: seed"}})
    openai.once.append(refusal)
    assert openai.open().write(TASK).queries == ("a boat is",)
    first, last = openai.asked
    assert first.body.keys() - last.body.keys() == {"chat_template_kwargs", "seed", "temperature", "max_tokens"}
    assert last.has_schema
    assert last.num_predict == 100 + THOUGHT_TOKENS
    openai.once.extend([refusal] * 2)
    assert "status 400: Unrecognized request argument supplied: seed" in str(failure(openai.open()))


CUTS = {
    "a text": ('{"queries": ["a boat is", "where are bo', ["a boat is"]),
    "a list": ('{"queries": ["a boat is", "a ship is"', ["a boat is", "a ship is"]),
    "a loop": ('{"queries": ["a boat is", "' + "and so on, " * 50, ["a boat is"]),
}


@pytest.mark.parametrize("name", CUTS)
def test_what_is_whole_of_a_cut_answer_is_kept(served: ScriptedServer, name: str) -> None:
    text, queries = CUTS[name]
    served.once.append(written(text, reason="length"))
    assert served.open().write(TASK).queries == tuple(queries)
    assert len(served.asked) == 1


def test_a_cut_answer_teaches_the_speed(served: ScriptedServer) -> None:
    served.reads, served.writes = 200.0, 40.0
    served.once.append(written('{"queries": ["a boat is", "where', reason="length"))
    generator = served.open()
    generator.write(replace(TASK, material="What is a boat? " * 50))
    assert generator.speed


@pytest.mark.parametrize(("name", "told"), [("thinker:8b", False), ("gpt-oss:20b", "low")])
def test_a_model_is_told_to_think_the_least(ollama: ScriptedServer, name: str, told: bool | str) -> None:
    """gpt-oss can be told levels alone, and writes nothing under a schema."""
    ollama.models[name] = Model(("completion", "tools", "thinking"), 4096)
    assert ollama.open(model=name).write(TASK).queries == ("a boat is",)
    (asked,) = ollama.asked
    assert (asked.body["think"], asked.has_schema) == (told, not told)
    assert asked.num_predict == TASK.max_tokens + (THOUGHT_TOKENS if told else 0)


# The check


def test_the_check_measures_by_the_clock_where_the_server_says_nothing(openai: ScriptedServer) -> None:
    found = {item.name: item.says for item in examine_language_model(Profile(llm=LlmSettings(url=openai.url)))}
    assert "tokens a second read" in found["answer"]


def test_a_key_that_a_server_repeats_in_the_middle_is_not_printed(
    openai: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    openai.once.append(parts({"error": {"message": "bad sk-secret"}}))
    assert "bad (the key)" in str(failure(openai.open()))
