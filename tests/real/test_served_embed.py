"""Embedding models on servers of both kinds: what is sent, and what is believed of an answer."""

from pathlib import Path

import numpy as np
import pytest

from retriever.embedding import external, open_encoder
from retriever.embedding.external import RemoteEncoder
from retriever.errors import EncoderError
from retriever.places.background import UNRELATED_QUESTIONS
from retriever.settings import EncoderSettings
from tests.fake_encoder import FakeEncoder
from tests.program import Cli
from tests.real.scripted_server import ScriptedServer, embed_words, hang_up, scripted_server, status
from tests.shelf import PAGES, write_pages

TEXTS = [f"text about {word}" for word in ("boats", "rivers", "bread", "ovens", "stars")]
MODEL = "nomic-embed-text"


def sent(server: ScriptedServer) -> list[list[str]]:
    """The texts of each request for vectors."""
    return [asked.body["input"] for asked in server.of_kind("embed")]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Those between tries, which are noted instead."""
    noted: list[float] = []
    monkeypatch.setattr("retriever.served.transport.time.sleep", noted.append)
    return noted


@pytest.fixture(autouse=True)
def _four_texts_in_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "BATCH_SIZE", 4)


def opened(server: ScriptedServer, **changes: object) -> RemoteEncoder:
    """An encoder on the server, without prefixes."""
    usual = {"kind": server.kind, "model": MODEL, "url": server.url, "query_prefix": "none", "document_prefix": "none"}
    return RemoteEncoder(EncoderSettings(**{**usual, **changes}))  # type: ignore[arg-type] # the tests' own names


def test_vectors_come_in_order_in_batches_and_at_length_one(served: ScriptedServer) -> None:
    vectors = opened(served).encode_documents(TEXTS)
    np.testing.assert_allclose(vectors, FakeEncoder().encode_documents(TEXTS), atol=1e-6)
    assert sent(served) == [["dimension"], TEXTS[:4], TEXTS[4:]]


def test_ollama_is_followed_by_its_variable_and_told_not_to_cut(
    ollama: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", ollama.url)
    opened(ollama, url="").encode_documents(TEXTS)
    assert {asked.body["truncate"] for asked in ollama.of_kind("embed")} == {False}


def test_prefixes_are_sent_and_counted(served: ScriptedServer) -> None:
    prefixed = opened(served, query_prefix="query: ", document_prefix="passage: ", max_tokens=20)
    prefixed.encode_documents(["text"])
    prefixed.encode_queries(["question"])
    assert sent(served)[1:] == [["passage: text"], ["query: question"]]
    assert prefixed.max_tokens == 18


def test_fingerprint_names_model_and_digest_but_not_the_server(ollama: ScriptedServer) -> None:
    with scripted_server() as other:
        same = opened(other).fingerprint
    assert opened(ollama).fingerprint == same
    assert opened(ollama, max_tokens=100).fingerprint != same
    ollama.described["/api/tags"] = {"models": [{"model": f"{MODEL}:latest", "digest": "another"}]}
    assert opened(ollama).fingerprint != same
    ollama.kind = "openai"
    assert opened(ollama).fingerprint != same


def test_a_text_that_the_server_refuses_is_an_error_that_says_what_to_set(served: ScriptedServer) -> None:
    served.once.extend([embed_words, status(400, {"error": "the input length exceeds the context length"})])
    with pytest.raises(EncoderError, match=r"status 400: .*exceeds the context.*encoder\.max_tokens lower"):
        opened(served).encode_documents(TEXTS)


def test_documents_are_sent_four_times(served: ScriptedServer, pauses: list[float]) -> None:
    served.once.extend([embed_words, *[hang_up()] * 3])
    assert opened(served).encode_documents(TEXTS[:1]).shape == (1, 64)
    assert pauses == [0.5, 1, 2]


NO_VECTORS: dict[str, tuple[object, str]] = {
    "too few": ([[1.0, 2.0]] * 3, r"shape \(3, 2\)|not one item for each of 4 texts"),
    "of another length than before": ([[1.0, 2.0]] * 4, r"\(4, 2\) instead of 4 vectors of 64"),
    "a number without a float": ([[10**400, 1.0]] * 4, "no vectors of one length"),
    "NaN": ([[float("nan")] * 64] * 4, r"\S+ at http.*NaN"),
    "not JSON": (status(200, "<html>"), "speaks otherwise than"),
}


@pytest.mark.parametrize("name", NO_VECTORS)
def test_what_is_no_vector_is_not_believed_and_not_asked_for_again(served: ScriptedServer, name: str) -> None:
    answer, message = NO_VECTORS[name]
    served.once.extend([embed_words, lambda asked: answer])
    with pytest.raises(EncoderError, match=message):
        opened(served).encode_documents(TEXTS[:4])
    assert len(sent(served)) == 2


def test_a_model_has_to_be_named() -> None:
    with pytest.raises(EncoderError, match=r"encoder\.model"):
        open_encoder(EncoderSettings(kind="ollama"))


# An index whose vectors come from a server


def test_an_index_sends_the_prefixes_of_a_known_model_and_each_fixed_text_once(
    ollama: ScriptedServer, tmp_path: Path, cli: Cli
) -> None:
    """Those that questions are compared with, and the text that tells the dimension, are sent by `index`."""
    docs = write_pages(tmp_path / "docs", PAGES)
    encoder = ("--encoder-kind", "ollama", "--encoder-model", MODEL, "--encoder-url", ollama.url)

    def texts_sent(*arguments: str | Path) -> list[str]:
        ollama.requests.clear()
        cli(*arguments, "--index", tmp_path / "index", *encoder)
        return [text for texts in sent(ollama) for text in texts]

    texts = texts_sent("index", docs)
    assert len([text for text in texts if text.startswith("search_document: ")]) >= len(PAGES)
    assert {f"search_query: {question}" for question in UNRELATED_QUESTIONS} <= set(texts)
    assert texts.count("dimension") == 1
    question = "who pays for the journey of a letter in the red box?"
    assert texts_sent(question) == [f"search_query: {question}"]
    write_pages(docs, {f"more{number}.md": f"# More {number}\n\nMore of page {number}.\n" for number in range(20)})
    texts = texts_sent("index", docs)
    assert not any(text.startswith("search_query: ") for text in texts), "measured anew, not embedded anew"
