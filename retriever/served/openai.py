"""A model behind OpenAI's API, as LM Studio, llama.cpp's server, vLLM and hosted ones speak it, with /rerank beside it.

The official client is not used: it takes a second to import, checks nothing of what it is given, and passes over the
comments by which a server shows that it is alive; what is left of it here is the reading of events
(`transport.read_events`).
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any

import numpy.typing as npt
from pydantic import BaseModel, ValidationError

from retriever.served.server import (
    ODDS,
    THOUGHT_TOKENS,
    ModelInfo,
    ModelServer,
    StreamPiece,
    make_messages,
    share_of_yes,
)
from retriever.served.task import Measured, Task
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

# Templates pass over names that they do not know.
UNTHINKING = {"chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "low"}}


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


class OpenAIServer(ModelServer):
    """One model behind one URL, which ends in /v1 for most servers."""

    program = "OpenAI-compatible server"
    start = "start it, or check the address"
    missing = "{url} has no {model}: see {section}.model, and whether {section}.url has the whole path, such as /v1"
    thought_tokens = THOUGHT_TOKENS  # some servers have no way to tell a model not to think
    _is_plain = False  # whether the server knows the standard fields of a request alone

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

    def judge(self, instructions: str, material: str, limits: Limits) -> float:
        """As `ModelServer.judge`."""
        messages = make_messages(instructions, material)
        body = {"model": self.model, "messages": messages, "max_tokens": 1, "logprobs": True, "top_logprobs": ODDS}
        content = request_json(f"{self.url}/chat/completions", limits, body | UNTHINKING, self._key)
        try:
            (word,) = content["choices"][0]["logprobs"]["content"]
            return share_of_yes([(str(item["token"]), float(item["logprob"])) for item in word["top_logprobs"]])
        except (LookupError, TypeError, ValueError) as error:
            raise StrangeAnswerError("no logprobs") from error

    def look_up(self, limits: Limits) -> ModelInfo:
        """Return what the server says of the model; a model that nobody named is the only one that it has."""
        name, listed = self._llm.model, request_json(f"{self.url}/models", limits, key=self._key).get("data")
        if not isinstance(listed, list) or not all(isinstance(model, dict) for model in listed):
            raise StrangeAnswerError("no list of models")
        models = [model for model in listed if isinstance(model.get("id"), str)]
        found = next((model for model in models if model["id"] == name or model["id"].endswith(f"/{name}")), None)
        if found is None and len(models) == 1 and name == LlmSettings().model:
            found = models[0]
        if found is None and models:
            raise RefusedError(404, f"it has {', '.join(model['id'] for model in models[:20])}")
        said = found or {}
        self.model = said.get("id", name)
        lengths = (said.get("max_model_len"), said.get("context_length"))  # vLLM, OpenRouter
        length = next((item for item in lengths if isinstance(item, int)), None) or self.ask_window(limits)
        return self._make_info(self.model, length)

    def ask_window(self, limits: Limits) -> int | None:
        """Return how many tokens the model was loaded for, as LM Studio or llama.cpp say beside OpenAI's API."""
        root, window = self.url.removesuffix("/v1"), None
        with suppress(ServedError):
            models = request_json(f"{root}/api/v0/models", limits, key=self._key).get("data") or ()
            mine = (model for model in models if isinstance(model, dict) and model.get("id") == self.model)
            window = next(mine, {}).get("loaded_context_length")
        if window is None:
            with suppress(ServedError):
                settings = request_json(f"{root}/props", limits, key=self._key).get("default_generation_settings")
                window = settings.get("n_ctx") if isinstance(settings, dict) else None
        return window if isinstance(window, int) else None

    def _stream(self, task: Task[Any], limits: Limits, *, with_schema: bool) -> Generator[StreamPiece]:
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
        usual: dict[str, Any] = {
            **UNTHINKING,
            "seed": 7,
            "temperature": task.temperature,
            "max_tokens": max_tokens,
        }
        # Hosted models refuse some of these, and have another name for `max_tokens`.
        plain = {"max_completion_tokens": max_tokens}
        for is_plain in (False, True)[self._is_plain :]:
            try:
                for piece in self._ask(body | (plain if is_plain else usual), limits):
                    self._is_plain = is_plain
                    yield piece
                return
            except RefusedError as error:
                if is_plain or error.status not in {400, 415, 422, 501}:
                    raise

    def _ask(self, body: Mapping[str, object], limits: Limits) -> Generator[StreamPiece]:
        with open_response(f"{self.url}/chat/completions", limits, body, self._key) as response:
            for data in read_events(response):
                try:
                    chunk = _Chunk.model_validate_json(data)
                except ValidationError as error:
                    first = error.errors(include_url=False, include_input=False)[0]
                    raise StrangeAnswerError(str(first["msg"])) from error
                if chunk.error is not None:
                    raise RefusedError(-1, find_message(data.decode("utf-8", "replace")))
                for choice in chunk.choices or ():
                    delta = choice.delta
                    thought = delta.reasoning_content or delta.reasoning or ""
                    yield StreamPiece(delta.content or "", thought, choice.finish_reason)
                prompt_tokens, measured = chunk.usage.prompt_tokens if chunk.usage else None, None
                if timings := chunk.timings:
                    read_s, written_s = timings.prompt_ms / 1e3, timings.predicted_ms / 1e3
                    measured = Measured(timings.prompt_n, read_s, timings.predicted_n, written_s)
                if prompt_tokens or measured:
                    yield StreamPiece(prompt_tokens=prompt_tokens, measured=measured)


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
