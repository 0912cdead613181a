"""Embedding models on servers of both kinds: what is sent, what is believed of an answer, and what follows a fault."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retriever.embedding import open_encoder, unread_tokens
from retriever.embedding.remote import RemoteEncoder, open_remote
from retriever.errors import EncoderError
from retriever.indexing.background import UNRELATED_QUESTIONS
from retriever.served.ollama import OllamaServer
from retriever.served.openai import OpenAIServer
from retriever.settings.schema import EncoderSettings
from tests.fake_encoder import FakeEncoder
from tests.program import Cli
from tests.real.scripted_server import (
    Asked,
    Fault,
    ModelHandler,
    ScriptedServer,
    embed_words,
    fault,
    hang_up,
    scripted_server,
    silence,
    status,
    trickle,
)
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


@pytest.fixture(params=["ollama", "openai"])
def encoder(request: pytest.FixtureRequest, server: ScriptedServer) -> Opener:
    """Opens an encoder of either kind on the server, without prefixes; it notes its pauses instead of sleeping."""
    return lambda **settings: opened(request.param, server, **settings)


class PatientServer(OpenAIServer):
    """Asked for one batch after the other, so that the order of the requests is known."""

    parallel = 1


def opened(
    kind: str,
    server: ScriptedServer,
    pauses: list[float] | None = None,
    question_s: float = 10.0,
    **changes: object,
) -> RemoteEncoder:
    usual = {"kind": kind, "model": MODEL, "query_prefix": "none", "document_prefix": "none"}
    settings = EncoderSettings(**{**usual, **changes})  # type: ignore[arg-type] # the tests' own names
    noted: list[float] = [] if pauses is None else pauses
    asked = OllamaServer(MODEL, server.url) if kind == "ollama" else PatientServer(MODEL, server.v1)
    return RemoteEncoder(asked, settings, noted.append, batch_size=4, question_s=question_s)


def test_vectors_come_in_order_in_batches_and_at_length_one(encoder: Opener, server: ScriptedServer) -> None:
    vectors = encoder().encode_documents(TEXTS)
    np.testing.assert_allclose(vectors, FakeEncoder().encode_documents(TEXTS), atol=1e-6)
    assert sent(server) == [["dimension"], TEXTS[:4], TEXTS[4:]]


def test_ollama_is_told_not_to_cut_and_nothing_of_the_environment_is_used(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "secret")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    opened("ollama", server).encode_documents(TEXTS)
    assert {asked.body["truncate"] for asked in server.of_kind("embed")} == {False}
    assert not any("authorization" in headers for _, _, headers in server.requests)


def test_the_key_comes_from_the_variable_that_is_named(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "abc")
    settings = EncoderSettings(kind="openai", model="good", url=f"{server.v1}/", api_key_env="MY_KEY")
    encoder = open_encoder(settings)
    assert encoder
    encoder.encode_queries(["question"])
    assert {headers["authorization"] for _, _, headers in server.requests} == {"Bearer abc"}


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


def test_a_batch_that_is_refused_is_halved_and_the_text_to_blame_is_named(
    encoder: Opener, server: ScriptedServer
) -> None:
    server.once.extend([embed_words, status(500), status(400)])
    vectors = encoder().encode_documents(TEXTS[:4])
    np.testing.assert_allclose(vectors, FakeEncoder().encode_documents(TEXTS[:4]), atol=1e-6)
    assert [len(batch) for batch in sent(server)] == [1, 4, 2, 1, 1, 2]
    server.longest = 60
    with pytest.raises(EncoderError, match=r"refuses a text of about \d+ tokens \('long long.*exceeds the context"):
        encoder().encode_documents([*TEXTS[:3], "long " * 20])


def test_what_servers_do_at_once(server: ScriptedServer) -> None:
    """OpenAI's work on several batches together; Ollama's other requests would wait their turn."""
    together = threading.Barrier(4)

    def wait(asked: Asked) -> object:
        if asked.body["input"] != ["dimension"]:
            together.wait(timeout=10)  # breaks, and the request with it, unless four are here
        return embed_words(asked)

    server.embed = wait
    texts = [f"text {number}" for number in range(8)]
    settings = EncoderSettings(kind="openai", model=MODEL, query_prefix="none", document_prefix="none")
    vectors = RemoteEncoder(OpenAIServer(MODEL, server.v1), settings, batch_size=2).encode_documents(texts)
    np.testing.assert_allclose(vectors, FakeEncoder().encode_documents(texts), atol=1e-6)


@fault
def cut_off(handler: ModelHandler, asked: Asked) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"embeddings": [[')
    handler.close_connection = True


@pytest.mark.parametrize("broken", [status(503), hang_up(), cut_off()], ids=["busy", "hung up", "cut off"])
def test_what_may_pass_is_tried_again(encoder: Opener, server: ScriptedServer, broken: Fault) -> None:
    server.once.extend([embed_words, broken, broken, broken])
    pauses: list[float] = []
    assert encoder(pauses=pauses).encode_documents(TEXTS[:1]).shape == (1, 64)
    assert pauses == [0.5, 1, 2]
    server.once.extend([broken] * 2)
    with pytest.raises(EncoderError, match=r"busy|cannot be reached"):
        encoder(pauses=pauses).encode_queries(["question"])
    assert pauses == [0.5, 1, 2, 0.3]


@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_a_server_that_is_not_there(kind: Any) -> None:  # noqa: ANN401 - a Literal
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        encoder = open_encoder(EncoderSettings(kind=kind, model=MODEL, url=url))
        assert encoder
        with pytest.raises(EncoderError, match=r"cannot be reached .*(start it with `ollama serve`|is it running\?)"):
            encoder.encode_queries(TEXTS)


def rows(make: Callable[[int], Sequence[Sequence[float]]]) -> Callable[[Asked], object]:
    return lambda asked: make(len(asked.body["input"]))


NO_VECTORS: dict[str, tuple[Any, str]] = {
    "too few": (rows(lambda n: [[1.0, 2.0]] * (n - 1)), r"shape \(3, 2\)|not one item for each of 4 texts"),
    "of several lengths": (rows(lambda n: [[1.0], [1.0, 2.0]] * (n // 2)), "no vectors of one length"),
    "of another length than before": (rows(lambda n: [[1.0, 2.0]] * n), "of 64 and of 2 numbers"),
    "NaN": (rows(lambda n: [[float("nan"), 1.0]] * n), "NaN"),
    "zero": (rows(lambda n: [[0.0, 0.0]] * n), "zeros"),
    "not JSON": (status(200, "<html>"), "gave something that is no"),
    "another shape": (status(200, {"embeddings": 5, "data": 5}), "gave something that is no"),
    "not found": (status(404, "no such model"), "ollama pull nomic|status 404: no such model"),
    "forbidden": (status(401, "a\x1b[31m\nkey"), r"status 401: a\[31m key"),
    "redirect": (status(307, "", location="http://192.0.2.1/"), "status 307"),
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


@pytest.mark.parametrize("slow", [silence(), trickle(0.02)], ids=["silent", "endless"])
def test_an_answer_that_never_comes_or_never_ends(encoder: Opener, server: ScriptedServer, slow: Fault) -> None:
    server.once.append(slow)
    with pytest.raises(EncoderError, match="in time"):
        encoder(question_s=0.15).encode_queries(["question"])


def test_a_long_document_is_refused_and_a_long_question_is_cut(encoder: Opener, server: ScriptedServer) -> None:
    small = encoder(max_tokens=16)
    with pytest.raises(EncoderError, match="text 1 has 32 tokens and the encoder reads 16"):
        small.encode_documents(["short", "word " * 30])
    assert unread_tokens(small, ["word " * 30]) == [16]
    small.encode_queries(["word " * 30])
    assert sent(server)[-1] == [("word " * 14).strip()]


@pytest.mark.parametrize(
    ("kind", "model", "url", "message"),
    [
        *(
            ("ollama", "good", url, r"encoder\.url")
            for url in ("127.0.0.1:11434", "ftp://x", "http://", "http://a:99999", "http://user:pw@host")
        ),
        ("ollama", "", "", r"encoder\.model"),
        ("openai", "", "http://127.0.0.1:1/v1", r"encoder\.model"),
        ("openai", "good", "", r"encoder\.url.*all texts are sent"),
    ],
)
def test_what_names_no_model_at_an_address(kind: Any, model: str, url: str, message: str) -> None:  # noqa: ANN401 - a Literal
    with pytest.raises(EncoderError, match=message):
        open_encoder(EncoderSettings(kind=kind, model=model, url=url))


# An index whose vectors come from a server


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "docs", PAGES)


def options(server: ScriptedServer, place: Path, model: str = MODEL) -> Sequence[str | Path]:
    encoder = ("--encoder-kind", "ollama", "--encoder-model", model, "--encoder-url", server.url)
    return ("--index", place / "index", *encoder)


def texts_sent(server: ScriptedServer) -> list[str]:
    return [text for texts in sent(server) for text in texts]


def test_the_prefixes_of_a_known_model_are_sent_and_shown(
    server: ScriptedServer, docs: Path, tmp_path: Path, cli: Cli
) -> None:
    cli("index", docs, *options(server, tmp_path))
    documents = [text for text in texts_sent(server) if text.startswith("search_document: ")]
    assert len(documents) >= len(PAGES)
    server.requests.clear()
    cli("how is bread made?", *options(server, tmp_path))
    assert "search_query: how is bread made?" in texts_sent(server)
    assert "'search_query: ' before questions" in cli("status", "--index", tmp_path / "index").out


def test_a_question_embeds_itself_alone_and_the_fixed_questions_are_embedded_once(
    server: ScriptedServer, docs: Path, tmp_path: Path, cli: Cli
) -> None:
    """Those that the expansions are compared with, and the text that tells the dimension, are sent by `index`."""
    cli("index", docs, *options(server, tmp_path))
    fixed = [f"search_query: {question}" for question in UNRELATED_QUESTIONS]
    assert set(fixed) <= set(texts_sent(server))
    assert texts_sent(server).count("dimension") == 1
    question = "who pays for the journey of a letter in the red box?"
    server.requests.clear()
    cli(question, *options(server, tmp_path))
    assert texts_sent(server) == [f"search_query: {question}"]
    written = {"queries": ["what does a letter's journey cost in stamps?"], "hyde": [], "entities": []}
    server.answer = lambda asked: written
    llm = ("--use-llm", "--hyde", "always", "--llm-url", server.url, "--hyde-cache-entries", "0")
    server.requests.clear()
    cli(question, *options(server, tmp_path), *llm)
    assert texts_sent(server) == [f"search_query: {text}" for text in (question, *written["queries"])]
    write_pages(docs, {f"more{number}.md": f"# More {number}\n\nMore of page {number}.\n" for number in range(20)})
    server.requests.clear()
    cli("index", docs, *options(server, tmp_path))
    assert not any(text.startswith("search_query: ") for text in texts_sent(server)), "measured anew, not embedded anew"


def test_ollama_host_is_followed_as_for_the_language_model(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    assert (
        open_remote(EncoderSettings(kind="ollama", model="nomic-embed-text")).encode_queries(["a boat"]).shape[0] == 1
    )
    monkeypatch.setenv("OLLAMA_HOST", "http://192.0.2.1:11434")
    with pytest.raises(EncoderError, match="another machine"):
        open_remote(EncoderSettings(kind="ollama", model="nomic-embed-text"))
