"""Models that think: told to think as little as the server says they can, and read wherever they write their answer."""

import json
from dataclasses import replace

import pytest

from retriever.errors import CutAnswerError, WrongAnswerError
from retriever.llm import open_generator
from retriever.llm.check import check_llm
from retriever.llm.generator import ServedGenerator
from retriever.llm.server import THOUGHT_TOKENS
from retriever.settings.schema import LlmSettings
from tests.real.llm_task import TASK
from tests.real.scripted_ollama import Asked, Model, ScriptedOllama, status, written

THINKS = ("completion", "tools", "thinking")


GOOD = json.dumps({"queries": ["a boat is"]})


def answered(asked: Asked) -> object:
    return GOOD


def opened(ollama: ScriptedOllama, name: str, model: Model) -> ServedGenerator:
    ollama.models[name] = model
    ollama.loaded.add(name)
    return open_generator(LlmSettings(model=name, url=ollama.url))


def gpt_oss(asked: Asked) -> object:
    """As it is: empty under a schema, whatever its level; it refuses to be told not to think."""
    if asked.body.get("think") not in {"low", "medium", "high"}:
        return status(400, {"error": f'think value "{asked.body.get("think")}" is not supported for this model'})
    if asked.body.get("format"):
        return written("", thinking="A boat. They want JSON.")
    return written(f"Here it is: {GOOD}", thinking="A boat. They want JSON.")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (None, False),
        ((False, True), False),
        ((True, False), False),
        (("low", "medium", "high"), "low"),
        (("high", "medium", "minimal"), "minimal"),
        (("deep",), "deep"),
        ((True,), True),
    ],
    ids=str,
)
def test_a_model_is_told_the_least(
    ollama: ScriptedOllama, values: tuple[bool | str, ...] | None, told: bool | str
) -> None:
    generator = opened(ollama, "thinker:8b", Model(THINKS, thinking=values))
    assert generator.write(TASK).queries == ("a boat is",)
    (asked,) = ollama.asked
    assert asked.body["think"] == told
    assert asked.num_predict == TASK.max_tokens + (THOUGHT_TOKENS if told else 0)


def test_gpt_oss_is_known_by_name_to_an_older_server(ollama: ScriptedOllama) -> None:
    ollama.answer = gpt_oss
    assert opened(ollama, "gpt-oss:20b", Model(THINKS)).write(TASK).queries == ("a boat is",)
    assert {asked.body["think"] for asked in ollama.asked} == {"low"}


def test_what_is_empty_under_a_schema_is_asked_for_without_one_and_so_are_the_tasks_that_follow(
    ollama: ScriptedOllama,
) -> None:
    ollama.answer = gpt_oss
    generator = opened(ollama, "gpt-oss:20b", Model(THINKS, thinking=("low", "medium", "high")))
    assert generator.write(TASK).queries == ("a boat is",)
    assert generator.write(TASK).queries == ("a boat is",)
    assert ["format" in asked.body and bool(asked.body["format"]) for asked in ollama.asked] == [True, False, False]
    assert all('"queries"' in asked.instructions for asked in ollama.asked[1:]), "the schema stands in the words"
    assert (
        generator.server.manner == "it cannot be told not to think (think: low), it writes JSON only without a schema"
    )


def test_a_level_that_is_refused_is_left_out(ollama: ScriptedOllama) -> None:
    refusal = status(400, {"error": 'think value "low" is not supported for this model'})
    ollama.answer = lambda asked: refusal if asked.body.get("think") else GOOD
    assert opened(ollama, "gpt-oss:20b", Model(THINKS)).write(TASK).queries == ("a boat is",)
    assert [asked.body.get("think") for asked in ollama.asked] == ["low", None]


def test_a_model_that_never_writes_is_named_and_asked_with_a_schema_the_next_time(ollama: ScriptedOllama) -> None:
    ollama.answer = lambda asked: written("", thinking="Hm. What is a boat?")
    generator = opened(ollama, "qwen3:8b", Model(THINKS, thinking=(False, True)))
    with pytest.raises(WrongAnswerError, match="wrote no JSON object, and so it did when asked again"):
        generator.write(TASK)
    ollama.answer = answered
    generator.write(TASK)
    assert [bool(asked.body.get("format")) for asked in ollama.asked] == [True, False, True]


def test_thoughts_that_take_all_the_tokens_are_said_to(ollama: ScriptedOllama) -> None:
    ollama.answer = lambda asked: written("", thinking="Hm. " * 50, reason="length")
    generator = opened(ollama, "deepseek-r1:8b", Model(THINKS))
    with pytest.raises(CutAnswerError, match="thought aloud until it was stopped"):
        generator.write(TASK)


def test_room_is_kept_for_thoughts(ollama: ScriptedOllama) -> None:
    plain = opened(ollama, "qwen3:8b", Model(THINKS, thinking=(False, True), context_length=4096))
    thinks = opened(ollama, "gpt-oss:20b", Model(THINKS, thinking=("low",), context_length=4096))
    assert thinks.room("x", 1000) < plain.room("x", 1000)
    thinks.write(replace(TASK, material="x" * thinks.room(TASK.instructions, TASK.max_tokens)))


def test_the_check_says_which_it_was(ollama: ScriptedOllama) -> None:
    def reply(asked: Asked) -> object:
        ready = written('{"ready": "yes"}', thinking="Yes.")
        return written("", thinking="Yes.") if asked.body.get("format") else ready

    ollama.answer = reply
    ollama.models["gpt-oss:20b"] = Model(THINKS, thinking=("low", "medium", "high"))
    answer = check_llm(LlmSettings(model="gpt-oss:20b", url=ollama.url))[-1]
    assert answer.is_well
    assert "think: low), it writes JSON only without a schema" in answer.says
