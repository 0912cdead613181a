"""One model on one server, of Ollama or behind OpenAI's API: what it is asked, and what a fault means.

Both APIs are JSON over HTTP, of which a few fields are used. Their own clients take a second to import, cannot keep a
deadline, and pass over the comments by which a server shows that it is alive.
"""

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar, TypeVar

import numpy.typing as npt
from pydantic import AliasChoices, AliasPath, BaseModel, Field, ValidationError

from retriever.errors import (
    EncoderError,
    LanguageModelError,
    LanguageModelTimeoutError,
    NoGeneratorError,
    RerankerError,
    RetrieverError,
    UsageError,
    WrongAnswerError,
)
from retriever.served.task import Measured, Task
from retriever.served.transport import (
    BUSY,
    OverdueError,
    RefusedError,
    ServedError,
    StrangeAnswerError,
    UnreachableError,
    find_key,
    find_message,
    is_this_machine,
    ollama_url,
    one_line,
    open_reply,
    read_lines,
    server_url,
)
from retriever.settings import KEYS, LlmSettings

KEEP_ALIVE_S = (
    600  # that Ollama keeps a model loaded after a question: as long as one goes on asking, twice its default
)
USUAL_WINDOW = 4096  # tokens, where nobody says: what LM Studio and older versions of Ollama load by default
PAUSES_S = (0.3,)  # before the second try for which somebody waits
# For the thoughts of a model that cannot be told not to think; the least level takes some hundred.
THOUGHT_TOKENS = 1024
# Of faults, by the section of the settings; the language model has a kind for each.
ERRORS: Mapping[str, type[RetrieverError]] = {"encoder": EncoderError, "rerank": RerankerError}

T = TypeVar("T")


@dataclass(frozen=True)
class ModelInfo:
    """A server's description of a model, without running it."""

    window: int  # how many tokens it reads here
    weights: str = ""  # a mark that other weights of the same name lack; empty: the server gives none


def _find(*places: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - as pydantic's Field
    return Field(None, validation_alias=AliasChoices(*(AliasPath(*place) for place in places)))  # type: ignore[arg-type]


class StreamEvent(BaseModel):
    """One event of a stream: what of it is used, and where OpenAI's API and Ollama have it."""

    text: str | None = _find(("choices", 0, "delta", "content"), ("message", "content"))
    thought: str | None = _find(
        ("choices", 0, "delta", "reasoning_content"), ("choices", 0, "delta", "reasoning"), ("message", "thinking")
    )
    reason: str | None = _find(("choices", 0, "finish_reason"), ("done_reason",))  # why the model stopped
    prompt_tokens: int | None = _find(("usage", "prompt_tokens"), ("prompt_eval_count",))
    done: bool | None = None
    error: object = None
    # How long it took: llama.cpp counts milliseconds, Ollama nanoseconds.
    read: int | None = _find(("timings", "prompt_n"), ("prompt_eval_count",))
    read_time: float | None = _find(("timings", "prompt_ms"), ("prompt_eval_duration",))
    written: int | None = _find(("timings", "predicted_n"), ("eval_count",))
    written_time: float | None = _find(("timings", "predicted_ms"), ("eval_duration",))

    @property
    def measured(self) -> Measured | None:
        """How long the answer took; None where the server does not say.

        >>> llama = {"timings": {"prompt_n": 120, "prompt_ms": 500, "predicted_n": 10, "predicted_ms": 250}}
        >>> StreamEvent.model_validate(llama).measured
        Measured(read=120, read_s=0.5, written=10, written_s=0.25)
        >>> StreamEvent.model_validate({"done": True, "eval_count": 10, "eval_duration": 2.5e8}).measured
        Measured(read=0, read_s=0.0, written=10, written_s=0.25)
        """
        if not self.written:
            return None
        second = 1e9 if self.done else 1e3
        return Measured(self.read or 0, (self.read_time or 0) / second, self.written, (self.written_time or 0) / second)


# Templates pass over names that they do not know.
UNTHINKING = {"chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "low"}}


@dataclass(eq=False)
class ModelServer:
    """One model on one server, which speaks OpenAI's API, as LM Studio, llama.cpp, vLLM and hosted ones do.

    What asks it raises ServedError, and `explain` says what that means. Making one asks nothing yet; an address that
    may not be asked is an error of the kind that `explain` gives.
    """

    kind: ClassVar[str] = "openai"  # as settings name it
    program: ClassVar[str] = "OpenAI-compatible server"  # what is called busy, missing or failing in a message
    start: ClassVar[str] = "start it, or check the address"  # what to do where nothing answers
    # That there is no such model, and what to do.
    missing: ClassVar[str] = (
        "{url} has no {model}: see {section}.model, and whether {section}.url has the whole path, such as /v1"
    )
    may_think: ClassVar[bool] = True  # whether some servers of this kind cannot keep a model from thinking
    event_mark: ClassVar[bytes] = b"data:"  # before each event of a stream; other lines show that the server is alive

    section: str  # of the settings that name it: `llm`, `encoder` or `rerank`
    model: str  # as the server names it
    url: str  # as the settings have it, then as it is asked
    allow_remote: bool = True
    llm: LlmSettings = field(default_factory=LlmSettings)  # how a language model is asked
    key: str = field(default="", init=False, repr=False)  # of KEYS; is sent to this URL alone; empty: none
    # By which messages become a prompt, once `look_up` has asked; None: the server does not show it.
    template: str | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        name = f"{self.section}.url" if self.url or self.kind != "ollama" else "OLLAMA_HOST"
        try:
            self._locate()
        except UsageError as error:
            raise ERRORS.get(self.section, NoGeneratorError)(f"{name}: {error}") from error

    def _locate(self) -> None:
        """Set URL and key; UsageError, also for another machine that is not allowed."""
        if not self.url:
            raise UsageError("name the server, such as http://127.0.0.1:8080/v1; all texts are sent to it")
        self.url = server_url(self.url, allow_remote=self.allow_remote).removesuffix("/rerank")
        self.key = find_key(self.section, self.url)

    def deadline(self, seconds: float | None = None) -> float:
        """Return the end of these seconds, by time.monotonic(), for all tries together; with None, of a quick look."""
        if seconds is None:  # a server that needs longer to say what it has is not healthy
            seconds = 1.0 if is_this_machine(self.url) else 5.0
        return time.monotonic() + seconds

    @property
    def is_gpt_oss(self) -> bool:
        """Whether the model is of a family that cannot be told not to think, and writes nothing under a schema."""
        return "gpt-oss" in self.model.lower()

    @property
    def thought_tokens(self) -> int:
        """How many tokens are added to an answer for thoughts that cannot be switched off.

        >>> OllamaServer("llm", "qwen3", "http://localhost").thought_tokens
        0
        >>> OllamaServer("llm", "GPT-OSS:20b", "http://localhost").thought_tokens
        1024
        >>> server = ModelServer("llm", "qwen3", "http://127.0.0.1:8080/v1")
        >>> server.thought_tokens
        1024
        >>> server.template = "{{ messages }}"
        >>> server.thought_tokens
        0
        """
        thinks = self.template is None or "think" in self.template
        return THOUGHT_TOKENS if (self.may_think and thinks) or self.is_gpt_oss else 0

    def identity(self) -> tuple[str, ...]:
        """Return the kind of server and the model's name; most servers say nothing of the weights."""
        return (self.kind, self.model)

    def embed(self, texts: Sequence[str], end: float) -> npt.ArrayLike:
        """Return one vector for each text, in order, unchecked."""
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        with self.ask(f"{self.url}/embeddings", end, body) as content:
            return _read_values(content["data"], "embedding", len(texts))

    def rank(self, question: str, texts: Sequence[str], end: float) -> list[float]:
        """Return the server's own score for each text, any finite number; ServedError."""
        body = {"model": self.model, "query": question, "documents": list(texts), "top_n": len(texts)}
        with self.ask(f"{self.url}/rerank", end, body) as content:
            scores = [float(score) for score in _read_values(content["results"], "relevance_score", len(texts))]
        if not all(map(isfinite, scores)):
            raise StrangeAnswerError("a score is no number")
        return scores

    def look_up(self) -> ModelInfo:
        """Return what the server says of the model; without a name, of the only model that it has."""
        end = self.deadline()
        with self.ask(f"{self.url}/models", end) as content:
            models = {str(model["id"]): model for model in content["data"]}
            name = self.llm.model
            names = [known for known in models if known == name or known.endswith(f"/{name}")]
            if name == LlmSettings().model and len(models) == 1:
                names = list(models)
            if models and not names:
                raise RefusedError(404, f"it has {', '.join(list(models)[:20])}")
            self.model = names[0] if names else name
            said = models.get(self.model, {})
            length = said.get("max_model_len") or said.get("context_length")  # vLLM, OpenRouter
            meta = said.get("meta", {})  # of llama.cpp
            if meta:
                with suppress(ServedError), self.ask(f"{self.url.removesuffix('/v1')}/props", end) as props:
                    self.template = props.get("chat_template")
                    length = props["default_generation_settings"]["n_ctx"]
            return ModelInfo(
                self._window(int(length or 0)), f"{meta.get('n_params')} {meta.get('size')}" if meta else ""
            )

    def stream(self, task: Task[Any], end: float, *, with_schema: bool) -> Generator[StreamEvent]:
        """Yield what the model writes, as it comes."""
        url, max_tokens = f"{self.url}/chat/completions", task.max_tokens + self.thought_tokens
        body = self._chat(task, stream_options={"include_usage": True})
        if with_schema:
            schema = {"name": "answer", "schema": task.answer.model_json_schema()}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        usual = {**UNTHINKING, "seed": 7, "temperature": task.temperature, "max_tokens": max_tokens}
        try:
            yield from self._stream(url, end, body | usual)
        except RefusedError as error:
            if error.status not in {400, 415, 422, 501}:
                raise
            # Hosted models refuse some of these, and have another name for `max_tokens`.
            yield from self._stream(url, end, body | {"max_completion_tokens": max_tokens})

    @contextmanager
    def _open(self, url: str, end: float, body: Mapping[str, object] | None) -> Iterator[Iterator[bytes]]:
        """Yield the parts of a good answer; RefusedError for any other one."""
        try:
            with open_reply(url, end, body, self.key) as (status, parts):
                if status // 100 != 2:
                    raise RefusedError(status, find_message(b"".join(parts)))
                yield parts
        except ServedError as error:
            if self.key:  # which some servers repeat
                error.args = (str(error).replace(self.key, "(the key)"),)
            raise

    @contextmanager
    def ask(self, url: str, end: float, body: Mapping[str, object] | None = None) -> Iterator[Any]:
        """Yield the JSON that answers one request; it is a StrangeAnswerError that what is read of it is not there."""
        with self._open(url, end, body) as parts:
            content = b"".join(parts)
        try:
            yield json.loads(content)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise StrangeAnswerError(f"{url}: {one_line(content)}") from error

    def _stream(self, url: str, end: float, body: Mapping[str, object]) -> Generator[StreamEvent]:
        with self._open(url, end, body) as parts:
            for line in read_lines(parts):
                data = line.removeprefix(self.event_mark).strip()
                if data == b"[DONE]":
                    return
                if not line or not line.startswith(self.event_mark):
                    continue
                try:
                    event = StreamEvent.model_validate_json(data)
                except ValidationError as error:
                    raise StrangeAnswerError(one_line(line)) from error
                if event.error is not None:
                    raise RefusedError(-1, find_message(data))
                yield event
                if event.done:
                    return

    def _chat(self, task: Task[Any], **more: object) -> dict[str, object]:
        messages = [{"role": "system", "content": task.instructions}, {"role": "user", "content": task.material}]
        return {"model": self.model, "messages": messages, "stream": True, **more}

    def attempt(self, ask: Callable[[], T], pauses: Sequence[float] = PAUSES_S) -> T:
        """Return what requests give, tried again after each pause where that may help; raises as `explain` says."""
        try:
            return ask()
        except ServedError as error:
            if not (pauses and error.may_pass):
                raise self.explain(error) from error
        time.sleep(pauses[0])
        return self.attempt(ask, pauses[1:])

    def _window(self, context_length: int | None) -> int:
        """Return how many tokens are read: as many as asked for, unless the model was made, or loaded, for less.

        >>> server = ModelServer("llm", "qwen3", "http://127.0.0.1:8080/v1")
        >>> [server._window(length) for length in (None, 2048, 99_999)]
        [4096, 2048, 8192]
        >>> ModelServer("llm", "qwen3", server.url, llm=LlmSettings(num_ctx=6000))._window(None)
        6000
        """
        wanted = self.llm.num_ctx
        known = context_length or (USUAL_WINDOW if wanted == LlmSettings().num_ctx else wanted)  # nobody has said more
        return min(wanted, known)

    def explain(self, error: ServedError) -> RetrieverError:
        """Return what a fault means, and what to do about it: an error of the section's kind.

        >>> server = ModelServer("llm", "qwen3", "http://127.0.0.1:8080/v1/rerank")
        >>> for error in (OverdueError(), RefusedError(401, "who?"), RefusedError(307, ""), RefusedError(503, "wait")):
        ...     print(server.explain(error))  # doctest: +ELLIPSIS
        qwen3 at http://127.0.0.1:8080/v1 takes too long; restart it, ... or wait longer (llm.seconds)
        http://127.0.0.1:8080/v1 wants a key (who?): put it into the variable HYBRID_RETRIEVE_LLM_API_KEY
        http://127.0.0.1:8080/v1 sends on to another address, which is not followed: set llm.url to that
        the OpenAI-compatible server at http://127.0.0.1:8080/v1 is busy (wait): ask again later
        >>> server = ModelServer("encoder", "bge", "http://127.0.0.1:8080/v1")
        >>> for error in (OverdueError(), RefusedError(400, "too long"), UnreachableError(), StrangeAnswerError("<p>")):
        ...     print(server.explain(error))  # doctest: +ELLIPSIS
        bge at http://127.0.0.1:8080/v1 takes too long
        the OpenAI-compatible server ... refuses: status 400: too long; set encoder.max_tokens lower if ...
        no OpenAI-compatible server answers at http://127.0.0.1:8080/v1: start it, or check the address
        what answers at http://127.0.0.1:8080/v1 speaks otherwise than OpenAI-compatible server (<p>)
        """
        kind, text = self._explain(error)
        return ERRORS.get(self.section, kind)(text)

    def _explain(self, error: ServedError) -> tuple[type[LanguageModelError], str]:
        url, said, section = self.url, one_line(error), self.section
        match error:
            case UnreachableError():
                return NoGeneratorError, f"no {self.program} answers at {url}: {self.start}"
            case OverdueError():
                how = "; restart it, choose a smaller llm.model, or wait longer (llm.seconds)"
                text = f"{self.model or 'the model'} at {url} takes too long"
                return LanguageModelTimeoutError, text + (how if section == "llm" else "")
            case StrangeAnswerError():
                return WrongAnswerError, f"what answers at {url} speaks otherwise than {self.program} ({said})"
            case RefusedError(status=401 | 403):
                what = f"{url} refuses the key" if self.key else f"{url} wants a key"
                return NoGeneratorError, f"{what} ({said}): put it into the variable {KEYS[section]}"
            case RefusedError(status=404):
                return LanguageModelError, f"{self.missing.format(section=section, model=self.model, url=url)} ({said})"
            case RefusedError(status=status) if 300 <= status < 400:
                how = f"which is not followed: set {section}.url to that"
                return NoGeneratorError, f"{url} sends on to another address, {how}"
            case RefusedError(status=status) if status in BUSY:
                return NoGeneratorError, f"the {self.program} at {url} is busy ({said}): ask again later"
            case RefusedError(status=status):
                how = "; set encoder.max_tokens lower if a text is too long" if section == "encoder" else ""
                return LanguageModelError, f"the {self.program} at {url} refuses: status {status}: {said}{how}"
        return LanguageModelError, f"the connection to {url} broke before the answer was complete ({said})"


class OllamaServer(ModelServer):
    """One model of Ollama, by its own API: by OpenAI's it takes no size of the window, and cuts what is longer."""

    kind = "ollama"
    program = "Ollama"
    start = "start it with `ollama serve`"
    missing = "Ollama at {url} has no {model} (another server's address ends in /v1): run: ollama pull {model}"
    may_think = False
    event_mark = b""

    def _locate(self) -> None:
        self.url = ollama_url(self.url, allow_remote=self.allow_remote)

    def identity(self) -> tuple[str, ...]:
        """Do as `ModelServer.identity`, with the digest of the weights from the server's list of models."""
        _, digest = self._find_model(self.deadline())
        return (self.kind, self.model, digest)

    def _find_model(self, end: float) -> tuple[str, str]:
        """Return the model's full name and its digest."""
        with self.ask(f"{self.url}/api/tags", end) as content:
            digests = {str(model["model"]): str(model.get("digest")) for model in content["models"]}
        for name in (self.model, f"{self.model}:latest"):
            if name in digests:
                return name, digests[name]
        raise RefusedError(404, f"it has {', '.join(digests) or 'none'}")

    def embed(self, texts: Sequence[str], end: float) -> npt.ArrayLike:
        """Return one vector for each text; the server is told to refuse what it would have to cut."""
        body = {"model": self.model, "input": list(texts), "truncate": False}
        with self.ask(f"{self.url}/api/embed", end, body) as content:
            vectors: npt.ArrayLike = content["embeddings"]
            return vectors

    def look_up(self) -> ModelInfo:
        """Return what Ollama says of the model."""
        from ollama import ShowResponse  # half a second, beside those of an answer, before the server's time begins

        end = self.deadline()
        name, digest = self._find_model(end)
        with self.ask(f"{self.url}/api/show", end, {"model": name}) as content:
            self.template = content.get("template")
            shown = ShowResponse.model_validate({"model_info": None} | content)
            info = shown.modelinfo or {}
            lengths = [int(value) for key, value in info.items() if key.endswith(".context_length")]
            return ModelInfo(self._window(max(lengths, default=None)), digest)

    def stream(self, task: Task[Any], end: float, *, with_schema: bool) -> Generator[StreamEvent]:
        """Do as `ModelServer.stream`."""
        options = {
            "num_ctx": self.llm.num_ctx,
            "num_predict": task.max_tokens + self.thought_tokens,
            "temperature": task.temperature,
            "seed": 7,
        }
        think = "low" if self.is_gpt_oss else False
        body = self._chat(task, options=options, keep_alive=KEEP_ALIVE_S, think=think)
        if with_schema:
            body["format"] = task.answer.model_json_schema()
        return self._stream(f"{self.url}/api/chat", end, body)


def _read_values(items: Sequence[Mapping[str, Any]], name: str, count: int) -> list[Any]:
    """Return what each item has under a name, by the items' `index`, which may come in any order but each once."""
    in_order = sorted(items, key=lambda item: item["index"])
    if [item["index"] for item in in_order] != list(range(count)):  # else two texts would change places
        raise StrangeAnswerError(f"not one item for each of {count} texts")
    return [item[name] for item in in_order]


SERVERS = {server.kind: server for server in (ModelServer, OllamaServer)}
