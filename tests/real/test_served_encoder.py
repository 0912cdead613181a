"""An index whose vectors come from a server: what is sent, from the command line to the wire."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.program import Cli
from tests.real.scripted_ollama import Model, ScriptedOllama
from tests.shelf import PAGES, write_pages


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "docs", PAGES)


def sent(ollama: ScriptedOllama) -> list[str]:
    """All texts that were to be embedded, in order."""
    return [text for path, body, _ in ollama.requests if path == "/api/embed" for text in body["input"]]


def served(ollama: ScriptedOllama, place: Path, model: str = "nomic-embed-text") -> Sequence[str | Path]:
    encoder = ("--encoder-kind", "ollama", "--encoder-model", model, "--encoder-url", ollama.url)
    return ("--index", place / "index", *encoder)


def test_the_prefixes_of_a_known_model_are_sent_and_shown(
    ollama: ScriptedOllama, docs: Path, tmp_path: Path, cli: Cli
) -> None:
    options = served(ollama, tmp_path)
    cli("index", docs, *options)
    documents = [text for text in sent(ollama) if text.startswith("search_document: ")]
    assert len(documents) >= len(PAGES)
    ollama.requests.clear()
    cli("how is bread made?", *options)
    assert "search_query: how is bread made?" in sent(ollama)
    assert "'search_query: ' before questions" in cli("status", "--index", tmp_path / "index").out
    found = json.loads(cli("doctor", "--index", tmp_path / "index", "--json").out)["findings"]
    (prefixes,) = [item for item in found if item["name"] == "prefixes"]
    assert (prefixes["level"], "(nomic-embed-text)" in prefixes["says"]) == ("well", True)


def test_an_unknown_model_is_named_and_gets_what_is_set(
    ollama: ScriptedOllama, docs: Path, tmp_path: Path, cli: Cli
) -> None:
    ollama.models["my-own:latest"] = Model(("embedding",), 2048)
    options = served(ollama, tmp_path, "my-own")
    assert "my-own is not among the known models" in cli("index", docs, *options).out
    assert not any(text.startswith("search_") for text in sent(ollama))
    found = json.loads(cli("doctor", "--index", tmp_path / "index", "--json").out)["findings"]
    assert [item["level"] for item in found if item["name"] == "prefixes"] == ["note"]
    ollama.requests.clear()
    printed = cli("index", docs, *options, "--encoder-document-prefix", "passage: ", "--encoder-query-prefix", "none")
    assert "not among" not in printed.out
    assert sum(text.startswith("passage: ") for text in sent(ollama)) >= len(PAGES), "other prefixes, other vectors"
