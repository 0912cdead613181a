"""A model behind OpenAI's API, as LM Studio, llama.cpp's server, vLLM and hosted ones speak it, by the official client.

Servers know different parts of this API: what one refuses is left out, once, and named.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from retriever.errors import CutAnswerError, LanguageModelError, NoGeneratorError, NoModelError, TaskTooLongError
from retriever.http_client import (
    RefusedError,
    Timeouts,
    allowed_url,
    find_key,
    is_this_machine,
    keyring_command,
    openai_client,
)
from retriever.llm.server import CONNECT_S, LlmServer, ModelInfo, Reply
from retriever.llm.speed import Measured
from retriever.llm.task import Task
from retriever.settings.schema import LlmSettings

if TYPE_CHECKING:
    from openai.types import Model
    from openai.types.chat import ChatCompletionChunk

progress = logging.getLogger("retriever.llm.progress")

FAR_S = 5.0  # for a connection to another machine, and for what is asked of it about a model
# What a server may do without, and words by which it speaks of them; the last is left out where it names none.
OPTIONAL = ("chat_template_kwargs", "stream_options", "seed", "temperature", "max_tokens", "response_format")
HINTS = {"chat_template_kwargs": "enable_thinking|reasoning_effort", "response_format": "json_schema|grammar|guided"}


class OpenAIServer(LlmServer):
    program = "server"
    api = "OpenAI's API"
    start = "start it, or see llm.url"
    check = "see its log"
    busy = frozenset({429, 502, 503, 504})

    def __init__(self, settings: LlmSettings) -> None:
        if find_spec("openai") is None:
            raise NoGeneratorError("llm.kind openai needs the extra `openai`; run: uv sync --extra openai")
        if not settings.url:
            raise NoGeneratorError("llm.url: name the server of llm.kind openai, such as http://127.0.0.1:1234/v1")
        try:
            url = allowed_url(settings.url, allow_remote=settings.allow_remote, section="llm")
            super().__init__(settings, url if urlsplit(url).path else f"{url}/v1")
            self._key = find_key(settings.api_key_env, url)
        except ValueError as error:
            raise NoGeneratorError(str(error)) from error
        self._refused: set[str] = set()  # of OPTIONAL
        self._is_guess = False  # whether the last of these is one of which the server did not speak
        self._has_answered = False
        self._thought_aloud = False  # whether the last answer was stopped although it had thoughts alone
        self._connect_s = CONNECT_S
        if not is_this_machine(url):
            self._connect_s = self.look_up_s = FAR_S

    def describe(self) -> str:
        self._list_models(self.look_up_s)
        return f"a server that speaks OpenAI's API at {self.url}"

    def look_up(self, seconds: float) -> ModelInfo:
        models = self._list_models(seconds)
        name, ids = self._settings.model, [model.id for model in models]
        found = next((model for model in models if model.id == name or model.id.endswith(f"/{name}")), None)
        if found is None and len(models) == 1 and name == LlmSettings().model:  # nobody named one, and there is one
            found = models[0]
        if found is None and ids:
            raise NoModelError(f"{self._missing('')}; it has {', '.join(ids[:20])}")
        self.model = found.id if found else name
        # vLLM, llama.cpp, OpenRouter; the others do not say.
        said: dict[str, Any] = (found.model_extra or {}) if found else {}
        meta = said.get("meta")
        lengths = (said.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, dict) else None)
        length = next((item for item in (*lengths, said.get("context_length")) if isinstance(item, int)), None)
        return ModelInfo(self.model, True if self._has_answered else None, True, length)

    def _list_models(self, seconds: float) -> "list[Model]":
        """The models that the server lists; none where it has no such list."""
        with self._as_unhealthy(seconds):
            try:
                with openai_client(self.url, Timeouts(self._connect_s, seconds), self._key) as client:
                    return [model for model in client.models.list().data if isinstance(model.id, str)]
            except RefusedError as error:
                if error.status in {404, 405, 501}:
                    return []
                raise

    def _chat(self, task: Task[Any], seconds: float, *, is_second_try: bool) -> Reply:
        deadline = time.monotonic() + seconds
        try:
            return self._ask(task, seconds, is_second_try=is_second_try)
        except CutAnswerError:
            if not self._thought_aloud or self.think:
                raise
            self.think = True  # it thinks although it was told not to: it gets room for that
        return self._ask(task, deadline - time.monotonic(), is_second_try=is_second_try)

    def _ask(self, task: Task[Any], seconds: float, *, is_second_try: bool) -> Reply:
        max_tokens = task.max_tokens + self.thought_tokens
        schema = {"name": "answer", "schema": task.answer.model_json_schema()}
        options: dict[str, Any] = {
            # Templates pass over names that they do not know.
            "chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "low"},
            "stream_options": {"include_usage": True},
            "seed": 7,
            "temperature": task.temperature,
            "max_tokens": max_tokens,
            "response_format": {"type": "json_schema", "json_schema": schema},
        }
        body = {name: value for name, value in options.items() if name not in self._left_out}
        if "max_tokens" in self._refused:
            body["max_completion_tokens"] = max_tokens  # as newer models of OpenAI want it
        shows_shape = is_second_try or "response_format" in self._left_out
        # Each token comes as an event of some 250 bytes.
        limit = 2**15 + 1024 * max_tokens
        timeouts = Timeouts(self._connect_s, seconds, idle_s=self._settings.idle_seconds, max_bytes=limit)
        with openai_client(self.url, timeouts, self._key) as client:
            stream = client.chat.completions.create(
                model=self.model,
                messages=cast("Any", self._write_messages(task, shows_shape=shows_shape)),
                stream=True,
                extra_body=body,
            )
            with closing(stream) as chunks:
                return self._read(chunks, task.on_text)

    def _read(self, chunks: "Iterator[ChatCompletionChunk]", on_text: Callable[[str], None] | None) -> Reply:
        started, first = time.monotonic(), 0.0
        text, thoughts, reason = [], [], None
        usage, timings = None, None
        self.has_begun = False
        for chunk in chunks:
            usage = chunk.usage or usage
            timings = (chunk.model_extra or {}).get("timings") or timings
            for choice in chunk.choices or ():
                said = choice.delta.model_extra or {}
                text.append(choice.delta.content or "")
                thoughts.append(said.get("reasoning_content") or said.get("reasoning") or "")
                reason = choice.finish_reason or reason
                if not self.has_begun and (text[-1] or thoughts[-1]):
                    self.has_begun, first = True, time.monotonic() - started
                if on_text is not None and text[-1]:
                    on_text("".join(text))
        self._thought_aloud = reason == "length" and any(thoughts)
        if reason is None:
            raise self._ended_early()
        whole, is_thoughts = self._finish(reason, text, thoughts)
        prompt_tokens = usage.prompt_tokens if usage else None
        if timings:  # of llama.cpp, by its own clock
            read_s, written_s = timings["prompt_ms"] / 1e3, timings["predicted_ms"] / 1e3
            measured = Measured(timings["prompt_n"], read_s, timings["predicted_n"], written_s)
        elif usage and self._has_answered:  # by the clock here; with the first answer, the model may have been loaded
            measured = Measured(usage.prompt_tokens, first, usage.completion_tokens, time.monotonic() - started - first)
        else:
            measured = Measured(0, 0.0, 0, 0.0)
        self._has_answered, self._is_guess = True, False
        return Reply(whole, is_thoughts, prompt_tokens, first, measured)

    def _adapt(self, error: Exception) -> bool:
        if not isinstance(error, RefusedError) or error.status not in {400, 415, 422, 501}:
            return False
        if isinstance(self._explain(error), TaskTooLongError):
            return False
        if self._is_guess:  # without a schema it is refused as well, for another reason
            self._refused, self._is_guess = self._refused - {"response_format"}, False
            return False
        said = str(error).lower()
        sent = [name for name in OPTIONAL if name not in self._left_out]
        named = {name for name in sent if re.search(rf"\b{name}\b|{HINTS.get(name, name)}", said)}
        self._is_guess = not named and "response_format" in sent
        named |= {"response_format"} if self._is_guess else set()
        self._refused |= named
        if named:
            progress.info("%s refuses %s: asking without", self.url, ", ".join(sorted(named)))
        return bool(named)

    @property
    def _left_out(self) -> set[str]:
        """Of OPTIONAL, what is not sent."""
        return self._refused if self.has_schema else {*self._refused, "response_format"}

    @property
    def manner(self) -> str:
        refuses = f"the server refuses {', '.join(sorted(self._refused))}" if self._refused else ""
        words = ": the schema stands in the prompt" if "response_format" in self._refused else ""
        return ", ".join(filter(None, (super().manner, refuses + words)))

    def _explain_refusal(self, status: int, said: str) -> LanguageModelError:
        if status in {401, 403}:
            name = self._settings.api_key_env
            what = f"{self.url} refuses the key" if self._key else f"{self.url} wants a key"
            return NoGeneratorError(f"{what} ({said}): put it into the variable {name}, or: {keyring_command(name)}")
        return super()._explain_refusal(status, said)

    def _missing(self, said: str) -> NoModelError:
        what = f"{self.url} has no {self.model}" + (f" ({said})" if said else "")
        return NoModelError(f"{what}: see llm.model, and whether llm.url has the server's whole path, such as /v1")
