"""Models on servers that write, embed and rank, by either API, under one contract: what is sent, what faults mean."""

import logging
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import BaseModel

from retriever.embedding import external
from retriever.embedding.external import RemoteEncoder
from retriever.errors import EncoderError, LanguageModelError, RerankerError
from retriever.rerank import EndpointReranker, RerankInput
from retriever.served import generator, transport
from retriever.served.generator import Generator
from retriever.served.task import Task
from retriever.settings import KEYS, EncoderSettings, LlmSettings, Profile, RerankSettings
from tests.real.scripted_server import (
    Asked,
    Fault,
    ScriptedServer,
    closed,
    hang_up,
    killed,
    scripted_server,
    silence,
    status,
    trickle,
)
from tests.tables import read_table

SECONDS = 0.3
"""The longest wait of the tests that wait for its end."""
SLACK = 5.0
"""Seconds that a shared machine may take besides; a limit that is not kept is exceeded by far more."""


class Answer(BaseModel):
    numbers: list[int]


TASK = Task("Count.", "One boat, two boats.", Answer, 64, 20)
ERRORS = {"llm": LanguageModelError, "encoder": EncoderError, "rerank": RerankerError}
KINDS = {"llm": "write", "encoder": "embed", "rerank": "rank"}
BY_OPENAI = [("llm", "openai"), ("encoder", "openai"), ("rerank", "openai")]
ALL = [("llm", "ollama"), ("encoder", "ollama"), *BY_OPENAI]


def answered(asked: Asked) -> object:
    return {"numbers": [1, 2]}


@dataclass
class Served:
    """A model on a scripted server, for the section of the settings that names it."""

    section: str
    script: ScriptedServer
    seconds: float = 30.0

    def ask(self, **changes: Any) -> object:  # noqa: ANN401 - as the settings have them
        given = {"url": self.script.url} | changes
        match self.section:
            case "llm":
                return Generator(Profile(llm=LlmSettings(seconds=self.seconds, **given))).write(TASK)
            case "encoder":
                settings = EncoderSettings(**{"kind": self.script.kind, "model": "nomic-embed-text", **given})
                return RemoteEncoder(settings, dimension=64).encode_queries(["two boats"])
        rerank = RerankSettings(kind="endpoint", url=given["url"])
        reranker = EndpointReranker(Profile(rerank=rerank, llm=LlmSettings(seconds=self.seconds)))
        return reranker.score("two boats", [RerankInput("", "boats")])

    def fail(self, **changes: Any) -> str:  # noqa: ANN401 - as above
        """The message about the fault, an error of the section's kind."""
        with pytest.raises(ERRORS[self.section]) as caught:
            self.ask(**changes)
        assert len(str(caught.value)) < 600
        return str(caught.value)

    @property
    def asked(self) -> list[Mapping[str, Any]]:
        return [asked.body for asked in self.script.of_kind(KINDS[self.section])]

    @property
    def headers(self) -> list[Mapping[str, str]]:
        return [headers for _, _, headers in self.script.requests]


@pytest.fixture(params=ALL, ids="-".join)
def served(request: pytest.FixtureRequest, ollama: ScriptedServer) -> Served:
    section, ollama.kind = request.param
    return Served(section, ollama)


by_openai = pytest.mark.parametrize("served", BY_OPENAI, indirect=True, ids="-".join)


# What is sent


def test_nothing_of_the_environment_leads_elsewhere_or_is_sent(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_server() as elsewhere:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "OPENAI_BASE_URL", "OLLAMA_HOST"):
            monkeypatch.setenv(name, elsewhere.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setenv("OLLAMA_API_KEY", "mine")
        served.ask()
        assert not elsewhere.requests
    assert not any("authorization" in headers for headers in served.headers)


def test_no_compressed_answer_is_asked_for(served: Served) -> None:
    """One of a few bytes could become gigabytes."""
    served.ask()
    assert {headers["accept-encoding"] for headers in served.headers} == {"identity"}


@by_openai
def test_a_key_is_sent_but_neither_printed_nor_logged(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(KEYS[served.section], "sk-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "of another server")
    served.script.once.append(status(401, "Incorrect API key provided: sk-secret"))
    with caplog.at_level(logging.DEBUG):
        assert "refuses the key (Incorrect API key provided: (the key))" in served.fail()
    assert served.headers[-1]["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in caplog.text


@by_openai
def test_a_key_of_two_lines_is_no_key_and_not_printed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\nX-Other: 1")
    said = served.fail()
    assert "holds no key" in said
    assert "sk-secret" not in said


@pytest.mark.parametrize(("section", "kind", "url", "said"), read_table("models", "Addresses that may not be asked"))
def test_an_address_that_may_not_be_asked_is_not_asked(
    ollama: ScriptedServer, section: str, kind: str, url: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OLLAMA_HOST", "192.0.2.1")
    ollama.kind = kind
    failure = Served(section, ollama).fail(url=url)
    assert re.search(said, failure)
    assert "sk-secret" not in failure


# What goes wrong

MEMORY = "model requires more system memory (5.6 GiB) than is available (2.1 GiB)"
NO_MODEL = "(ollama pull (llama3.2|nomic-embed-text)|see (llm|encoder|rerank).model).*no such model"
FAULTS: dict[str, tuple[Fault, str, int]] = {
    "hung up": (hang_up(), "the connection to .* broke", 2),
    "killed": (killed(), "start it( with `ollama serve`|, or check the address)", 1),
    "busy": (status(503, {"error": "maximum pending requests exceeded"}), "is busy .maximum pending", 2),
    "no memory": (status(507, {"error": MEMORY}), "status 507: model requires more system memory", 1),
    "not found": (status(404, "no such model"), NO_MODEL, 1),
    "forbidden": (status(401, "a\x1b[31m\nkey"), r"wants a key \(a\[31m key\)", 1),
    "sent on": (status(307, "", location="http://192.0.2.1/"), "another address, which is not followed", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named_and_tried_again_only_where_that_may_help(served: Served, name: str) -> None:
    fault, said, tries = FAULTS[name]
    served.script.once.extend([fault] * 3)
    assert re.search(said, served.fail())
    assert len(served.asked) == tries


@pytest.mark.parametrize("fault", [closed(), status(503)], ids=["closed", "busy"])
def test_a_fault_that_passes_does_no_harm(served: Served, fault: Fault) -> None:
    served.script.once.append(fault)
    served.ask()
    first, second = served.asked
    assert first == second


SLOW = {
    "silence": silence(),
    "one byte each 50 ms": trickle(),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_server_that_does_not_come_to_an_end_is_left(
    served: Served, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "QUESTION_S", SECONDS)
    monkeypatch.setattr(generator, "LOAD_S", 0.01)
    served.script.once.extend([SLOW[name]] * 2)
    started = time.monotonic()
    said = replace(served, seconds=SECONDS).fail()
    assert time.monotonic() - started < SLACK
    assert "takes too long" in said
    assert len(served.asked) == 1


def test_a_server_that_accepts_no_connection_is_soon_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "CONNECT_S", 0.1)
    end = time.monotonic() + SLACK
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, socket.create_connection(server.getsockname()):
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(transport.UnreachableError), transport.open_reply(url, end):
            pass
    assert time.monotonic() < end


def test_an_answer_that_is_too_large_is_not_read(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_BYTES", 10)
    assert "more than 10 bytes" in served.fail()
