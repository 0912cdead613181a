"""Models that read little: what is asked is planned by what the server says, and `doctor --llm` says it before."""

import json
from pathlib import Path

import pytest

from retriever.api import open_retriever
from retriever.served.speed import Speed, SpeedFile
from retriever.types import Answer
from tests.program import Cli
from tests.real.conftest import SHIPS_QUESTION as QUESTION
from tests.real.scripted_server import Asked, Model, ScriptedServer, help_and_reverse
from tests.shelf import Shelf


def answered(asked: Asked) -> object:
    return {"ready": "yes"} if "ready" in asked.properties else help_and_reverse(asked)


def ask(ships: Shelf, ollama: ScriptedServer, profile: str) -> Answer:
    SpeedFile.of_user().write(f"{ollama.url} llama3.2", Speed(1e5, 1e5))  # time is no reason to ask for less
    settings = {"llm": {"url": ollama.url}, "hyde": {"cache_entries": 0}}
    with open_retriever((), ships.index, profile, settings, encoder=ships.encoder) as retriever:
        return retriever.search(QUESTION)


@pytest.mark.parametrize("profile", ["precision", "full"])
@pytest.mark.parametrize("length", [32_768, 8192, 4096, 2048])
def test_every_window_is_reranked_in(ships: Shelf, ollama: ScriptedServer, profile: str, length: int) -> None:
    ollama.models["llama3.2:latest"] = Model(context_length=length)
    answer = ask(ships, ollama, profile)
    assert answer.degraded == ()
    reranks = [asked for asked in ollama.asked if "best_first" in asked.properties]
    assert {hit.scale for hit in answer.hits} == {"reranked"}
    assert all(asked.prompt_tokens + asked.num_predict <= length for asked in ollama.asked)
    if length == 32_768:
        assert [len(asked.candidates) for asked in reranks] == [30], "one call where all fit"
    assert sum(len(asked.candidates) for asked in reranks) >= 30


def findings(
    cli: Cli, ollama: ScriptedServer, *options: str, code: int | tuple[int, ...] = 0
) -> dict[str, tuple[str, str]]:
    printed = cli("doctor", "--llm", "--llm-url", ollama.url, "--json", *options, code=code)
    found = json.loads(printed.out)["findings"]
    return {item["name"]: (item["level"], item["says"]) for item in found if item["area"] == "language model"}


def test_doctor_checks_what_a_profile_needs(ollama: ScriptedServer, cli: Cli, tmp_path: Path) -> None:
    ollama.models["small:1b"] = Model(context_length=2048)
    ollama.loaded.add("small:1b")
    assert findings(cli, ollama, "--profile", "full")["expansion"][1].startswith("3 rewordings and 0 passages")
    SpeedFile.of_user().write(f"{ollama.url} llama3.2", Speed(2000, 100))
    full = findings(cli, ollama, "--profile", "full")
    assert full["expansion"] == ("well", "3 rewordings and 3 passages of a question, in about 4 s")
    assert full["reranking"] == ("well", "30 candidates in 1 window of the model's context")
    small = findings(cli, ollama, "--profile", "precision", "--llm-model", "small:1b")
    assert "expansion" not in small, "precision does not expand"
    assert small["context window"][0] == "well"
    assert small["reranking"][1] == "30 candidates in 5 windows of the model's context"
    assert "asks no language model" in findings(cli, ollama)["stages"][1]
    assert findings(cli, ollama, "--profile", "full", "--llm-model", "mistral", code=1)["model"][0] == "problem"
    research = findings(cli, ollama, "--profile", "research", "--llm-url", ollama.url, code=(0, 1))
    assert "cross-encoder" in research


def test_a_profile_without_llm_is_refused(cli: Cli) -> None:
    assert "are for --llm" in cli("doctor", "--profile", "full", code=2).err
