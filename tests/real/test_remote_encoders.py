"""Encoders on a scripted server of embeddings: what Ollama and others say, and what they do wrong."""

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from retriever.embedding import open_encoder, unread_tokens
from retriever.embedding.remote import OllamaServer, OpenAIServer, RemoteEncoder
from retriever.errors import EncoderError
from retriever.settings.schema import EncoderSettings
from tests.fake_encoder import FakeEncoder
from tests.real.loopback import LoopbackHandler, serving

Answer = Callable[["Handler", list[str]], None]
"""Writes the answer to a request for the vectors of these texts."""


@dataclass
class Script:
    """What the server does, and what it was asked."""

    url: str = ""
    answers: deque[Answer] = field(default_factory=deque)
    """For the next requests; when they are used up, all are answered well."""
    longest: int = 10_000
    """Of a longer text it says 400, as Ollama does with truncate=false."""
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def inputs(self) -> list[list[str]]:
        return [body["input"] for path, body in self.requests if path in {"/api/embed", "/v1/embeddings"}]


@contextmanager
def model_server() -> Iterator[Script]:
    script = Script()

    class Scripted(Handler):
        pass

    Scripted.script = script
    with serving(Scripted) as server:
        script.url = server.url
        yield script


class Handler(LoopbackHandler):
    script: Script

    def do_GET(self) -> None:
        self._note({})
        models = [{"model": "good:latest", "name": "good:latest", "digest": "d1"}]
        self.reply(200, {"models": models})

    def do_POST(self) -> None:
        body = self.body()
        self._note(body)
        answer = self.script.answers.popleft() if self.script.answers else well
        answer(self, body["input"])

    def _note(self, body: dict[str, Any]) -> None:
        self.script.requests.append((self.path, body))
        self.script.headers.append(self.lower_headers())

    def vectors(self, rows: Sequence[Sequence[float]]) -> None:
        """The rows in the shape that the path asks for; those of /v1 last one first, as their index allows."""
        data = [{"index": index, "embedding": row} for index, row in enumerate(rows)]
        self.reply(200, {"embeddings": rows} if self.path == "/api/embed" else {"data": data[::-1]})


def well(handler: Handler, texts: list[str]) -> None:
    if max(map(len, texts)) > handler.script.longest:
        handler.reply(400, {"error": "the input length exceeds the context length"})
    else:
        handler.vectors([[3 * x for x in row] for row in FakeEncoder().encode_documents(texts).tolist()])


def status(code: int, content: bytes = b"no", **headers: str) -> Answer:
    return lambda handler, texts: handler.reply_raw(code, content, **headers)


def rows(make: Callable[[int], Sequence[Sequence[float]]]) -> Answer:
    return lambda handler, texts: handler.vectors(make(len(texts)))


def hang_up(handler: Handler, texts: list[str]) -> None:
    handler.close_connection = True


def cut_off(handler: Handler, texts: list[str]) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"embeddings": [[')
    handler.close_connection = True


TEXTS = [f"text about {word}" for word in ("boats", "rivers", "bread", "ovens", "stars")]


@pytest.fixture
def server() -> Iterator[Script]:
    with model_server() as script:
        yield script


Opener = Callable[..., RemoteEncoder]


@pytest.fixture(params=["ollama", "openai"])
def encoder(request: pytest.FixtureRequest, server: Script) -> Opener:
    """Opens an encoder of either kind on the server, one that notes its pauses instead of sleeping."""
    return lambda **settings: opened(request.param, server, **settings)


def opened(kind: str, server: Script, pauses: list[float] | None = None, **changes: object) -> RemoteEncoder:
    usual = {"kind": kind, "model": "good", "url": server.url, "batch_size": 4, "parallel": 1}
    settings = EncoderSettings(**{**usual, **changes})  # type: ignore[arg-type] # the tests' own names
    noted: list[float] = [] if pauses is None else pauses
    if kind == "ollama":
        return RemoteEncoder(OllamaServer("good", server.url), settings, 0.5, noted.append)
    return RemoteEncoder(OpenAIServer("good", f"{server.url}/v1", "key"), settings, 0.5, noted.append)


def test_vectors_come_in_order_in_batches_and_at_length_one(encoder: Opener, server: Script) -> None:
    vectors = encoder().encode_documents(TEXTS)
    np.testing.assert_allclose(vectors, FakeEncoder().encode_documents(TEXTS), atol=1e-6)
    assert server.inputs() == [["dimension"], TEXTS[:4], TEXTS[4:]]


def test_ollama_is_told_not_to_cut_and_no_key_of_the_environment_is_sent(
    server: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "secret")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    opened("ollama", server).encode_documents(TEXTS)
    bodies = [body for path, body in server.requests if path == "/api/embed"]
    assert {body["truncate"] for body in bodies} == {False}
    assert not any("authorization" in headers for headers in server.headers)


def test_the_key_comes_from_the_variable_that_is_named(server: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "abc")
    settings = EncoderSettings(kind="openai", model="good", url=f"{server.url}/v1/", api_key_env="MY_KEY")
    encoder = open_encoder(settings)
    assert encoder
    encoder.encode_queries(["question"])
    assert {headers["authorization"] for headers in server.headers} == {"Bearer abc"}


def test_prefixes_are_sent_and_counted(encoder: Opener, server: Script) -> None:
    prefixed = encoder(query_prefix="query: ", document_prefix="passage: ", max_tokens=20)
    prefixed.encode_documents(["text"])
    prefixed.encode_queries(["question"])
    assert server.inputs()[1:] == [["passage: text"], ["query: question"]]
    assert prefixed.max_tokens == 18


def test_fingerprint_names_model_and_digest_but_not_the_server() -> None:
    with model_server() as one, model_server() as other:
        prints = {opened("ollama", one).fingerprint, opened("ollama", other).fingerprint}
        assert len(prints) == 1
        assert prints.isdisjoint({opened("openai", one).fingerprint, opened("ollama", one, max_tokens=100).fingerprint})


def test_a_batch_that_is_refused_is_halved_and_the_text_to_blame_is_named(encoder: Opener, server: Script) -> None:
    server.answers.extend([well, status(500), status(400)])
    vectors = encoder().encode_documents(TEXTS[:4])
    np.testing.assert_allclose(vectors, FakeEncoder().encode_documents(TEXTS[:4]), atol=1e-6)
    assert [len(batch) for batch in server.inputs()] == [1, 4, 2, 1, 1, 2]
    server.longest = 60
    with pytest.raises(EncoderError, match=r"refuses a text of about \d+ tokens \('long long.*exceeds the context"):
        encoder().encode_documents([*TEXTS[:3], "long " * 20])


@pytest.mark.parametrize("fault", [status(503), hang_up, cut_off])
def test_what_may_pass_is_tried_again(encoder: Opener, server: Script, fault: Answer) -> None:
    server.answers.extend([well, fault, fault, fault])
    pauses: list[float] = []
    assert encoder(pauses=pauses).encode_documents(TEXTS[:1]).shape == (1, 64)
    assert pauses == [0.5, 1, 2]
    server.answers.extend([fault] * 2)
    with pytest.raises(EncoderError, match=r"busy|cannot be reached"):
        encoder(pauses=pauses).encode_queries(["question"])
    assert pauses == [0.5, 1, 2, 0.3]


def test_a_server_that_is_not_there(encoder: Opener, server: Script) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server.url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(EncoderError, match=r"cannot be reached .*(start it with `ollama serve`|is it running\?)"):
            encoder().encode_documents(TEXTS)


NO_VECTORS: dict[str, tuple[Answer, str]] = {
    "too few": (rows(lambda n: [[1.0, 2.0]] * (n - 1)), r"shape \(3, 2\)|3 vectors for 4 texts"),
    "of several lengths": (rows(lambda n: [[1.0], [1.0, 2.0]] * (n // 2)), "no vectors of one length"),
    "of another length than before": (rows(lambda n: [[1.0, 2.0]] * n), "of 64 and of 2 numbers"),
    "NaN": (rows(lambda n: [[float("nan"), 1.0]] * n), "NaN"),
    "infinite": (rows(lambda n: [[float("inf"), 1.0]] * n), "NaN or infinity"),
    "zero": (rows(lambda n: [[0.0, 0.0]] * n), "zeros"),
    "empty": (rows(lambda n: [[]] * n), "shape"),
    "not JSON": (status(200, b"<html>"), "gave something that is no"),
    "another shape": (status(200, b'{"embeddings": 5, "data": 5}'), "gave something that is no"),
    "a list": (status(200, b"[]"), "gave something that is no"),
    "not found": (status(404, b"no such model"), "ollama pull good|status 404: no such model"),
    "forbidden": (status(401, b"a\x1b[31m\nkey"), r"status 401: a\[31m key"),
}


@pytest.mark.parametrize("fault", NO_VECTORS)
def test_what_is_no_vector_is_not_believed_and_not_asked_for_again(encoder: Opener, server: Script, fault: str) -> None:
    answer, message = NO_VECTORS[fault]
    server.answers.extend([well, answer])
    with pytest.raises(EncoderError, match=message):
        encoder().encode_documents(TEXTS[:4])
    assert len(server.inputs()) == 2


def test_texts_do_not_follow_a_redirect(encoder: Opener, server: Script) -> None:
    with model_server() as elsewhere:
        server.answers.append(status(307, b"", location=f"{elsewhere.url}/api/embed"))
        with pytest.raises(EncoderError, match="status 307"):
            encoder().encode_documents(TEXTS)
        assert not elsewhere.requests


def test_an_answer_that_never_comes_or_never_ends(encoder: Opener, server: Script) -> None:
    ended = threading.Event()

    def trickle(handler: Handler, texts: list[str]) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        while not ended.wait(0.02):
            try:
                handler.wfile.write(b" ")
            except OSError:
                break
        handler.close_connection = True

    def silence(handler: Handler, texts: list[str]) -> None:
        ended.wait()
        handler.close_connection = True

    try:
        for answer in (silence, trickle):
            server.answers.extend([answer])
            with pytest.raises(EncoderError, match="in time"):
                encoder(question_seconds=0.15).encode_queries(["question"])
    finally:
        ended.set()


def test_a_long_document_is_refused_and_a_long_question_is_cut(encoder: Opener, server: Script) -> None:
    small = encoder(max_tokens=16)
    with pytest.raises(EncoderError, match="text 1 has 32 tokens and the encoder reads 16"):
        small.encode_documents(["short", "word " * 30])
    assert unread_tokens(small, ["word " * 30]) == [16]
    small.encode_queries(["word " * 30])
    assert server.inputs()[-1] == [("word " * 14).strip()]


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


def test_a_model_that_ollama_does_not_have(server: Script) -> None:
    with pytest.raises(EncoderError, match="ollama pull better"):
        RemoteEncoder(OllamaServer("better", server.url), EncoderSettings(), 0.5).fingerprint  # noqa: B018 - it asks
