"""A scripted model server on loopback: it speaks Ollama's API and OpenAI's, and answers, or goes wrong, as it is told.

    with scripted_server(lambda asked: {"queries": [asked.material]}) as server:
        generator = server.open()
        ...
        server.answer = lambda asked: cut_stream()    # from now on
        server.once.append(status(503))               # for the next request alone
        assert server.asked[0].prompt_tokens < server.asked[0].num_ctx

An answer is a function of what was asked. It gives a text, which is what the model writes; or any other object, which
the model writes as JSON; or a `Fault`, which does with the connection what it likes.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec

from retriever.served.generator import Generator
from retriever.served.task import ABILITIES, PROBE_VERSION, Abilities
from retriever.settings import LlmSettings, Profile
from tests.fake_encoder import FakeEncoder
from tests.real.loopback import LoopbackHandler, LoopbackServer, serving

CHARS_PER_TOKEN = 4
"""This model's tokens: runs of four characters."""


@dataclass(frozen=True)
class Asked:
    path: str
    body: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """`write`, `embed` or `rank`; empty for questions about the server and its models."""
        ends = {"chat": "write", "completions": "write", "embed": "embed", "embeddings": "embed", "rerank": "rank"}
        return ends.get(self.path.rpartition("/")[2], "")

    @property
    def is_ollama(self) -> bool:
        return self.path.startswith("/api/")

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def instructions(self) -> str:
        return str(self.body["messages"][0]["content"])

    @property
    def material(self) -> str:
        return str(self.body["messages"][1]["content"])

    @property
    def has_schema(self) -> bool:
        return bool(self.body.get("format") or self.body.get("response_format"))

    @property
    def properties(self) -> set[str]:
        """The keys that the schema of the answer has, wherever it stands: they tell the stages apart."""
        given = self.body.get("response_format")
        schema = given["json_schema"]["schema"] if given else self.body.get("format")
        if not schema:
            _, _, words = self.instructions.partition("JSON schema: ")
            schema = json.loads(words) if words else {}
        return set(schema.get("properties", {}))

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """The texts of sections that a request to rerank shows, in its order."""
        return self.shown("number")

    def shown(self, key: str) -> list[dict[str, Any]]:
        """The objects of the material that begin with that key, in their order."""
        return [json.loads(line) for line in self.material.split("\n") if line.startswith(f'{{"{key}"')]

    def block_of(self, words: str) -> int:
        """The number of the first block of the documents that holds these words."""
        return next(int(block["block"]) for block in self.shown("block") if words in block["text"])

    def cite(self, words: str, quote: str, *texts: str) -> dict[str, Any]:
        """An answer of these sentences, each with that quote from the block that holds the words."""
        block = self.block_of(words)
        return {"sentences": [{"block": block, "quote": quote, "text": text} for text in texts]}

    @property
    def num_ctx(self) -> int:
        return int(self.body["options"]["num_ctx"])

    @property
    def num_predict(self) -> int:
        if self.is_ollama:
            return int(self.body["options"]["num_predict"])
        return int(self.body.get("max_tokens") or self.body["max_completion_tokens"])

    @property
    def prompt_tokens(self) -> int:
        return tokens(self.instructions) + tokens(self.material)


Answer = Callable[[Asked], object]


@dataclass(frozen=True)
class Fault:
    """An action on a connection instead of an answer, given its handler and the request."""

    do: Callable[[Any, Any], None]


Told = ParamSpec("Told")


def fault(do: Callable[Concatenate[Any, Any, Told], None]) -> Callable[Told, Fault]:
    """Make a fault of a function that acts on a connection."""

    def make(*arguments: Told.args, **named: Told.kwargs) -> Fault:
        return Fault(lambda handler, asked: do(handler, asked, *arguments, **named))

    return make


@dataclass(frozen=True)
class Model:
    """A model of Ollama's."""

    capabilities: tuple[str, ...] = ("completion", "tools")
    context_length: int = 131_072


def rank_words(asked: Asked) -> object:
    """Best first, as servers answer; scores by the words that question and document share."""
    words, texts = set(asked.body["query"].lower().split()), asked.body["documents"]
    scores = [len(words & set(text.lower().split())) / 20 for text in texts]
    order = sorted(range(len(texts)), key=lambda place: -scores[place])[: asked.body["top_n"]]
    return {"results": [{"index": place, "relevance_score": scores[place]} for place in order]}


def embed_words(asked: Asked) -> Sequence[Sequence[float]]:
    """Vectors in which shared words are nearness, three times as long as one."""
    texts = asked.body["input"]
    rows: list[list[float]] = (
        3 * FakeEncoder().encode_documents([texts] if isinstance(texts, str) else texts)
    ).tolist()
    return rows


@dataclass
class ScriptedServer:
    """The script of the server, and the requests that it got."""

    answer: Answer  # to every request for text, once `once` is empty
    embed: Answer = embed_words  # to every request for vectors: their rows, or a `Fault`
    rank: Answer = rank_words  # to every request for an order: its JSON, or a `Fault`
    once: deque[Answer | Fault] = field(default_factory=deque)  # to the next requests of these kinds
    models: dict[str, Model] = field(
        default_factory=lambda: {"llama3.2:latest": Model(), "nomic-embed-text:latest": Model(("embedding",), 2048)}
    )
    """As Ollama has them."""
    listed: list[Any] = field(default_factory=lambda: [{"id": "llama3.2", "object": "model", "max_model_len": 131_072}])
    """The models of OpenAI's API."""
    described: dict[str, Any] = field(default_factory=dict)
    """By path, what it says of itself in place of that or besides: JSON, or a `Fault`."""
    reads: float = 0.0  # tokens a second, as it says of its answers; 0: it says nothing of its speed
    writes: float = 0.0
    waits: bool = False  # whether it takes as long as it says
    kind: str = "ollama"  # whose API it is asked by
    requests: list[tuple[str, Mapping[str, Any], Mapping[str, str]]] = field(default_factory=list)
    """Path, body and headers (lower case) of all that was asked, in order."""
    server: LoopbackServer | None = None
    ended: threading.Event = field(default_factory=threading.Event)  # set when the test is over: nothing waits longer

    @property
    def address(self) -> str:
        """Without a path."""
        assert self.server
        return self.server.url

    @property
    def url(self) -> str:
        """Where it is asked by its kind."""
        return self.address if self.kind == "ollama" else self.v1

    @property
    def v1(self) -> str:
        """Where it speaks OpenAI's API."""
        return f"{self.address}/v1"

    def open(self, **settings: Any) -> Generator:  # noqa: ANN401 - as the settings have them
        """A generator that asks it."""
        return Generator(Profile(llm=LlmSettings(**{"url": self.url, **settings})))

    def of_kind(self, kind: str) -> list[Asked]:
        """The requests to `write`, `embed` or `rank`."""
        return [asked for asked in (Asked(path, body) for path, body, _ in self.requests) if asked.kind == kind]

    @property
    def asked(self) -> list[Asked]:
        return self.of_kind("write")

    @property
    def paths(self) -> list[str]:
        return [path for path, _, _ in self.requests]

    def remember(self, abilities: Abilities, model: str = "llama3.2") -> None:
        """Record a model as able, as each API names it."""
        for key in (f"{self.address} {model} digest of {self.find(model)}", f"{self.v1} {model} "):
            ABILITIES.write(f"{key} {PROBE_VERSION}", abilities)

    def kill(self) -> None:
        assert self.server
        self.server.kill()

    def find(self, name: str) -> str | None:
        """The full name of Ollama's model, when it is here."""
        return next((full for full in (name, f"{name}:latest") if full in self.models), None)


QUESTION = "who pays for the journey when I put something into the red box?"
"""On the pages of tests/shelf.py, in other words than theirs."""
HELPFUL = {
    "queries": ["who pays for the letter in the red-box?"],  # its other words are near the question for FakeEncoder
    "hyde": ["A stamp pays for the journey of a letter. It is glued on before the red-box."],
    "intent": "MECHANISM",
}


def help_and_reverse(asked: Asked) -> object:
    """Expands that question, and reverses every list of candidates."""
    if "intent" in asked.properties:
        return HELPFUL
    return {"best_first": [item["number"] for item in reversed(asked.candidates)]}


@contextmanager
def scripted_server(answer: Answer = lambda asked: {}) -> Iterator[ScriptedServer]:
    """A server with the chat model `llama3.2`, and the embedding model `nomic-embed-text`."""
    script = ScriptedServer(answer)

    class Scripted(ModelHandler):
        pass

    Scripted.script = script
    with serving(Scripted) as script.server:
        try:
            yield script
        finally:
            script.ended.set()


class ModelHandler(LoopbackHandler):
    script: ScriptedServer

    def do_GET(self) -> None:
        self._answer(Asked(self.path, {}))

    def do_POST(self) -> None:
        self._answer(Asked(self.path, self.body()))

    def _answer(self, asked: Asked) -> None:
        self.script.requests.append((self.path, asked.body, self.lower_headers()))
        given = self._choose(asked)
        if isinstance(given, Fault):
            given.do(self, asked)
        elif asked.kind == "write":
            self.write(asked, given if isinstance(given, str) else json.dumps(given))
        else:
            self.reply(200, shape_vectors(asked, given) if asked.kind == "embed" else given)

    def _choose(self, asked: Asked) -> object:
        """The script's answer to a request, or a `Fault`."""
        script = self.script
        if not asked.kind:
            return self._describe(asked)
        if asked.is_ollama and script.find(asked.model) is None:
            return status(404, {"error": f"model '{asked.model}' not found"})
        usual = {"write": script.answer, "embed": script.embed, "rank": script.rank}
        given = script.once.popleft() if script.once else usual[asked.kind]
        return given if isinstance(given, Fault) else given(asked)

    def _describe(self, asked: Asked) -> object:
        """The server's description of itself and of its models."""
        script = self.script
        known: dict[str, Any] = {
            "/api/tags": {"models": [{"model": name, "digest": f"digest of {name}"} for name in sorted(script.models)]},
            "/v1/models": {"data": script.listed},
        }
        if model := script.models.get(script.find(asked.model) or ""):
            info = {"general.architecture": "llama", "llama.context_length": model.context_length}
            known["/api/show"] = {"model_info": info, "capabilities": model.capabilities}
        return (known | script.described).get(self.path, status(404, {"error": "Not Found"}))

    # The pieces of a stream, in either API.

    def write(self, asked: Asked, text: str, *, thinking: str = "", reason: str = "") -> None:
        """The model writes the text, as far as it may."""
        thoughts, pieces = _pieces(thinking), _pieces(text)
        whole = [*((piece, True) for piece in thoughts), *((piece, False) for piece in pieces)]
        # Ollama's own limit does not cut thoughts here; OpenAI's does.
        most = asked.num_predict + len(thoughts) * asked.is_ollama
        # llama.cpp sends its headers at once, and then nothing until it has read the prompt; Ollama sends them late.
        if not asked.is_ollama:
            self.begin(asked)
        if self.script.waits:
            self.script.ended.wait(asked.prompt_tokens / self.script.reads)
        if asked.is_ollama:
            self.begin(asked)
        for piece, is_thought in whole[:most]:
            if self.script.waits:
                self.script.ended.wait(1 / self.script.writes)
            self.piece(asked, piece, is_thought=is_thought)
        written = min(len(whole), most)
        self.complete(asked, reason or ("stop" if written == len(whole) else "length"), written)

    def begin(self, asked: Asked) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson" if asked.is_ollama else "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def piece(self, asked: Asked, text: str, *, is_thought: bool = False) -> None:
        if asked.is_ollama:
            message = {"role": "assistant", "content": "" if is_thought else text}
            self.part(asked, {"message": {**message, **({"thinking": text} if is_thought else {})}, "done": False})
        else:
            delta = {"reasoning_content" if is_thought else "content": text}
            self.part(asked, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})

    def complete(self, asked: Asked, reason: str, written: int) -> None:
        reads, writes, read = self.script.reads, self.script.writes, asked.prompt_tokens
        if asked.is_ollama:
            read = min(read, asked.num_ctx)  # a longer prompt is cut in silence, and then num_ctx tokens are counted
            last = {"done": True, "done_reason": reason, "prompt_eval_count": read, "eval_count": written}
            if reads:
                last |= {"prompt_eval_duration": int(1e9 * read / reads), "eval_duration": int(1e9 * written / writes)}
            self.part(asked, last)
        else:
            self.part(asked, {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
            last = {"choices": [], "usage": {"prompt_tokens": read, "completion_tokens": written}}
            if reads:  # as llama.cpp measures
                last["timings"] = {
                    "prompt_n": read, "prompt_ms": 1e3 * read / reads,
                    "predicted_n": written, "predicted_ms": 1e3 * written / writes,
                }  # fmt: skip
            self.part(asked, last)
            self.send(b"data: [DONE]\n\n")
        self.end()

    def part(self, asked: Asked, content: object) -> None:
        """One line, or event, of a stream: bytes as they are, any other object as JSON."""
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send(raw + b"\n" if asked.is_ollama else b"data: " + raw + b"\n\n")

    def send(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))

    def end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")


def shape_vectors(asked: Asked, rows: Any) -> object:  # noqa: ANN401 - whatever the script gives
    """The rows in the shape that the path asks for; OpenAI's last one first, as their index allows."""
    if asked.is_ollama:
        return {"embeddings": rows}
    return {"data": [{"index": place, "embedding": row} for place, row in enumerate(rows)][::-1]}


def tokens(text: str) -> int:
    return -(-len(text) // CHARS_PER_TOKEN)


def _pieces(text: str) -> list[str]:
    return [text[start : start + CHARS_PER_TOKEN] for start in range(0, len(text), CHARS_PER_TOKEN)]


# What goes wrong. Those that break an answer begin one first where text is asked for.


def status(code: int, content: object = None, **headers: str) -> Fault:
    """An HTTP status; text is sent as it is, any other object as JSON."""
    error = {"error": f"scripted {code}"} if content is None else content
    raw = error.encode() if isinstance(error, str) else json.dumps(error).encode()
    return Fault(lambda handler, asked: handler.reply_raw(code, raw, **headers))


def written(text: str, *, thinking: str = "", reason: str = "") -> Fault:
    return Fault(lambda handler, asked: handler.write(asked, text, thinking=thinking, reason=reason))


@fault
def parts(handler: ModelHandler, asked: Asked, *contents: object) -> None:
    """A complete stream of these lines or events, as `part` has them."""
    handler.begin(asked)
    for content in contents:
        handler.part(asked, content)
    handler.end()


@fault
def hang_up(handler: ModelHandler, asked: Asked) -> None:
    """The connection ends before the answer."""
    handler.close_connection = True


def begin_answer(handler: ModelHandler, asked: Asked, text: str = '{"queries": [') -> None:
    handler.begin(asked)
    handler.piece(asked, text)


@fault
def cut_stream(handler: ModelHandler, asked: Asked, *text: str) -> None:
    """The stream ends well, without its last part."""
    begin_answer(handler, asked, *text)
    handler.end()


@fault
def closed(handler: ModelHandler, asked: Asked) -> None:
    """The connection ends in the middle of the answer."""
    begin_answer(handler, asked)
    handler.close_connection = True


@fault
def killed(handler: ModelHandler, asked: Asked) -> None:
    """The server dies in the middle of its answer."""
    begin_answer(handler, asked)
    handler.script.kill()


@fault
def silence(handler: ModelHandler, asked: Asked) -> None:
    """Nothing ever comes."""
    handler.script.ended.wait()
    handler.close_connection = True


@fault
def delayed(handler: ModelHandler, asked: Asked, seconds: float, answer: object) -> None:
    handler.script.ended.wait(seconds)
    handler.write(asked, answer if isinstance(answer, str) else json.dumps(answer))


@fault
def trickle(handler: ModelHandler, asked: Asked) -> None:
    """One byte of an answer after another, until the client goes away."""
    handler.begin(asked)
    handler.close_connection = True
    with suppress(OSError):
        while not handler.script.ended.wait(0.05):
            handler.send(b" ")
