"""One model on one server, of Ollama or behind OpenAI's API: what it is asked, and what a fault means."""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from math import exp, isfinite
from typing import TYPE_CHECKING, Any, ClassVar, cast

import httpx
import numpy.typing as npt
from pydantic import AliasPath, BaseModel, Field, ValidationError

from retriever.errors import (
    CutAnswerError,
    LanguageModelError,
    LanguageModelTimeoutError,
    NoGeneratorError,
    NoModelError,
    TaskTooLongError,
    WrongAnswerError,
)
from retriever.served.address import is_this_machine
from retriever.served.task import Measured, Task
from retriever.served.transport import (
    BUSY,
    Limits,
    OverdueError,
    RefusedError,
    ServedError,
    StrangeAnswerError,
    UnreachableError,
    client_options,
    find_message,
    one_line,
    open_response,
    read_events,
    request_json,
    translate_http_errors,
)
from retriever.settings.schema import LlmSettings

if TYPE_CHECKING:
    from ollama import ChatResponse, Client, ListResponse


USUAL_WINDOW = 4096  # tokens, where nobody says: what LM Studio and older versions of Ollama load by default
ODDS = 10  # words that a server is asked for, with how likely they are
# For the thoughts of a model that cannot be told not to think; the least level takes some hundred.
THOUGHT_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a server says of a model, without running it."""

    window: int  # how many tokens it reads here
    billions: float | None  # of weights; None: the server does not say, and neither does the name


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """What comes with one event of a stream, or with several."""

    text: str = ""
    thought: str = ""
    reason: str | None = None  # why the model stopped, once it did
    prompt_tokens: int | None = None  # how many tokens of the messages were read; None: the server does not say
    measured: Measured | None = None

    def joined(self, after: "StreamPiece") -> "StreamPiece":
        """Return what comes with this one and the next."""
        return StreamPiece(
            self.text + after.text,
            self.thought + after.thought,
            after.reason or self.reason,
            after.prompt_tokens or self.prompt_tokens,
            after.measured or self.measured,
        )


def read_billions(said: str) -> float | None:
    """Return how many billion weights a model has, by its name or what its server says of its size.

    >>> read_billions("3.2B llama3.2"), read_billions("qwen2.5-500m-instruct"), read_billions("phi")
    (3.2, 0.5, None)
    """
    found = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)\s*([bm])(?![a-z])", said.lower())
    return float(found[1]) / (1 if found[2] == "b" else 1000) if found else None


def make_messages(instructions: str, material: str) -> list[dict[str, str]]:
    return [
        # A lone surrogate, which the name of a file may hold, cannot be sent.
        {"role": role, "content": text.encode("utf-8", "replace").decode("utf-8")}
        for role, text in (("system", instructions), ("user", material))
    ]


def share_of_yes(odds: Iterable[tuple[str, float]]) -> float:
    """Return p(yes) / (p(yes) + p(no)) by the likeliest first words and the logarithms of how likely they are.

    >>> round(share_of_yes([("Yes", -0.2), (" no", -2.0), ("The", -5.0)]), 2)
    0.86
    """
    sums = {"yes": 0.0, "no": 0.0}
    for word, logarithm in odds:
        word = word.strip(" \n\"'.*\u2581\u0120").lower()
        if word in sums:
            sums[word] += exp(min(logarithm, 0.0))
    if not any(sums.values()):
        raise StrangeAnswerError("neither is among its first words")
    return sums["yes"] / sum(sums.values())


@dataclass(eq=False)
class ModelServer(ABC):
    """One model on one server; what asks it raises ServedError, and `explain` says what that means."""

    kind: ClassVar[str]  # as settings name it
    program: ClassVar[str]  # what is called busy, missing or failing in a message
    start: ClassVar[str]  # what to do where nothing answers
    may_think: ClassVar[bool]  # whether some servers of this kind cannot keep a model from thinking
    missing: ClassVar[str]  # that there is no such model, and what to do, of `section`, `model` and `url`

    section: str  # of the settings that name it, for messages: `llm`, `encoder` or `rerank`
    model: str  # as the server names it
    url: str
    key: str = field(default="", repr=False)  # is sent to this URL alone; empty: none
    llm: LlmSettings = field(default_factory=LlmSettings)  # how a language model is asked

    def limits(self, seconds: float | None = None) -> Limits:
        """Return the limits of a request that may take these seconds from now; with None, of a quick look."""
        is_near = is_this_machine(self.url)
        # A server that needs longer to connect, or to say what it has, is not healthy.
        total_s = seconds if seconds is not None else 1.0 if is_near else 5.0
        return Limits(0.5 if is_near else 5.0, time.monotonic() + total_s, self.llm.idle_seconds)

    @property
    def is_gpt_oss(self) -> bool:
        """Whether the model is of a family that cannot be told not to think, and writes nothing under a schema."""
        return "gpt-oss" in self.model.lower()

    @property
    def thought_tokens(self) -> int:
        """How many tokens are added to an answer for thoughts that cannot be switched off."""
        return THOUGHT_TOKENS if self.may_think or self.is_gpt_oss else 0

    def identity(self, limits: Limits) -> tuple[str, ...]:
        """Return the kind of server and the model's name; most servers say nothing of the weights."""
        return (self.kind, self.model)

    @abstractmethod
    def embed(self, texts: Sequence[str], limits: Limits) -> npt.ArrayLike:
        """Return one vector for each text, in order, unchecked."""

    @abstractmethod
    def look_up(self, limits: Limits) -> ModelInfo:
        """Return what the server says of the model, without running it."""

    @abstractmethod
    def judge(self, instructions: str, material: str, limits: Limits) -> float:
        """Return how likely the model begins with yes beside no, 0 to 1; StrangeAnswerError where nothing says so."""

    @abstractmethod
    def stream(self, task: Task[Any], limits: Limits, *, with_schema: bool) -> Generator[StreamPiece]:
        """Yield what the model writes, as it comes."""

    def _make_info(self, name: str, context_length: int | None, said: str = "") -> ModelInfo:
        """Return the information of a model; it reads what is asked for, unless it was made, or loaded, for less."""
        wanted = self.llm.num_ctx
        known = context_length or (USUAL_WINDOW if wanted == LlmSettings().num_ctx else wanted)  # nobody has said more
        return ModelInfo(min(wanted, known), read_billions(f"{said} {name}"))

    def explain(self, error: ServedError) -> LanguageModelError:
        """Return what a fault means, and what to do about it."""
        url, said, section = self.url, one_line(error), self.section
        match error:
            case UnreachableError():
                return NoGeneratorError(f"no {self.program} answers at {url}: {self.start}")
            case OverdueError():
                how = "; restart it, choose a smaller llm.model, or wait longer (llm.seconds, llm.stage_seconds)"
                text = f"{self.model or 'the model'} at {url} takes too long: {said}"
                return LanguageModelTimeoutError(text + (how if section == "llm" else ""))
            case StrangeAnswerError():
                return WrongAnswerError(f"what answers at {url} speaks otherwise than {self.program} ({said})")
            case RefusedError(status=401 | 403):
                what = f"{url} refuses the key" if self.key else f"{url} wants a key"
                return NoGeneratorError(f"{what} ({said}): put it into the variable that {section}.api_key_env names")
            case RefusedError(status=404):
                return NoModelError(f"{self.missing.format(section=section, model=self.model, url=url)} ({said})")
            case RefusedError(status=status) if 300 <= status < 400:
                how = f"which is not followed: set {section}.url to that"
                return NoGeneratorError(f"{url} sends on to another address, {how}")
            case RefusedError(status=status) if status in BUSY:
                return NoGeneratorError(f"the {self.program} at {url} is busy ({said}): ask again later")
            case RefusedError(status=status):
                kind = CutAnswerError if status < 0 else LanguageModelError
                if re.search(r"n_ctx|context.*(exceed|length)|exceed.*context", said, re.IGNORECASE):
                    kind = TaskTooLongError
                how = "; set encoder.max_tokens lower if a text is too long" if section == "encoder" else ""
                return kind(f"the {self.program} at {url} refuses: status {status}: {said}{how}")
        return CutAnswerError(f"the connection to {url} broke before the answer was complete ({said})")


# Ollama's own API, by its client.


class OllamaServer(ModelServer):
    """One model of Ollama, which writes and embeds; Ollama has no interface for rerankers."""

    kind = "ollama"
    program = "Ollama"
    start = "start it with `ollama serve`"
    may_think = False
    missing = "Ollama at {url} has no {model}: run: ollama pull {model}"

    def identity(self, limits: Limits) -> tuple[str, ...]:
        """Do as `ModelServer.identity`, with the digest of the weights from the server's list of models."""
        with self._client(limits) as client:
            return (self.kind, self.model, str(self._find(client).digest))

    def _find(self, client: "Client") -> "ListResponse.Model":
        models = client.list().models
        found = next((model for model in models if model.model in (self.model, f"{self.model}:latest")), None)
        if found is None:
            raise RefusedError(404, f"it has {', '.join(str(model.model) for model in models) or 'none'}")
        return found

    def embed(self, texts: Sequence[str], limits: Limits) -> npt.ArrayLike:
        """Return one vector for each text; the server is told to refuse what it would have to cut."""
        with self._client(limits) as client:
            return client.embed(self.model, texts, truncate=False).embeddings

    def judge(self, instructions: str, material: str, limits: Limits) -> float:
        """Do as `ModelServer.judge`; Ollama gives odds since 0.12.11."""
        with self._client(limits) as client:
            request = self._make_request(instructions, material, num_predict=1)
            said = client.chat(**request, think=False, logprobs=True, top_logprobs=ODDS)
        if not said.logprobs:
            raise StrangeAnswerError("no logprobs")
        return share_of_yes([(item.token, item.logprob) for item in said.logprobs[0].top_logprobs or ()])

    def look_up(self, limits: Limits) -> ModelInfo:
        """Return what Ollama says of the model."""
        with self._client(limits) as client:
            name = str(self._find(client).model)
            shown = client.show(name)
        lengths = (value for key, value in (shown.modelinfo or {}).items() if key.endswith(".context_length"))
        context_length = next((length for length in lengths if isinstance(length, int)), None)
        size = shown.details.parameter_size if shown.details else None
        return self._make_info(name, context_length, size or "")

    def stream(self, task: Task[Any], limits: Limits, *, with_schema: bool) -> Generator[StreamPiece]:
        """Do as `ModelServer.stream`."""
        options = {"num_predict": task.max_tokens + self.thought_tokens, "temperature": task.temperature, "seed": 7}
        with self._client(limits) as client:
            stream = client.chat(
                **self._make_request(task.instructions, task.material, **options),
                stream=True,
                think="low" if self.is_gpt_oss else False,
                format=task.answer.model_json_schema() if with_schema else None,
            )
            with closing(cast("Generator[ChatResponse]", stream)) as parts:
                for part in parts:
                    text, thought = part.message.content or "", part.message.thinking or ""
                    if not part.done:
                        yield StreamPiece(text, thought)
                        continue
                    read_s, written_s = (part.prompt_eval_duration or 0) / 1e9, (part.eval_duration or 0) / 1e9
                    measured = Measured(part.prompt_eval_count or 0, read_s, part.eval_count or 0, written_s)
                    yield StreamPiece(text, thought, part.done_reason, part.prompt_eval_count, measured)
                    return

    def _make_request(self, instructions: str, material: str, **options: float) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": make_messages(instructions, material),
            "options": {"num_ctx": self.llm.num_ctx, **options},
            "keep_alive": self.llm.keep_alive_seconds,
        }

    @contextmanager
    def _client(self, limits: Limits) -> "Iterator[Client]":
        """Yield a client for one try; its connections are closed at the end, also by an interrupt."""
        import ollama  # 335 ms

        def drop_key(request: httpx.Request) -> None:  # the client sends the environment's OLLAMA_API_KEY to any host
            request.headers.pop("authorization", None)

        options = {"event_hooks": {"request": [drop_key]}, **client_options(limits, self.url)}
        try:
            with translate_http_errors(), ollama.Client(self.url, **options) as client:
                yield client
        except ConnectionError as error:  # the client's own, which hides the reason
            raise UnreachableError(f"no connection to {self.url}") from error
        except ollama.ResponseError as error:
            raise RefusedError(error.status_code, str(error.error)) from error
        # Lists where objects belong make the client look for attributes, and deep ones exhaust its JSON parser.
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise StrangeAnswerError(str(error)) from error


# OpenAI's API, as LM Studio, llama.cpp's server, vLLM and hosted ones speak it, with /rerank beside it. The official
# client is not used: it takes a second to import, checks nothing of what it is given, and passes over the comments by
# which a server shows that it is alive; what is left of it here is the reading of events (`transport.read_events`).

# Templates pass over names that they do not know.
UNTHINKING = {"chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "low"}}


def _find(first: str, *path: str | int) -> Any:  # noqa: ANN401 - as pydantic's Field
    return Field(None, validation_alias=AliasPath(first, *path))


class _Event(BaseModel):
    """One event of a stream: what of it is used, and where it stands."""

    text: str | None = _find("choices", 0, "delta", "content")
    reasoning_content: str | None = _find("choices", 0, "delta", "reasoning_content")
    reasoning: str | None = _find("choices", 0, "delta", "reasoning")
    reason: str | None = _find("choices", 0, "finish_reason")
    prompt_tokens: int | None = _find("usage", "prompt_tokens")
    # What llama.cpp measures, by its own clock.
    prompt_n: int | None = _find("timings", "prompt_n")
    prompt_ms: float | None = _find("timings", "prompt_ms")
    predicted_n: int | None = _find("timings", "predicted_n")
    predicted_ms: float | None = _find("timings", "predicted_ms")
    error: object = None

    @property
    def measured(self) -> Measured | None:
        read_s, written_s = (self.prompt_ms or 0) / 1e3, (self.predicted_ms or 0) / 1e3
        return Measured(self.prompt_n or 0, read_s, self.predicted_n, written_s) if self.predicted_n else None


class OpenAIServer(ModelServer):
    """One model behind one URL, which ends in /v1 for most servers."""

    kind = "openai"
    program = "OpenAI-compatible server"
    start = "start it, or check the address"
    may_think = True
    missing = "{url} has no {model}: see {section}.model, and whether {section}.url has the whole path, such as /v1"

    def embed(self, texts: Sequence[str], limits: Limits) -> npt.ArrayLike:
        """Return one vector for each text."""
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        content = request_json(f"{self.url}/embeddings", limits, body, self.key)
        return _read_values(content, "data", "embedding", len(texts))

    def rank(self, question: str, texts: Sequence[str], limits: Limits) -> list[float]:
        """Return the server's own score for each text, any finite number; ServedError."""
        body = {"model": self.model, "query": question, "documents": list(texts), "top_n": len(texts)}
        content = request_json(f"{self.url}/rerank", limits, body, self.key)
        scores = _read_values(content, "results", "relevance_score", len(texts))
        if not all(isinstance(score, int | float) and isfinite(score) for score in scores):
            raise StrangeAnswerError("a score is no number")
        return scores

    def judge(self, instructions: str, material: str, limits: Limits) -> float:
        """Do as `ModelServer.judge`."""
        messages = make_messages(instructions, material)
        body = {"model": self.model, "messages": messages, "max_tokens": 1, "logprobs": True, "top_logprobs": ODDS}
        content = request_json(f"{self.url}/chat/completions", limits, body | UNTHINKING, self.key)
        try:
            (word,) = content["choices"][0]["logprobs"]["content"]
            return share_of_yes([(str(item["token"]), float(item["logprob"])) for item in word["top_logprobs"]])
        except (LookupError, TypeError, ValueError) as error:
            raise StrangeAnswerError("no logprobs") from error

    def look_up(self, limits: Limits) -> ModelInfo:
        """Return what the server says of the model; without a name, of the only model that it has."""
        name, listed = self.llm.model, request_json(f"{self.url}/models", limits, key=self.key).get("data")
        if not isinstance(listed, list):
            raise StrangeAnswerError("no list of models")
        models = {str(model["id"]): model for model in listed if isinstance(model, dict) and "id" in model}
        found = next((known for known in models if known == name or known.endswith(f"/{name}")), None)
        if found is None and len(models) == 1 and name == LlmSettings().model:
            (found,) = models
        if found is None and models:
            raise RefusedError(404, f"it has {', '.join(list(models)[:20])}")
        self.model = found or name
        said = models.get(self.model, {})
        lengths = (said.get("max_model_len"), said.get("context_length"))  # vLLM, OpenRouter
        length = next((item for item in lengths if isinstance(item, int)), None) or self.ask_window(limits)
        return self._make_info(self.model, length)

    def ask_window(self, limits: Limits) -> int | None:
        """Return how many tokens the model was loaded for, as LM Studio or llama.cpp say beside OpenAI's API."""
        root, nothing = self.url.removesuffix("/v1"), (ServedError, LookupError, TypeError, ValueError)
        with suppress(*nothing):
            models = request_json(f"{root}/api/v0/models", limits, key=self.key)["data"]
            return int({model["id"]: model for model in models}[self.model]["loaded_context_length"])
        with suppress(*nothing):
            return int(request_json(f"{root}/props", limits, key=self.key)["default_generation_settings"]["n_ctx"])
        return None

    def stream(self, task: Task[Any], limits: Limits, *, with_schema: bool) -> Generator[StreamPiece]:
        """Do as `ModelServer.stream`."""
        max_tokens = task.max_tokens + self.thought_tokens
        body: dict[str, Any] = {
            "model": self.model,
            "messages": make_messages(task.instructions, task.material),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if with_schema:
            schema = {"name": "answer", "schema": task.answer.model_json_schema()}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        usual = {**UNTHINKING, "seed": 7, "temperature": task.temperature, "max_tokens": max_tokens}
        try:
            yield from self._ask(body | usual, limits)
        except RefusedError as error:
            if error.status not in {400, 415, 422, 501}:
                raise
            # Hosted models refuse some of these, and have another name for `max_tokens`.
            yield from self._ask(body | {"max_completion_tokens": max_tokens}, limits)

    def _ask(self, body: Mapping[str, object], limits: Limits) -> Generator[StreamPiece]:
        with open_response(f"{self.url}/chat/completions", limits, body, self.key) as response:
            for data in read_events(response):
                try:
                    event = _Event.model_validate_json(data)
                except ValidationError as error:
                    first = error.errors(include_url=False, include_input=False)[0]
                    raise StrangeAnswerError(str(first["msg"])) from error
                if event.error is not None:
                    raise RefusedError(-1, find_message(data.decode("utf-8", "replace")))
                thought = event.reasoning_content or event.reasoning or ""
                yield StreamPiece(event.text or "", thought, event.reason, event.prompt_tokens, event.measured)


def _read_values(content: Mapping[str, Any], items: str, name: str, count: int) -> list[Any]:
    """Return what each item has under a name, by the items' `index`, which may come in any order but each once."""
    try:
        values = {int(item["index"]): item[name] for item in content[items]}
    except (LookupError, TypeError, ValueError) as error:
        raise StrangeAnswerError(f"no `{items}` with `index` and `{name}`") from error
    # Else two texts would change places.
    if sorted(values) != list(range(count)) or len(content[items]) != count:
        raise StrangeAnswerError(f"`{items}` has not one item for each of {count} texts")
    return [values[place] for place in range(count)]
