"""The generator and the real `openai` client against a scripted server: what is asked, and what follows a failure."""

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import keyring  # noqa: TID253 - no module of the program
import keyring.backend  # noqa: TID253
import pytest

from retriever.errors import (
    CutAnswerError,
    LanguageModelError,
    LanguageModelTimeoutError,
    NoGeneratorError,
    NoModelError,
    TaskTooLongError,
    WrongAnswerError,
)
from retriever.llm import open_generator
from retriever.llm.check import check_llm
from retriever.llm.generator import ServedGenerator
from retriever.settings.schema import LlmSettings
from tests.program import Cli
from tests.real.llm_task import TASK, Answer, failure
from tests.real.scripted_ollama import QUESTION, help_and_reverse
from tests.real.scripted_openai import (
    Fault,
    ScriptedOpenAI,
    closed,
    cut_stream,
    endless,
    hang_up,
    raw_events,
    scripted_openai,
    silence,
    status,
    written,
)

GOOD = {"queries": ["a boat is"], "ready": "yes", "numbers": [1, 2, 3, 4, 5, 6, 7, 8, 9]}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedOpenAI]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    with scripted_openai(lambda asked: GOOD) as script:
        yield script


def settings(server: ScriptedOpenAI, **changes: object) -> LlmSettings:
    return LlmSettings(**{"kind": "openai", "model": "small", "url": server.url, **changes})  # type: ignore[arg-type] # the tests' own names


def opened(server: ScriptedOpenAI, **changes: object) -> ServedGenerator:
    return open_generator(settings(server, **changes))


def test_the_task_is_asked_as_it_should_be(server: ScriptedOpenAI) -> None:
    generator = opened(server)
    assert generator.write(replace(TASK, temperature=0.3)) == Answer(queries=("a boat is",))
    assert server.paths == ["/v1/models", "/v1/chat/completions"]
    (asked,) = server.asked
    assert (asked.instructions, asked.material) == (TASK.instructions, TASK.material)
    assert asked.body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": Answer.model_json_schema()},
    }
    rest = {name: asked.body[name] for name in ("model", "stream", "seed", "temperature", "max_tokens")}
    assert rest == {"model": "small", "stream": True, "seed": 7, "temperature": 0.3, "max_tokens": 100}
    assert asked.body["chat_template_kwargs"]["enable_thinking"] is False
    generator.write(TASK)
    assert server.paths[2:] == ["/v1/chat/completions"], "it is looked at once"


def test_what_is_written_is_given_as_it_comes(server: ScriptedOpenAI) -> None:
    heard: list[str] = []
    opened(server).write(replace(TASK, on_text=heard.append))
    assert len(heard) > 1
    assert all(later.startswith(earlier) for earlier, later in pairwise(heard))
    assert json.loads(heard[-1]) == GOOD


def test_an_address_without_a_path_gets_the_usual_one(server: ScriptedOpenAI) -> None:
    opened(server, url=server.url.removesuffix("/v1")).write(TASK)
    assert server.paths == ["/v1/models", "/v1/chat/completions"]


def test_what_a_server_refuses_is_left_out_once_and_said(
    server: ScriptedOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuses = ("response_format", "chat_template_kwargs", "seed")
    generator = opened(server)
    with caplog.at_level(logging.INFO, "retriever.llm.progress"):
        assert generator.write(TASK).queries == ("a boat is",)
    assert f"{server.url} refuses response_format: asking without" in caplog.text
    assert len(server.asked) == 4
    generator.write(TASK)
    assert len(server.asked) == 5, "remembered"
    assert '"queries"' in server.asked[-1].instructions, "the schema stands in the words"
    said = "the server refuses chat_template_kwargs, response_format, seed: the schema stands in the prompt"
    assert generator.server.manner == said
    assert said in check_llm(settings(server))[-1].says


def test_a_server_that_does_not_say_what_it_refuses_is_asked_without_a_schema(server: ScriptedOpenAI) -> None:
    server.refuses, server.says_nothing = ("response_format",), True
    generator = opened(server)
    assert generator.write(TASK).queries == ("a boat is",)
    assert "response_format" in generator.server.manner
    server.refuses = ("model",)  # it refuses everything
    generator = opened(server)
    error = failure(generator)
    assert "status 400: Bad Request" in str(error)
    assert generator.server.manner == "", "that was not the reason"


def test_newer_models_want_another_name_for_the_most_tokens(server: ScriptedOpenAI) -> None:
    server.refuses = ("max_tokens",)
    assert opened(server).write(TASK).queries == ("a boat is",)
    assert server.asked[-1].body["max_completion_tokens"] == 100


def test_a_model_that_thinks_all_the_same_gets_room_for_it(server: ScriptedOpenAI) -> None:
    server.answer = lambda asked: written('{"queries": ["a boat is"]}', thinking="hm, " * 200)
    generator = opened(server)
    assert generator.write(TASK).queries == ("a boat is",)
    assert [asked.body["max_tokens"] for asked in server.asked] == [100, 1124]
    server.answer = lambda asked: written("", thinking="hm, " * 5000)
    assert "thought aloud" in str(failure(generator))


FAULTS: dict[str, tuple[Fault, type[LanguageModelError], str, int]] = {
    "ends without a reason": (cut_stream(), CutAnswerError, "ended its answer in the middle", 1),
    "nothing": (raw_events(b"data: [DONE]\n\n"), CutAnswerError, "ended its answer in the middle", 1),
    "closed in the middle": (closed(), CutAnswerError, "connection .* broke", 2),
    "hung up": (hang_up(), CutAnswerError, "connection .* broke", 2),
    "too long an answer": (written('{"queries": ["' + "a" * 900), CutAnswerError, "wrote more than it may", 1),
    "filtered": (written("{", reason="content_filter"), CutAnswerError, "content_filter", 1),
    "no JSON in an event": (raw_events(b"data: {]\n\n"), WrongAnswerError, "otherwise than OpenAI's API", 1),
    "wrong types": (
        raw_events(b'data: {"choices": [{"delta": {"content": 7}, "finish_reason": "stop"}]}\n\n'),
        WrongAnswerError,
        "otherwise than OpenAI's API",
        1,
    ),
    "no delta": (raw_events(b'data: {"choices": [{}]}\n\n'), WrongAnswerError, "otherwise", 1),
    "error event": (
        raw_events(b'data: {"error": {"message": "CUDA error", "code": 500}}\n\n'),
        CutAnswerError,
        "in the middle of its answer: CUDA error",
        1,
    ),
    "HTML": (status(200, "<html></html>"), CutAnswerError, "ended its answer in the middle", 1),
    "bad gateway": (status(502, "<html><h1>502</h1></html>"), NoGeneratorError, "is busy", 2),
    "too many requests": (status(429), NoGeneratorError, "is busy .scripted 429.: ask again later", 2),
    "loading": (status(503, {"error": {"message": "Loading model"}}), NoGeneratorError, "Loading model", 2),
    "no such model": (status(404), NoModelError, "see llm.model", 1),
    "no memory": (status(500), LanguageModelError, "failed: status 500: scripted 500", 1),
    "redirect": (status(307, "", location="http://192.0.2.1/v1"), NoGeneratorError, "another address", 1),
    "too long a task": (
        status(400, {"error": {"message": "request (9000 tokens) exceeds the available context size", "n_ctx": 8192}}),
        TaskTooLongError,
        "llm.num_ctx",
        1,
    ),
    "talk": (written("I am sorry."), WrongAnswerError, "no JSON object, and so it did when asked again", 2),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_says_what_it_is(server: ScriptedOpenAI, name: str) -> None:
    fault, kind, message, requests = FAULTS[name]
    server.answer = lambda asked: fault
    error = failure(opened(server))
    assert type(error) is kind
    assert re.search(message, str(error))
    assert len(server.asked) == requests


@pytest.mark.parametrize(
    "fault", [silence(), silence(begins=True), endless()], ids=["silent", "fell silent", "endless"]
)
def test_no_server_is_waited_for_longer_than_agreed(server: ScriptedOpenAI, fault: Fault) -> None:
    server.answer = lambda asked: fault
    error = failure(opened(server, seconds=0.3, load_seconds=0.1, idle_seconds=0.2))
    assert isinstance(error, LanguageModelTimeoutError | WrongAnswerError)


def test_a_server_that_does_not_run() -> None:
    with scripted_openai() as ended:
        pass
    error = failure(opened(ended))
    assert isinstance(error, NoGeneratorError)
    assert "start it, or see llm.url" in str(error)


# Which model, and how much it reads


@pytest.mark.parametrize(
    ("said", "window"),
    [
        ({"max_model_len": 4096}, "reads 4096 tokens, fewer"),
        ({"meta": {"n_ctx": 2048, "n_ctx_train": 131072}}, "reads 2048 tokens, fewer"),
        ({"context_length": 131072}, "8192 of the 131072 tokens"),
        ({}, "8192 tokens (llm.num_ctx); the server does not say"),
    ],
    ids=["vLLM", "llama.cpp", "OpenRouter", "unknown"],
)
def test_the_window_is_what_the_server_says_else_num_ctx(
    server: ScriptedOpenAI, said: dict[str, Any], window: str
) -> None:
    server.models = [{"id": "small", "object": "model", **said}]
    findings = {finding.what: finding for finding in check_llm(settings(server))}
    assert window in findings["context window"].says
    assert all(finding.is_well for finding in findings.values())
    length = said.get("max_model_len") or said.get("meta", {}).get("n_ctx") or 8192
    assert opened(server).room("", 100) == (min(int(length * 0.75), length - 100) - 256) * 3


def test_a_task_that_was_cut_in_silence_is_not_answered(server: ScriptedOpenAI) -> None:
    server.models = [{"id": "small", "object": "model", "max_model_len": 1024}]
    long = replace(TASK, material="ab" * 600)  # by its bytes it fits
    usage = b'"usage": {"prompt_tokens": 1024, "completion_tokens": 9, "total_tokens": 1033}'
    text = b'data: {"choices": [{"delta": {"content": "{\\"queries\\": []}"}, "finish_reason": "stop"}], ' + usage
    server.answer = lambda asked: raw_events(text + b"}\n\n")
    assert isinstance(failure(opened(server), long), TaskTooLongError)


def test_models_are_named_as_the_server_lists_them(server: ScriptedOpenAI) -> None:
    server.models = [{"id": "models/small"}, {"id": "large"}]
    opened(server).write(TASK)
    assert server.asked[0].body["model"] == "models/small"
    error = failure(opened(server, model="other"))
    assert isinstance(error, NoModelError)
    assert "it has models/small, large" in str(error)
    server.models = [{"id": "/models/the-only-one.gguf"}]
    open_generator(LlmSettings(kind="openai", url=server.url)).write(TASK)
    assert server.asked[-1].body["model"] == "/models/the-only-one.gguf", "none was named"
    server.models = [{"id": 7}]
    opened(server).write(TASK)
    server.models = ["small"]  # type: ignore[list-item] # no object
    assert "no healthy server" in str(failure(opened(server)))
    server.models = None
    opened(server).write(TASK)
    assert server.asked[-1].body["model"] == "small", "a server without a list is asked for what is named"


def test_the_speed_is_measured_by_the_server_or_else_by_the_clock(server: ScriptedOpenAI) -> None:
    server.timings = {"prompt_n": 200, "prompt_ms": 1000.0, "predicted_n": 20, "predicted_ms": 500.0}
    assert str(check_llm(settings(server), measures=True)[-1].says) == "200 tokens a second read, 40 written"
    server.timings = None
    server.models = [{"id": "another"}]
    says = check_llm(settings(server, model="another"), measures=True)[-1].says
    assert "tokens a second read" in says


# As people ask


def test_a_question_with_both_stages_and_with_a_server_that_fails(
    server: ScriptedOpenAI, index: Path, cli: Cli
) -> None:
    ask: list[str | Path] = [QUESTION, "--json", "--index", index, "--encoder-kind", "none"]
    flags = ["--use-llm", "--llm-kind", "openai", "--llm-url", server.url, "--llm-model", "small"]
    flags += ["--hyde-gate", "always", "--rerank-kind", "llm", "--hyde-cache-entries", "0"]
    plain = json.loads(cli(*ask).out)
    server.answer, server.refuses = lambda asked: help_and_reverse(cast("Any", asked)), ("response_format",)
    helped = json.loads(cli(*ask, *flags).out)
    assert helped["degraded"] == []
    assert [hit["node_id"] for hit in helped["hits"]] != [hit["node_id"] for hit in plain["hits"]]
    server.answer = lambda asked: status(500)
    failed = json.loads(cli(*ask, *flags).out)
    assert [(hit["node_id"], hit["score"]) for hit in failed["hits"]] == [
        (hit["node_id"], hit["score"]) for hit in plain["hits"]
    ]
    assert {sentence.partition(":")[0] for sentence in failed["degraded"]} == {"expand", "rerank"}
    assert "the server at" in failed["degraded"][0]


def test_doctor_checks_what_a_profile_needs(server: ScriptedOpenAI, cli: Cli) -> None:
    flags = ["--llm-kind", "openai", "--llm-url", server.url, "--llm-model", "small"]
    said = cli("doctor", "--llm", "--profile", "full", *flags, code=(0, 1)).out
    assert f"a server that speaks OpenAI's API at {server.url}" in said
    assert "30 candidates in 1 window of the model's context" in said
    server.key = "another"
    assert "wants a key" in cli("doctor", "--llm", "--profile", "full", *flags, code=1).out


# Keys, and where they go


class Memory(keyring.backend.KeyringBackend):
    priority = 1

    def get_password(self, service: str, username: str) -> str | None:
        return {("hybrid-retrieve", "MY_KEY"): "sk-of-the-keyring"}.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError

    def delete_password(self, service: str, username: str) -> None:
        raise NotImplementedError


def test_a_key_comes_from_the_environment_or_the_keyring(
    server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(Memory())  # type: ignore[no-untyped-call] # it has no types
    try:
        server.key = "sk-of-the-keyring"
        opened(server, api_key_env="MY_KEY").write(TASK)
        server.key = "sk-of-the-environment"
        monkeypatch.setenv("MY_KEY", server.key)
        opened(server, api_key_env="MY_KEY").write(TASK)
        monkeypatch.delenv("MY_KEY")
        error = failure(opened(server, api_key_env="NO_KEY"))
    finally:
        keyring.set_keyring(before)
    assert "wants a key" in str(error)
    assert "the variable NO_KEY, or: uv run --extra openai keyring set hybrid-retrieve NO_KEY" in str(error)


def test_a_key_is_neither_printed_nor_logged(
    server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    server.key = "another"
    with caplog.at_level(logging.DEBUG):
        error = failure(opened(server))
        assert "refuses the key (Incorrect API key provided: (the key))" in str(error)
        server.key = ""
        server.once.append(raw_events(b'data: {"error": {"message": "bad sk-secret"}}\n\n'))
        assert "bad (the key)" in str(failure(opened(server)))
        opened(server).write(TASK)
    assert server.requests[-1][2]["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in caplog.text
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\nX-Other: 1")
    error = failure(opened(server))
    assert "holds no key" in str(error)
    assert "sk-secret" not in str(error)


def test_nothing_of_the_environment_leads_elsewhere_or_is_sent(
    server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted_openai() as elsewhere:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_BASE_URL"):
            monkeypatch.setenv(name, elsewhere.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
            monkeypatch.setenv(name, "mine")
        monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Other: mine")
        opened(server, api_key_env="").write(TASK)
        assert not elsewhere.requests
    sent = {name for _, _, headers in server.requests for name in headers}
    assert sent <= {"host", "user-agent", "accept", "accept-encoding", "connection", "content-type", "content-length"}


@pytest.mark.parametrize(
    ("url", "allow_remote", "message"),
    [
        ("", False, "llm.url: name the server"),
        ("http://192.0.2.1/v1", False, "another machine.*set llm.allow_remote"),
        ("http://192.0.2.1/v1", True, "the key OPENAI_API_KEY would travel to http://192.0.2.1/v1 unencrypted"),
        ("https://user:sk-secret@192.0.2.1/v1", True, "would end up in logs"),
        ("https://192.0.2.1/v1?key=sk-secret", True, "would end up in logs"),
    ],
)
def test_an_address_that_may_not_be_asked_is_not_asked(
    url: str, allow_remote: bool, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with pytest.raises(NoGeneratorError, match=message) as caught:
        open_generator(LlmSettings(kind="openai", url=url, allow_remote=allow_remote)).write(TASK)
    assert "sk-secret" not in str(caught.value)


def test_without_the_extra_it_is_said_how_to_get_it(server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.llm.openai_server.find_spec", lambda name: None)
    assert "uv sync --extra openai" in str(failure(opened(server)))
    (finding,) = check_llm(settings(server))
    assert not finding.is_well
    assert "uv sync --extra openai" in finding.says
