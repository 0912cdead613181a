"""A model of Ollama, asked by Ollama's own client; docs/language-model.md says what is promised."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import httpx
from pydantic import BaseModel, ConfigDict

from retriever.errors import NoGeneratorError, NoModelError
from retriever.http_client import (
    RefusedError,
    StrangeAnswerError,
    Timeouts,
    client_options,
    ollama_client,
    ollama_url,
    one_line,
)
from retriever.llm.server import CONNECT_S, LOOK_UP_S, LlmServer, ModelInfo, Reply, served_window
from retriever.llm.speed import Measured
from retriever.llm.task import Task
from retriever.settings.schema import LlmSettings

if TYPE_CHECKING:
    from collections.abc import Generator as Stream

    from ollama import ChatResponse

THINKING_LEVELS = ("none", "minimal", "low", "medium", "high", "max")  # from the least on


class Thinking(BaseModel):
    """What a model can be told about thinking, in `/api/show`."""

    values: list[bool | str] = []


class ShownModel(BaseModel):
    """What is read of `/api/show`; Ollama's own client leaves out `thinking`."""

    model_config = ConfigDict(protected_namespaces=())

    model_info: dict[str, Any] | None = None
    capabilities: list[str] | None = None
    thinking: Thinking | None = None


class OllamaServer(LlmServer):
    program = api = "Ollama"
    start = "start it with `ollama serve`"
    check = "see whether `ollama ps` still lists it"
    busy = frozenset({503})

    def __init__(self, settings: LlmSettings) -> None:
        try:
            url = ollama_url(settings.url, allow_remote=settings.allow_remote)
        except ValueError as error:
            raise NoGeneratorError(f"{'llm.url' if settings.url else 'OLLAMA_HOST'}: {error}") from error
        super().__init__(settings, url)

    def describe(self) -> str:
        with self._as_unhealthy(LOOK_UP_S):
            try:
                return f"Ollama {self._ask('/api/version', LOOK_UP_S)['version']} at {self.url}"
            except (LookupError, RefusedError) as error:
                raise StrangeAnswerError(str(error)) from error

    def _ask(self, path: str, seconds: float, **body: str) -> Mapping[str, Any]:
        """What Ollama's own client does not ask for, or does not give back whole."""
        with httpx.Client(**client_options(Timeouts(CONNECT_S, seconds), self.url)) as client:
            response = client.request("POST" if body else "GET", f"{self.url}{path}", json=body or None)
        try:
            content = response.json()
        except ValueError:
            content = {} if response.is_error else None
        if not isinstance(content, dict):
            raise StrangeAnswerError(f"{path}: {one_line(response.text)}")
        if not response.is_success:
            raise RefusedError(response.status_code, str(content.get("error", response.text)))
        return content

    def look_up(self, seconds: float) -> ModelInfo:
        with self._as_unhealthy(seconds), ollama_client(self.url, Timeouts(CONNECT_S, seconds)) as client:
            present = [model.model or "" for model in client.list().models]
            name = next((name for name in (self.model, f"{self.model}:latest") if name in present), None)
            if name is None:
                others = f"; it has {', '.join(present)} (llm.model)" if present else ""
                raise NoModelError(str(self._missing("")) + others)
            windows = {model.model: model.context_length for model in client.ps().models}
            details = ShownModel.model_validate(self._ask("/api/show", seconds, model=name))
        lengths = (value for key, value in (details.model_info or {}).items() if key.endswith(".context_length"))
        context_length = next((length for length in lengths if isinstance(length, int)), None)
        if self.think is not None:  # it has not refused
            self.think = choose_thinking(name, details.thinking)
        return ModelInfo(
            name=name,
            is_loaded=name in windows and windows[name] in {None, served_window(context_length, self._settings)},
            can_chat=details.capabilities is None or "completion" in details.capabilities,
            context_length=context_length,
        )

    def _chat(self, task: Task[Any], seconds: float, *, is_second_try: bool) -> Reply:
        settings, max_tokens = self._settings, task.max_tokens + self.thought_tokens
        options = {
            "num_ctx": settings.num_ctx,
            "num_predict": max_tokens,
            "temperature": task.temperature,
            "seed": 7,
        }
        # Each token comes as a line of JSON of some 130 bytes.
        timeouts = Timeouts(CONNECT_S, seconds, idle_s=settings.idle_seconds, max_bytes=2**15 + 512 * max_tokens)
        with ollama_client(self.url, timeouts) as client:
            stream = client.chat(
                self.model,
                self._write_messages(task, shows_shape=is_second_try or not self.has_schema),
                stream=True,
                think=cast("Any", self.think),  # the client's own type does not know every level that a server has
                format=task.answer.model_json_schema() if self.has_schema else None,
                options=options,
                keep_alive=settings.keep_alive_seconds,
            )
            with closing(cast("Stream[ChatResponse, None, None]", stream)) as parts:
                return self._read(parts, task.on_text)

    def _read(self, parts: "Iterator[ChatResponse]", on_text: Callable[[str], None] | None) -> Reply:
        started, first = time.monotonic(), None
        text, thoughts = [], []
        self.has_begun = False
        for part in parts:
            first = first if first is not None else time.monotonic() - started
            self.has_begun = True
            text.append(part.message.content or "")
            thoughts.append(part.message.thinking or "")
            if on_text is not None and part.message.content:
                on_text("".join(text))
            if part.done:
                whole, is_thoughts = self._finish(part.done_reason, text, thoughts)
                read_s, written_s = (part.prompt_eval_duration or 0) / 1e9, (part.eval_duration or 0) / 1e9
                measured = Measured(part.prompt_eval_count or 0, read_s, part.eval_count or 0, written_s)
                return Reply(whole, is_thoughts, part.prompt_eval_count, first, measured)
        raise self._ended_early()

    def _adapt(self, error: Exception) -> bool:
        if isinstance(error, RefusedError) and error.status == 400 and self.think is not None and "think" in str(error):
            self.think = None
            return True
        return False

    def _missing(self, said: str) -> NoModelError:
        return NoModelError(f"Ollama at {self.url} has no {self.model}: run: ollama pull {self.model}")


def choose_thinking(name: str, thinking: "Thinking | None") -> bool | str:
    """The least that a model can be told to think."""
    if thinking is None:  # an older server: it says whether a model thinks, and not how it is told
        return "low" if "gpt-oss" in name.lower() else False
    if not thinking.values or False in thinking.values:
        return False
    known = [level for level in THINKING_LEVELS if level in thinking.values]
    return next(iter([*known, *thinking.values]))
