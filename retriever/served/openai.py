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
from pydantic import AliasPath, BaseModel, Field, ValidationError

from retriever.served.server import ODDS, ModelInfo, ModelServer, StreamPiece, make_messages, share_of_yes
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

    program = "OpenAI-compatible server"
    may_think = True
    start = "start it, or check the address"
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
        """As `ModelServer.judge`."""
        messages = make_messages(instructions, material)
        body = {"model": self.model, "messages": messages, "max_tokens": 1, "logprobs": True, "top_logprobs": ODDS}
        content = request_json(f"{self.url}/chat/completions", limits, body | UNTHINKING, self.key)
        try:
            (word,) = content["choices"][0]["logprobs"]["content"]
            return share_of_yes([(str(item["token"]), float(item["logprob"])) for item in word["top_logprobs"]])
        except (LookupError, TypeError, ValueError) as error:
            raise StrangeAnswerError("no logprobs") from error

    def look_up(self, limits: Limits) -> ModelInfo:
        """Return what the server says of the model; a model that nobody named is the only one that it has."""
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
        """As `ModelServer.stream`."""
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
