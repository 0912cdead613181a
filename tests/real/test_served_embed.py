"""Embedding models on servers of both kinds: what is sent, and what is believed of an answer."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retriever.embedding import open_encoder, remote
from retriever.embedding.remote import RemoteEncoder, open_remote
from retriever.errors import EncoderError
from retriever.places.background import UNRELATED_QUESTIONS
from retriever.settings.schema import EncoderSettings
from tests.fake_encoder import FakeEncoder
from tests.program import Cli
from tests.real.scripted_server import Asked, ScriptedServer, embed_words, hang_up, scripted_server, status
from tests.shelf import PAGES, write_pages

TEXTS = [f"text about {word}" for word in ("boats", "rivers", "bread", "ovens", "stars")]
MODEL = "nomic-embed-text"
Opener = Callable[..., RemoteEncoder]


def sent(server: ScriptedServer) -> list[list[str]]:
    """The texts of each request for vectors."""
    return [asked.body["input"] for asked in server.of_kind("embed")]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Those between tries, which are noted instead."""
    noted: list[float] = []
    monkeypatch.setattr("retriever.served.transport.time.sleep", noted.append)
    return noted


@pytest.fixture(params=["ollama", "openai"])
def encoder(request: pytest.FixtureRequest, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> Opener:
    """Opens an encoder of either kind on the server, without prefixes, for four texts in a request."""
    monkeypatch.setattr(remote, "BATCH_SIZE", 4)
    return lambda **settings: opened(request.param, server, **settings)


def opened(kind: str, server: ScriptedServer, **changes: object) -> RemoteEncoder:
    url = server.url if kind == "ollama" else server.v1
    usual = {"kind": kind, "model": MODEL, "url": url, "query_prefix": "none", "document_prefix": "none"}
    return open_remote(EncoderSettings(**{**usual, **changes}))  # type: ignore[arg-type] # the tests' own names


def test_vectors_come_in_order_in_batches_and_at_length_one(encoder: Opener, server: ScriptedServer) -> None:
    vectors = encoder().encode_documents(TEXTS)
    np.testing.assert_allclose(vectors, FakeEncoder().encode_documents(TEXTS), atol=1e-6)
    assert sent(server) == [["dimension"], TEXTS[:4], TEXTS[4:]]


def test_ollama_is_followed_by_its_variable_and_told_not_to_cut(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    opened("ollama", server, url="").encode_documents(TEXTS)
    assert {asked.body["truncate"] for asked in server.of_kind("embed")} == {False}


def test_prefixes_are_sent_and_counted(encoder: Opener, server: ScriptedServer) -> None:
    prefixed = encoder(query_prefix="query: ", document_prefix="passage: ", max_tokens=20)
    prefixed.encode_documents(["text"])
    prefixed.encode_queries(["question"])
    assert sent(server)[1:] == [["passage: text"], ["query: question"]]
    assert prefixed.max_tokens == 18


def test_fingerprint_names_model_and_digest_but_not_the_server() -> None:
    with scripted_server() as one, scripted_server() as other:
        prints = {opened("ollama", one).fingerprint, opened("ollama", other).fingerprint}
        assert len(prints) == 1
        assert prints.isdisjoint({opened("openai", one).fingerprint, opened("ollama", one, max_tokens=100).fingerprint})
        one.models.clear()
        with pytest.raises(EncoderError, match="ollama pull nomic-embed-text"):
            opened("ollama", one).fingerprint  # noqa: B018 - it asks


def test_a_text_that_the_server_refuses_is_an_error_that_says_what_to_set(
    encoder: Opener, server: ScriptedServer
) -> None:
    server.once.extend([embed_words, status(400, {"error": "the input length exceeds the context length"})])
    with pytest.raises(EncoderError, match=r"status 400: .*exceeds the context.*encoder\.max_tokens lower"):
        encoder().encode_documents(TEXTS)


def test_documents_are_sent_four_times(encoder: Opener, server: ScriptedServer, pauses: list[float]) -> None:
    server.once.extend([embed_words, *[hang_up()] * 3])
    assert encoder().encode_documents(TEXTS[:1]).shape == (1, 64)
    assert pauses == [0.5, 1, 2]


def rows(make: Callable[[int], Sequence[Sequence[float]]]) -> Callable[[Asked], object]:
    return lambda asked: make(len(asked.body["input"]))


NO_VECTORS: dict[str, tuple[Any, str]] = {
    "too few": (rows(lambda n: [[1.0, 2.0]] * (n - 1)), r"shape \(3, 2\)|not one item for each of 4 texts"),
    "of another length than before": (rows(lambda n: [[1.0, 2.0]] * n), "of 2 numbers instead of 64"),
    "a number without a float": (rows(lambda n: [[10**400, 1.0]] * n), "no vectors of one length"),
    "NaN": (rows(lambda n: [[float("nan"), 1.0]] * n), "NaN"),
    "not JSON": (status(200, "<html>"), "speaks otherwise than"),
}


@pytest.mark.parametrize("name", NO_VECTORS)
def test_what_is_no_vector_is_not_believed_and_not_asked_for_again(
    encoder: Opener, server: ScriptedServer, name: str
) -> None:
    answer, message = NO_VECTORS[name]
    server.once.extend([embed_words, answer])
    with pytest.raises(EncoderError, match=message):
        encoder().encode_documents(TEXTS[:4])
    assert len(sent(server)) == 2


def test_a_model_has_to_be_named() -> None:
    with pytest.raises(EncoderError, match=r"encoder\.model"):
        open_encoder(EncoderSettings(kind="ollama"))


# An index whose vectors come from a server


def test_an_index_sends_the_prefixes_of_a_known_model_and_each_fixed_text_once(
    server: ScriptedServer, tmp_path: Path, cli: Cli
) -> None:
    """Those that the expansions are compared with, and the text that tells the dimension, are sent by `index`."""
    docs = write_pages(tmp_path / "docs", PAGES)
    encoder = ("--encoder-kind", "ollama", "--encoder-model", MODEL, "--encoder-url", server.url)
    options = ("--index", tmp_path / "index", *encoder)

    def texts_sent(*arguments: str | Path) -> list[str]:
        server.requests.clear()
        cli(*arguments, *options)
        return [text for texts in sent(server) for text in texts]

    texts = texts_sent("index", docs)
    assert len([text for text in texts if text.startswith("search_document: ")]) >= len(PAGES)
    assert {f"search_query: {question}" for question in UNRELATED_QUESTIONS} <= set(texts)
    assert texts.count("dimension") == 1
    question = "who pays for the journey of a letter in the red box?"
    assert texts_sent(question) == [f"search_query: {question}"]
    written = {"queries": ["what does a letter's journey cost in stamps?"], "hyde": [], "entities": []}
    server.answer = lambda asked: written
    llm = ("--use-llm", "--hyde", "always", "--llm-url", server.url)
    texts = [question, *written["queries"], "cost stamps?"]  # what the second adds is compared with the first
    assert texts_sent(question, *llm) == [f"search_query: {text}" for text in texts]
    write_pages(docs, {f"more{number}.md": f"# More {number}\n\nMore of page {number}.\n" for number in range(20)})
    texts = texts_sent("index", docs)
    assert not any(text.startswith("search_query: ") for text in texts), "measured anew, not embedded anew"
