"""A scripted server of embeddings on loopback: what Ollama and others say, and what they do wrong."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

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
    """Rows for that number of texts."""
    return lambda handler, texts: handler.vectors(make(len(texts)))


def hang_up(handler: Handler, texts: list[str]) -> None:
    handler.close_connection = True


def cut_off(handler: Handler, texts: list[str]) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"embeddings": [[')
    handler.close_connection = True
