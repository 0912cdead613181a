"""An index whose vectors come from a server: what is sent, from the command line to the wire."""

import json
import threading
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from retriever.embedding import open_encoder
from retriever.indexing.background import UNRELATED_QUESTIONS, read_unrelated
from retriever.settings.schema import EncoderSettings
from tests.fake_encoder import FakeEncoder
from tests.program import Cli
from tests.real.loopback import LoopbackHandler, serving
from tests.real.scripted_ollama import Model, ScriptedOllama
from tests.shelf import PAGES, Shelf, write_pages


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "docs", PAGES)


def sent(ollama: ScriptedOllama) -> list[str]:
    """All texts that were to be embedded, in order."""
    return [text for path, body, _ in ollama.requests if path == "/api/embed" for text in body["input"]]


def asked(ollama: ScriptedOllama, question: str, place: Path, cli: Cli) -> list[str]:
    """What a process of its own sends for a question."""
    ollama.requests.clear()
    cli(question, *served(ollama, place))
    return sent(ollama)


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


def test_a_question_embeds_itself_alone(ollama: ScriptedOllama, docs: Path, tmp_path: Path, cli: Cli) -> None:
    """Neither the fixed questions that the expansions are compared with, nor a text that tells the dimension."""
    cli("index", docs, *served(ollama, tmp_path))
    fixed = [f"search_query: {question}" for question in UNRELATED_QUESTIONS]
    assert set(fixed) <= set(sent(ollama))
    assert sent(ollama).count("dimension") == 1
    question = "who pays for the journey of a letter in the red box?"
    assert asked(ollama, question, tmp_path, cli) == [f"search_query: {question}"]
    written = {"queries": ["what does a letter's journey cost in stamps?"], "hyde": [], "entities": []}
    ollama.answer = lambda asked: written
    llm = ("--use-llm", "--hyde", "always", "--llm-url", ollama.url, "--hyde-cache-entries", "0")
    ollama.requests.clear()
    cli(question, *served(ollama, tmp_path), *llm)
    assert sent(ollama) == [f"search_query: {text}" for text in (question, *written["queries"])]


def test_the_fixed_questions_are_embedded_once_for_an_index(
    ollama: ScriptedOllama, docs: Path, tmp_path: Path, cli: Cli
) -> None:
    options = served(ollama, tmp_path)
    cli("index", docs, *options)
    write_pages(docs, {f"more{number}.md": f"# More {number}\n\nMore of page {number}.\n" for number in range(20)})
    ollama.requests.clear()
    cli("index", docs, *options)
    assert sum(text.startswith("search_query: ") for text in sent(ollama)) == 0, "measured anew, not embedded anew"


@pytest.mark.parametrize(
    "content", ["null", "[]", '{"rows": 5}', '{"fingerprint": "x"}', "DAMAGED ROWS", "NOT A NUMBER"], ids=range(6)
)
def test_what_an_index_keeps_of_them_is_checked(tmp_path: Path, content: str) -> None:
    """Another user may have made it."""
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    with shelf.rows() as rows, rows:
        (kept,) = rows.execute("SELECT value FROM meta WHERE key = 'unrelated'").fetchone()
        if content.isupper():
            bad = b64encode(np.full((48, 64), np.nan, "<f4").tobytes()).decode() if "NUMBER" in content else "%%%"
            content = json.dumps(json.loads(kept) | {"rows": bad})
        rows.execute("UPDATE meta SET value = ? WHERE key = 'unrelated'", (content,))
    with shelf.open() as retriever, retriever.view() as view:
        assert read_unrelated(view.connection, shelf.encoder.fingerprint) is None


def test_a_server_that_works_on_many_gets_several_batches_at_once(tmp_path: Path) -> None:
    """And Ollama, whose other requests would wait their turn, one after another."""
    together = threading.Barrier(4)

    class Waiting(LoopbackHandler):
        def do_POST(self) -> None:
            texts = self.body()["input"]
            if texts != ["dimension"]:
                together.wait(timeout=10)  # breaks, and the request with it, unless four are here
            rows = FakeEncoder().encode_documents(texts).tolist()
            self.reply(200, {"data": [{"index": place, "embedding": row} for place, row in enumerate(rows)]})

    texts = [f"text {number}" for number in range(8)]
    with serving(Waiting) as server:
        settings = EncoderSettings(kind="openai", model="good", url=f"{server.url}/v1", batch_size=2)
        encoder = open_encoder(settings)
        assert encoder
        np.testing.assert_allclose(encoder.encode_documents(texts), FakeEncoder().encode_documents(texts), atol=1e-6)
