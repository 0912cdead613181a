"""A scripted server of OpenAI's API on loopback, for the real `openai` client, with a `/rerank` beside it.

    with scripted_openai(lambda asked: {"queries": [asked.material]}) as server:
        generator = open_generator(LlmSettings(kind="openai", model="small", url=server.url))

What it writes comes as events, as LM Studio, llama.cpp and vLLM send them. An answer is a function of what was asked,
as in tests/real/scripted_ollama.py: a text, an object that is written as JSON, or a `Fault`.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.real.loopback import Fault as Fault
from tests.real.loopback import LoopbackHandler, LoopbackServer, fault, serving
from tests.real.loopback import hang_up as hang_up
from tests.real.scripted_ollama import tokens


@dataclass(frozen=True)
class Asked:
    path: str
    body: Mapping[str, Any]

    @property
    def instructions(self) -> str:
        return str(self.body["messages"][0]["content"])

    @property
    def material(self) -> str:
        return str(self.body["messages"][1]["content"])

    @property
    def properties(self) -> set[str]:
        """The keys that the schema of the answer has, wherever it stands: they tell the stages apart."""
        given = self.body.get("response_format")
        schema = given["json_schema"]["schema"] if given else json.loads(self.instructions.split("JSON schema: ")[1])
        return set(schema["properties"])

    @property
    def candidates(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.material.split("\n") if line.startswith('{"number"')]


Answer = Callable[[Asked], object]


@dataclass
class ScriptedOpenAI:
    answer: Answer
    """To every request for text."""
    rank: Callable[[Mapping[str, Any]], object] = lambda body: {
        "results": [{"index": place, "relevance_score": 0.5} for place in range(len(body["documents"]))]
    }
    """To every request for an order; a `Fault` as well."""
    once: deque[Answer | Fault] = field(default_factory=deque)
    """To the next requests, of either kind."""
    models: list[dict[str, Any]] | None = field(default_factory=lambda: [{"id": "small", "object": "model"}])
    """None: it has no list of them."""
    key: str = ""
    """What it wants to see; empty: nothing."""
    refuses: Sequence[str] = ()
    """Fields of a request that it does not know, as strict servers say."""
    says_nothing: bool = False
    """Whether it refuses without a word of the field."""
    timings: Mapping[str, float] | None = None
    """As llama.cpp measures."""
    requests: list[tuple[str, Mapping[str, Any], Mapping[str, str]]] = field(default_factory=list)
    """Path, body and headers (lower case) of all that was asked, in order."""
    server: LoopbackServer | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        assert self.server
        return f"{self.server.url}/v1"

    @property
    def asked(self) -> list[Asked]:
        return [Asked(path, body) for path, body, _ in self.requests if path.endswith("/chat/completions")]

    @property
    def paths(self) -> list[str]:
        return [path for path, _, _ in self.requests]


@contextmanager
def scripted_openai(answer: Answer = lambda asked: {}) -> Iterator[ScriptedOpenAI]:
    script = ScriptedOpenAI(answer)

    class Scripted(OpenAIHandler):
        pass

    Scripted.script = script
    with serving(Scripted) as script.server:
        try:
            yield script
        finally:
            script.ended.set()


class OpenAIHandler(LoopbackHandler):
    script: ScriptedOpenAI

    def do_GET(self) -> None:
        self.script.requests.append((self.path, {}, self.lower_headers()))
        if self._refuses_key():
            return
        if self.script.models is None or self.path != "/v1/models":
            self.reply(404, {"detail": "Not Found"})
        else:
            self.reply(200, {"object": "list", "data": self.script.models})

    def do_POST(self) -> None:
        asked = Asked(self.path, self.body())
        self.script.requests.append((self.path, asked.body, self.lower_headers()))
        unknown = [name for name in self.script.refuses if name in asked.body]
        if self._refuses_key():
            return
        if unknown:
            said = (
                "Bad Request" if self.script.says_nothing else f"Unrecognized request argument supplied: {unknown[0]}"
            )
            self.reply(400, {"error": {"message": said, "type": "invalid_request_error"}})
            return
        is_rank = self.path.endswith("/rerank")
        given = self.script.once.popleft() if self.script.once else None
        if given is None:
            given = (lambda asked: self.script.rank(asked.body)) if is_rank else self.script.answer
        answer = given if isinstance(given, Fault) else given(asked)
        if isinstance(answer, Fault):
            answer.do(self, asked)
        elif is_rank:
            self.reply(200, answer)
        else:
            self.write(asked, answer if isinstance(answer, str) else json.dumps(answer))

    def _refuses_key(self) -> bool:
        sent = self.headers.get("authorization", "")
        if not self.script.key or sent == f"Bearer {self.script.key}":
            return False
        self.reply(401, {"error": {"message": f"Incorrect API key provided: {sent.removeprefix('Bearer ')}"}})
        return True

    def write(self, asked: Asked, text: str, *, thinking: str = "", reason: str = "", end: str = "[DONE]") -> None:
        """The model writes the text, as far as its max_tokens reach."""
        most = asked.body.get("max_tokens") or asked.body.get("max_completion_tokens") or 10**6
        thoughts, pieces = ([part[start : start + 4] for start in range(0, len(part), 4)] for part in (thinking, text))
        cut = [*thoughts, *pieces][:most]
        self.begin()
        self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
        for place, piece in enumerate(cut):
            self.piece(piece, "reasoning_content" if place < len(thoughts) else "content")
        reason = reason or ("length" if len(cut) < len(thoughts) + len(pieces) else "stop")
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        if (asked.body.get("stream_options") or {}).get("include_usage"):
            read = tokens(asked.instructions) + tokens(asked.material)
            usage = {"prompt_tokens": read, "completion_tokens": len(cut), "total_tokens": read + len(cut)}
            timings = {"timings": self.script.timings} if self.script.timings else {}
            self.event({"choices": [], "usage": usage, **timings})
        if end:
            self.send(f"data: {end}\n\n".encode())
        self.end()

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def piece(self, text: str, name: str = "content") -> None:
        self.event({"choices": [{"index": 0, "delta": {name: text}, "finish_reason": None}]})

    def event(self, content: Mapping[str, Any]) -> None:
        whole = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "small", **content}
        self.send(b"data: " + json.dumps(whole).encode() + b"\n\n")

    def send(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))

    def end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")


def status(code: int, content: object = None, **headers: str) -> Fault:
    error = {"error": {"message": f"scripted {code}"}} if content is None else content
    raw = error.encode() if isinstance(error, str) else json.dumps(error).encode()
    return Fault(lambda handler, asked: handler.reply_raw(code, raw, **headers))


def written(text: str, **more: str) -> Fault:
    return Fault(lambda handler, asked: handler.write(asked, text, **more))


@fault
def raw_events(handler: OpenAIHandler, asked: Asked, *contents: bytes) -> None:
    handler.begin()
    for content in contents:
        handler.send(content)
    handler.end()


@fault
def cut_stream(handler: OpenAIHandler, asked: Asked) -> None:
    """The stream ends well, without a reason."""
    handler.begin()
    handler.piece("{")
    handler.send(b"data: [DONE]\n\n")
    handler.end()


@fault
def closed(handler: OpenAIHandler, asked: Asked) -> None:
    """The connection ends in the middle of the answer."""
    handler.begin()
    handler.piece('{"queries": [')
    handler.close_connection = True


@fault
def silence(handler: OpenAIHandler, asked: Asked, begins: bool = False) -> None:
    """Nothing ever comes, or nothing more."""
    if begins:
        handler.begin()
        handler.piece("{")
    handler.script.ended.wait()
    handler.close_connection = True


@fault
def endless(handler: OpenAIHandler, asked: Asked) -> None:
    handler.begin()
    try:
        while not handler.script.ended.is_set():
            handler.piece(" ")
    except OSError:  # the client went away
        handler.close_connection = True
