"""A scripted Ollama on loopback, for the real `ollama` client: it answers as it is told, or goes wrong as it is told.

    with scripted_ollama(lambda asked: {"queries": [asked.material]}) as ollama:
        generator = open_generator(LlmSettings(url=ollama.url))
        ...
        ollama.answer = cut_stream          # from now on
        ollama.once.append(status(503))     # for the next request alone
        assert ollama.asked[0].prompt_tokens < ollama.asked[0].num_ctx

An answer is a function of what was asked. It gives a text, which is what the model writes; or any other object, which
the model writes as JSON; or a `Fault`, which does with the connection what it likes.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fake_encoder import FakeEncoder
from tests.real.loopback import Fault as Fault
from tests.real.loopback import LoopbackHandler, LoopbackServer, serving
from tests.real.loopback import fault as fault
from tests.real.loopback import hang_up as hang_up

CHARS_PER_TOKEN = 4
"""This model's tokens: runs of four characters."""
_TEXT = frozenset({"/api/chat", "/api/generate"})


@dataclass(frozen=True)
class Asked:
    path: str
    body: Mapping[str, Any]

    @property
    def model(self) -> str:
        return str(self.body["model"])

    @property
    def instructions(self) -> str:
        return "\n".join(message["content"] for message in self._messages if message["role"] == "system")

    @property
    def material(self) -> str:
        return "\n".join(message["content"] for message in self._messages if message["role"] == "user")

    @property
    def properties(self) -> set[str]:
        """The keys that the schema of the answer has: they tell the stages apart."""
        schema = self.body.get("format") or {}
        return set(schema.get("properties", {}))

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """What the reranking shows of the sections, in its order."""
        return [json.loads(line) for line in self.material.split("\n") if line.startswith('{"number"')]

    @property
    def num_ctx(self) -> int:
        return int(self.body["options"]["num_ctx"])

    @property
    def num_predict(self) -> int:
        return int(self.body["options"]["num_predict"])

    @property
    def prompt_tokens(self) -> int:
        return tokens(self.instructions) + tokens(self.material)

    @property
    def _messages(self) -> Sequence[Mapping[str, str]]:
        generate = [
            {"role": "system", "content": self.body.get("system", "")},
            {"role": "user", "content": self.body.get("prompt", "")},
        ]
        messages: Sequence[Mapping[str, str]] = self.body.get("messages", generate)
        return messages


Answer = Callable[[Asked], object]


@dataclass(frozen=True)
class Model:
    capabilities: tuple[str, ...] = ("completion", "tools")
    context_length: int = 131_072
    thinking: tuple[bool | str, ...] | None = None
    """What `think` may be; None: the server has nothing to say of it."""


@dataclass
class ScriptedOllama:
    """What the server does, and what it was asked."""

    answer: Answer
    """To every request for text, once `once` is empty."""
    once: deque[Answer | Fault] = field(default_factory=deque)
    """To the next requests for text."""
    models: dict[str, Model] = field(
        default_factory=lambda: {"llama3.2:latest": Model(), "nomic-embed-text:latest": Model(("embedding",), 2048)}
    )
    loaded: set[str] = field(default_factory=lambda: {"llama3.2:latest"})
    version: str = "0.13.5"
    reads: float = 0.0
    """Tokens a second, as it says of its answers; 0: it says nothing of its speed."""
    writes: float = 0.0
    waits: bool = False
    """Whether it takes as long as it says."""
    health: Fault | None = None
    """What happens to every request that is not for text; None: it is answered."""
    requests: list[tuple[str, Mapping[str, Any], Mapping[str, str]]] = field(default_factory=list)
    """Path, body and headers (lower case) of all that was asked, in order."""
    server: LoopbackServer | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when the test is over: nothing waits longer."""

    @property
    def url(self) -> str:
        assert self.server
        return self.server.url

    @property
    def asked(self) -> list[Asked]:
        return [Asked(path, body) for path, body, _ in self.requests if path in _TEXT]

    @property
    def paths(self) -> list[str]:
        return [path for path, _, _ in self.requests]

    def kill(self) -> None:
        assert self.server
        self.server.kill()

    def find(self, name: str) -> str | None:
        """The model's full name, when it is here."""
        return next((full for full in (name, f"{name}:latest") if full in self.models), None)


QUESTION = "who pays for the journey when I put something into the red box?"
"""On the pages of tests/shelf.py, in other words than theirs."""
HELPFUL = {
    "queries": ["who pays for the journey of a letter?"],
    "hyde": ["A stamp pays for the journey of a letter. It is put on before the red box."],
    "hyde_answer": "The stamp pays for the journey.",
    "intent": "MECHANISM",
    "entities": ["red box", "Royal Mail"],
}


def help_and_reverse(asked: Asked) -> object:
    """Expands that question, and reverses every list of candidates."""
    if "queries" in asked.properties:
        return HELPFUL
    return {"best_first": [item["number"] for item in reversed(asked.candidates)]}


@contextmanager
def scripted_ollama(answer: Answer = lambda asked: {}) -> Iterator[ScriptedOllama]:
    """An Ollama with the chat model `llama3.2`, which is loaded, and the embedding model `nomic-embed-text`."""
    ollama = ScriptedOllama(answer)

    class Scripted(OllamaHandler):
        script = ollama

    with serving(Scripted) as ollama.server:
        try:
            yield ollama
        finally:
            ollama.ended.set()


class OllamaHandler(LoopbackHandler):
    script: ScriptedOllama

    def do_GET(self) -> None:
        self._note({})
        if self.script.health:
            return self.script.health.do(self, Asked(self.path, {}))
        listed = self.script.loaded if self.path == "/api/ps" else self.script.models
        models = [_listed(name) for name in sorted(listed)]
        self.reply(200, {"version": self.script.version} if self.path == "/api/version" else {"models": models})
        return None

    def do_POST(self) -> None:
        body = self.body()
        self._note(body)
        asked = Asked(self.path, body)
        name = self.script.find(asked.model)
        if self.path not in _TEXT and self.script.health:
            self.script.health.do(self, asked)
        elif name is None:
            self.reply(404, {"error": f"model '{asked.model}' not found"})
        elif self.path == "/api/show":
            self._show(self.script.models[name])
        elif self.path == "/api/embed":
            self._embed(asked)
        else:
            self._write(asked, name)

    def _show(self, model: Model) -> None:
        info = {"general.architecture": "llama", "llama.context_length": model.context_length}
        shown = {"model_info": info, "capabilities": model.capabilities, "details": {"family": "llama"}}
        if model.thinking is not None:
            shown["thinking"] = {"values": model.thinking, "default": model.thinking[-1]}
        self.reply(200, shown)

    def _embed(self, asked: Asked) -> None:
        texts = asked.body["input"]
        rows = FakeEncoder().encode_documents([texts] if isinstance(texts, str) else texts)
        self.reply(200, {"model": asked.model, "embeddings": rows.tolist()})

    def _write(self, asked: Asked, name: str) -> None:
        if "completion" not in self.script.models[name].capabilities:
            verb = asked.path.removeprefix("/api/")
            return self.reply(400, {"error": f'"{asked.model}" does not support {verb}'})
        given = self.script.once.popleft() if self.script.once else self.script.answer
        answer = given if isinstance(given, Fault) else given(asked)
        if isinstance(answer, Fault):
            answer.do(self, asked)
        else:
            self.write(asked, answer if isinstance(answer, str) else json.dumps(answer))
        return None

    def write(self, asked: Asked, text: str, *, thinking: str = "", reason: str = "") -> None:
        """The model writes the text, as far as its num_predict reaches."""
        if self.script.waits:
            self.script.ended.wait(asked.prompt_tokens / self.script.reads)
        self.begin()
        pieces = _pieces(text)[: asked.num_predict] if asked.num_predict >= 0 else _pieces(text)
        for piece in _pieces(thinking):
            self.line(_part(asked, "", thinking=piece))
        for piece in pieces:
            if self.script.waits:
                self.script.ended.wait(1 / self.script.writes)
            self.line(_part(asked, piece))
        reason = reason or ("stop" if "".join(pieces) == text else "length")
        last = last_line(asked, reason, len(pieces))
        if self.script.reads:
            last |= {"prompt_eval_duration": int(1e9 * last["prompt_eval_count"] / self.script.reads)}
            last |= {"eval_duration": int(1e9 * len(pieces) / self.script.writes)}
        self.line(last)
        self.end()

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def line(self, content: object) -> None:
        self.send(json.dumps(content).encode() + b"\n")

    def send(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))

    def end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def _note(self, body: Mapping[str, Any]) -> None:
        self.script.requests.append((self.path, body, self.lower_headers()))


def tokens(text: str) -> int:
    return -(-len(text) // CHARS_PER_TOKEN)


def _pieces(text: str) -> list[str]:
    return [text[start : start + CHARS_PER_TOKEN] for start in range(0, len(text), CHARS_PER_TOKEN)]


def _listed(name: str) -> dict[str, Any]:
    return {"name": name, "model": name, "digest": f"digest of {name}", "size": 2_019_393_189}


def _part(asked: Asked, content: str, **more: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more}
    text = {"message": message} if asked.path == "/api/chat" else {"response": content, **more}
    return {"model": asked.model, "created_at": "2026-01-01T00:00:00Z", **text, "done": False}


def last_line(asked: Asked, reason: str = "stop", written: int = 1) -> dict[str, Any]:
    """As Ollama, which cuts a longer prompt in silence and then counts num_ctx tokens."""
    counts = {"prompt_eval_count": min(asked.prompt_tokens, asked.num_ctx), "eval_count": written}
    return {**_part(asked, ""), "done": True, "done_reason": reason, "total_duration": 5_000_000, **counts}


def status(code: int, content: object = None, **headers: str) -> Fault:
    """An HTTP status; text is sent as it is, any other object as JSON."""
    error = {"error": f"scripted {code}"} if content is None else content
    raw = error.encode() if isinstance(error, str) else json.dumps(error).encode()
    return Fault(lambda handler, asked: handler.reply_raw(code, raw, **headers))


def busy() -> Fault:
    return status(503, {"error": "server busy, please try again.  maximum pending requests exceeded"})


def redirect(url: str) -> Fault:
    return status(307, "", location=f"{url}/api/chat")


def bad_gateway() -> Fault:
    return status(502, "<html><body><h1>502 Bad Gateway</h1></body></html>")


@fault
def lines(handler: OllamaHandler, asked: Asked, *contents: object) -> None:
    """A complete stream of these lines: bytes as they are, any other object as JSON."""
    handler.begin()
    for content in contents:
        handler.send(content) if isinstance(content, bytes) else handler.line(content)
    handler.end()


@fault
def error_line(handler: OllamaHandler, asked: Asked, message: str) -> None:
    """What Ollama says in the middle of a stream, when its runner dies."""
    handler.begin()
    handler.line(_part(asked, '{"'))
    handler.line({"error": message})
    handler.end()


@fault
def cut_stream(handler: OllamaHandler, asked: Asked, text: str = '{"queries": [') -> None:
    """The stream ends well, without its last line."""
    handler.begin()
    handler.line(_part(asked, text))
    handler.end()


@fault
def closed(handler: OllamaHandler, asked: Asked, text: str = '{"queries": [') -> None:
    """The connection ends in the middle of the answer."""
    handler.begin()
    handler.line(_part(asked, text))
    handler.close_connection = True


@fault
def silence(handler: OllamaHandler, asked: Asked) -> None:
    """Nothing ever comes."""
    handler.script.ended.wait()
    handler.close_connection = True


@fault
def delayed(handler: OllamaHandler, asked: Asked, seconds: float, answer: object) -> None:
    handler.script.ended.wait(seconds)
    handler.write(asked, answer if isinstance(answer, str) else json.dumps(answer))


@fault
def killed(handler: OllamaHandler, asked: Asked, text: str = '{"queries": [') -> None:
    """The server dies in the middle of its answer."""
    handler.begin()
    handler.line(_part(asked, text))
    handler.script.kill()


def written(text: str, *, thinking: str = "", reason: str = "") -> Fault:
    return Fault(lambda handler, asked: handler.write(asked, text, thinking=thinking, reason=reason))


@fault
def endless(handler: OllamaHandler, asked: Asked, text: str = " ", every_s: float = 0.0) -> None:
    handler.begin()
    _for_ever(handler, lambda: handler.line(_part(asked, text)), every_s)


@fault
def trickle(handler: OllamaHandler, asked: Asked, every_s: float = 0.05) -> None:
    """One byte of an answer after another, for ever."""
    handler.begin()
    _for_ever(handler, lambda: handler.send(b" "), every_s)


@fault
def trickled_headers(handler: OllamaHandler, asked: Asked, every_s: float = 0.05) -> None:
    """One byte of a header after another, for ever."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
    _for_ever(handler, lambda: handler.wfile.write(b"x"), every_s)


def _for_ever(handler: OllamaHandler, act: Callable[[], object], every_s: float) -> None:
    handler.close_connection = True
    started = time.monotonic()
    while not handler.script.ended.wait(every_s) and time.monotonic() - started < 30:
        try:
            act()
        except OSError:  # the client went away
            return
