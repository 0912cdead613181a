"""A model behind OpenAI's API, as LM Studio, llama.cpp's server, vLLM and hosted ones speak it, with /rerank beside it.

Servers know different parts of this API: where one refuses a request, it is asked with less, and that is named. The
official client is not used: it takes a second to import, checks nothing of what it is given, and passes over the
comments by which a server shows that it is alive; what is left of it here is the reading of events
(`transport.read_events`).
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any

import httpx
import numpy.typing as npt
from pydantic import BaseModel, ValidationError

from retriever.errors import LanguageModelError, NoGeneratorError, NoModelError, TaskTooLongError
from retriever.served.address import is_this_machine
from retriever.served.server import (
    CONNECT_S,
    ModelInfo,
    ModelServer,
    Piece,
    Reply,
    least_temperature,
    read_billions,
)
from retriever.served.speed import Measured
from retriever.served.task import Task
from retriever.served.transport import (
    Limits,
    RefusedError,
    ServedError,
    StrangeAnswerError,
    find_message,
    open_response,
    read_events,
    request_json,
)
from retriever.settings.schema import LlmSettings

progress = logging.getLogger("retriever.served.progress")

FAR_S = 5.0  # for a connection to another machine, and for what is asked of it about a model
# What is left out, one after another, where a server refuses a request: hosted models know no templates and another
# name for `max_tokens`, some servers send no usage, and some have no schemas.
_HOSTED = ("chat_template_kwargs", "seed", "temperature", "max_tokens")
MANNERS = ((), _HOSTED, (*_HOSTED, "stream_options"), (*_HOSTED, "stream_options", "response_format"))


class _Delta(BaseModel):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(BaseModel):
    delta: _Delta
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int = 0


class _Timings(BaseModel):
    """What llama.cpp measures, by its own clock."""

    prompt_n: int
    prompt_ms: float
    predicted_n: int
    predicted_ms: float


class _Chunk(BaseModel):
    """One event of a stream."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    timings: _Timings | None = None
    error: object = None


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


class OpenAIServer(ModelServer):
    """One model behind one URL, which ends in /v1 for most servers."""

    program = "server"
    api = "OpenAI's API"
    start = "start it, or see llm.url"
    check = "see its log"
    parallel = 4  # vLLM, TEI, Infinity and hosted ones work on many; one that is busy (429, 503) is asked again

    def __init__(self, model: str, url: str, key: str = "", llm: LlmSettings | None = None) -> None:
        """Name the server, as `ModelServer`."""
        super().__init__(model, url, key, llm)
        self._manner = self._good_manner = 0  # of MANNERS: the one that is tried, and the one that was answered last
        self._connect_s = CONNECT_S
        if not is_this_machine(url):
            self._connect_s = self.look_up_s = FAR_S

    @property
    def name(self) -> str:
        """Such as `text-embedding-3-small at https://api.openai.com/v1`."""
        return f"{self.model} at {self.url}"

    def missing(self, said: str = "") -> str:
        """Return that the server has no such model or path, and which settings name them."""
        what = f"{self.url} has no {self.model}" + (f" ({said})" if said else "")
        return f"{what}: see llm.model, and whether llm.url has the server's whole path, such as /v1"

    def identity(self, limits: Limits) -> tuple[str, ...]:
        """Return the kind and the model's name: such servers tell nothing of the weights."""
        return ("openai", self.model)

    def embed(self, texts: Sequence[str], limits: Limits) -> npt.ArrayLike:
        """Return one vector for each text."""
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        content = request_json(f"{self.url}/embeddings", limits, body, self._key)
        return _read_values(content, "data", "embedding", len(texts))

    def rank(self, question: str, texts: Sequence[str], limits: Limits) -> list[float]:
        """Return the server's own score for each text, any finite number; ServedError."""
        body = {"model": self.model, "query": question, "documents": list(texts), "top_n": len(texts)}
        content = request_json(f"{self.url}/rerank", limits, body, self._key)
        scores = _read_values(content, "results", "relevance_score", len(texts))
        if not all(isinstance(score, int | float) and isfinite(score) for score in scores):
            raise StrangeAnswerError("a score is no number")
        return scores

    def describe(self) -> str:
        """Return the server's address, having been asked for its models."""
        self._list_models(self.look_up_s)
        return f"a server that speaks OpenAI's API at {self.url}"

    def look_up(self, seconds: float) -> ModelInfo:
        """Return what the server says of the model; a model that nobody named is the only one that it has."""
        models = self._list_models(seconds)
        name = self._llm.model
        found = next((model for model in models if model["id"] == name or model["id"].endswith(f"/{name}")), None)
        if found is None and len(models) == 1 and name == LlmSettings().model:
            found = models[0]
        if found is None and models:
            others = ", ".join(model["id"] for model in models[:20])
            raise NoModelError(f"{self.missing()}; it has {others}")
        self.model = found["id"] if found else name
        said = found or {}
        # vLLM, llama.cpp, OpenRouter.
        meta = said["meta"] if isinstance(said.get("meta"), dict) else {}
        lengths = (said.get("max_model_len"), meta.get("n_ctx"), said.get("context_length"))
        length = next((item for item in lengths if isinstance(item, int)), None)
        if length is None and is_this_machine(self.url):
            length = self.ask_window(Limits(self._connect_s, seconds))
        billions = read_billions(meta.get("n_params"), self.model)
        return ModelInfo(self.model, True if self._has_answered else None, True, length, billions)

    def ask_window(self, limits: Limits) -> int | None:
        """Return how many tokens the model was loaded for, as LM Studio or llama.cpp say beside OpenAI's API."""
        root = self.url.removesuffix("/v1")
        with suppress(ServedError):
            models = request_json(f"{root}/api/v0/models", limits, key=self._key).get("data")
            for model in models if isinstance(models, list) else ():
                if isinstance(model, dict) and model.get("id") == self.model:
                    window = model.get("loaded_context_length")
                    return window if isinstance(window, int) else None
        with suppress(ServedError):
            settings = request_json(f"{root}/props", limits, key=self._key).get("default_generation_settings")
            window = settings.get("n_ctx") if isinstance(settings, dict) else None
            return window if isinstance(window, int) else None
        return None

    def _list_models(self, seconds: float) -> list[dict[str, Any]]:
        """Return the models that the server lists; none where it has no such list."""
        try:
            content = request_json(f"{self.url}/models", Limits(self._connect_s, seconds), key=self._key)
            models = content.get("data")
            if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
                raise StrangeAnswerError("no list of models")
        except ServedError as error:
            if isinstance(error, RefusedError) and error.status in {404, 405, 501}:
                return []
            raise self.explain_unhealthy(error, seconds) from error
        return [model for model in models if isinstance(model.get("id"), str)]

    def _generate(self, task: Task[Any], seconds: float, *, with_schema: bool) -> Reply:
        deadline = time.monotonic() + seconds
        reply = self._ask(task, seconds, with_schema=with_schema)
        if reply.cut and reply.is_thoughts and reply.text and not self.think:
            self.think = True  # it thinks although it was told not to: it gets room for that
            reply = self._ask(task, deadline - time.monotonic(), with_schema=with_schema)
        return reply

    def _ask(self, task: Task[Any], seconds: float, *, with_schema: bool) -> Reply:
        max_tokens, started = task.max_tokens + self.thought_tokens, time.monotonic()
        left_out = (*MANNERS[self._manner], *(() if with_schema else ("response_format",)))
        schema = {"name": "answer", "schema": task.answer.model_json_schema()}
        options: dict[str, Any] = {
            # Templates pass over names that they do not know.
            "chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "low"},
            "stream_options": {"include_usage": True},
            "seed": 7,
            "temperature": max(task.temperature, least_temperature(self.model)),
            "max_tokens": max_tokens,
            "response_format": {"type": "json_schema", "json_schema": schema},
        }
        body = {name: value for name, value in options.items() if name not in left_out}
        if "max_tokens" in left_out:
            body["max_completion_tokens"] = max_tokens
        messages = self._write_messages(task, with_schema="response_format" not in left_out)
        body |= {"model": self.model, "messages": messages, "stream": True}
        # Each token comes as an event of some 250 bytes.
        max_bytes = 2**15 + 1024 * max_tokens
        limits = Limits(self._connect_s, seconds, self._llm.idle_seconds, lambda: self.has_begun, max_bytes)
        with open_response(f"{self.url}/chat/completions", limits, body, self._key) as response:
            reply = self._collect(self._read(response), task, started)
        self._good_manner = self._manner
        return reply

    def _read(self, response: httpx.Response) -> Iterator[Piece]:
        for data in read_events(response):
            try:
                chunk = _Chunk.model_validate_json(data)
            except ValidationError as error:
                raise StrangeAnswerError(str(error.errors(include_url=False, include_input=False)[0]["msg"])) from error
            if chunk.error is not None:
                raise RefusedError(-1, find_message(data.decode("utf-8", "replace")))
            for choice in chunk.choices or ():
                delta = choice.delta
                yield Piece(delta.content or "", delta.reasoning_content or delta.reasoning or "", choice.finish_reason)
            timings, measured = chunk.timings, None
            if timings:
                read_s, written_s = timings.prompt_ms / 1e3, timings.predicted_ms / 1e3
                measured = Measured(timings.prompt_n, read_s, timings.predicted_n, written_s)
            if chunk.usage or timings:
                yield Piece(prompt_tokens=chunk.usage.prompt_tokens if chunk.usage else None, measured=measured)

    def _adapt(self, error: ServedError) -> bool:
        if not isinstance(error, RefusedError) or error.status not in {400, 415, 422, 501}:
            return False
        if isinstance(self.explain(error), TaskTooLongError | NoModelError):
            return False
        if self._manner == len(MANNERS) - 1:  # what was left out was not the reason
            self._manner = self._good_manner
            return False
        self._manner += 1
        progress.info("%s refuses a request: asking without %s", self.url, ", ".join(MANNERS[self._manner]))
        return True

    @property
    def manner(self) -> str:
        """As `ModelServer.manner`, and what the server refuses."""
        refuses = f"asked without {', '.join(MANNERS[self._manner])}" if self._manner else ""
        return ", ".join(filter(None, (super().manner, refuses)))

    def _explain_refusal(self, status: int, said: str) -> LanguageModelError:
        if status in {401, 403}:
            what = f"{self.url} refuses the key" if self._key else f"{self.url} wants a key"
            return NoGeneratorError(f"{what} ({said}): put the key into the variable {self._llm.api_key_env}")
        return super()._explain_refusal(status, said)
