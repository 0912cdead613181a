"""What the servers of a language model have in common: what is asked of them, what is tried again, what a fault means.

A subclass for each API that servers speak: retriever.llm.ollama_server, retriever.llm.openai_server.
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import httpx

from retriever.errors import (
    CutAnswerError,
    LanguageModelError,
    LanguageModelTimeoutError,
    NoGeneratorError,
    NoModelError,
    TaskTooLongError,
    WrongAnswerError,
)
from retriever.http_client import AnswerTooLargeError, OverdueError, RefusedError, StrangeAnswerError, one_line
from retriever.llm.speed import Measured
from retriever.llm.task import Task
from retriever.settings.schema import LlmSettings

LOOK_UP_S = 1.0  # for all questions about a model; a server that needs longer is not healthy
CONNECT_S = 0.5
RETRY_PAUSE_S = 0.3
THOUGHT_TOKENS = (
    1024  # for the thoughts of a model that cannot be told not to think; the least level takes some hundred
)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    name: str  # as the server lists it, tag included
    is_loaded: bool | None  # with the context window that is asked for: for another one it is loaded anew; None: unsaid
    can_chat: bool  # embedding models cannot
    context_length: int | None  # how many tokens the model can read at most; None: the server does not say


def served_window(context_length: int | None, settings: LlmSettings) -> int:
    """How many tokens the model reads: as many as are asked for, unless it was made for fewer."""
    return min(settings.num_ctx, context_length or settings.num_ctx)


@dataclass(frozen=True, slots=True)
class Reply:
    text: str  # all of it; its thoughts, when it wrote nothing else
    is_thoughts: bool  # whether it wrote nothing else
    prompt_tokens: int | None  # how many tokens of the messages it read; None: the server does not say
    first_token_s: float  # from the request to the first piece of the answer
    measured: Measured  # how long the server says that it took


class LlmServer(ABC):
    """One model on one server; looked at and asked, its faults turned into errors that say what to do."""

    program: ClassVar[str]  # what is called healthy, busy or missing in a message
    api: ClassVar[str]  # what it speaks
    start: ClassVar[str]  # what to do where nothing answers
    check: ClassVar[str]  # what to do where it falls silent
    busy: ClassVar[frozenset[int]]  # statuses that may pass by themselves

    def __init__(self, settings: LlmSettings, url: str) -> None:
        self._settings = settings
        self.model = settings.model
        self.url = url
        # The least that the model can be told to think; None once the server has refused to be told.
        self.think: bool | str | None = False
        self.look_up_s = LOOK_UP_S
        self.has_begun = False  # whether the last answer began
        self.has_schema = True  # whether the server is given the schema; without, it stands in the instructions

    @abstractmethod
    def describe(self) -> str:
        """What the server is and where, having been asked; LanguageModelError."""

    @abstractmethod
    def look_up(self, seconds: float) -> ModelInfo:
        """What the server says of the model, without running it; waits for `look_up_s`, or fewer `seconds`."""

    @abstractmethod
    def _chat(self, task: Task[Any], seconds: float, *, is_second_try: bool) -> Reply:
        """The answer to one request; errors of HTTP, RefusedError and StrangeAnswerError, or a LanguageModelError."""

    @abstractmethod
    def _adapt(self, error: Exception) -> bool:
        """Leaves out what the server refused in a request; whether one without it is worth a try at once."""

    @abstractmethod
    def _missing(self, said: str) -> NoModelError: ...

    def chat(self, task: Task[Any], seconds: float, *, is_second_try: bool = False) -> Reply:
        """The model's answer to a task, unchecked; a connection that breaks is tried once more in the same time."""
        deadline, has_failed = time.monotonic() + seconds, False
        with self._explained():
            while True:
                try:
                    return self._chat(task, deadline - time.monotonic(), is_second_try=is_second_try)
                except (httpx.HTTPError, RefusedError) as error:
                    pause = 0.0
                    if not self._adapt(error):
                        if has_failed or not self._may_pass(error):
                            raise
                        has_failed, pause = True, RETRY_PAUSE_S
                    if time.monotonic() + pause >= deadline:
                        raise
                time.sleep(pause)

    def _may_pass(self, error: Exception) -> bool:
        """Whether a second try may help: a connection that failed or broke, or a busy server."""
        if isinstance(error, RefusedError):
            return error.status in self.busy
        return isinstance(error, httpx.NetworkError | httpx.ConnectTimeout | httpx.RemoteProtocolError)

    @staticmethod
    def _write_messages(task: Task[Any], *, shows_shape: bool) -> list[dict[str, str]]:
        """What the model reads; with the shape of its answer in words, where a schema is ignored or refused."""
        instructions = task.instructions
        if shows_shape:
            shape = json.dumps(task.answer.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
            instructions += (
                "\n\nWrite one JSON object and nothing else: no thoughts, no words before or after it, "
                f"no code fence. It must match this JSON schema: {shape}"
            )
        return [
            # A lone surrogate, which the name of a file may hold, cannot be sent.
            {"role": role, "content": text.encode("utf-8", "replace").decode("utf-8")}
            for role, text in (("system", instructions), ("user", task.material))
        ]

    def _finish(self, reason: str | None, text: Sequence[str], thoughts: Sequence[str]) -> tuple[str, bool]:
        """The whole answer, and whether it is thoughts alone; CutAnswerError unless it ended by itself."""
        where, written = f"{self.model} at {self.url}", "".join(text).strip()
        if reason == "stop":
            return written or "".join(thoughts), not written
        if reason == "length" and not written and any(thoughts):
            what = f"{where} thought aloud until it was stopped, and wrote no answer"
            raise CutAnswerError(f"{what}: choose an llm.model that does not think, or thinks less")
        if reason == "length":
            raise CutAnswerError(f"{where} wrote more than it may, and was stopped")
        raise CutAnswerError(f"{where} stopped before its answer was complete ({reason})")

    def _ended_early(self) -> CutAnswerError:
        return CutAnswerError(f"{self.model} at {self.url} ended its answer in the middle")

    @property
    def thought_tokens(self) -> int:
        """How many tokens are added to an answer for thoughts that cannot be switched off."""
        return THOUGHT_TOKENS if self.think else 0

    @property
    def manner(self) -> str:
        """How the model is asked, where that is not as usual: how much it thinks, and whether it follows a schema."""
        thinks = f"it cannot be told not to think (think: {self.think})" if self.think else ""
        return ", ".join(filter(None, (thinks, "" if self.has_schema else "it writes JSON only without a schema")))

    def cannot_chat(self) -> NoModelError:
        advice = "as embedding models cannot: name a chat model (llm.model)"
        return NoModelError(f"{self.model} at {self.url} cannot chat, {advice}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns a failure of the connection or of the server into a LanguageModelError that says what to do."""
        try:
            yield
        except (httpx.HTTPError, RefusedError, StrangeAnswerError) as error:
            raise self._explain(error) from error

    @contextmanager
    def _as_unhealthy(self, seconds: float) -> Iterator[None]:
        """The same; a server that cannot answer simple questions in its time is taken to be none."""
        try:
            with self._explained():
                yield
        except (LanguageModelTimeoutError, WrongAnswerError, CutAnswerError) as error:
            if isinstance(error, LanguageModelTimeoutError) and seconds < self.look_up_s:
                raise
            what = f"no healthy {self.program} at {self.url} ({error})"
            raise NoGeneratorError(f"{what}: restart it, or see llm.url") from error

    def _explain(self, error: Exception) -> LanguageModelError:
        model, url = self.model, self.url
        match error:
            case RefusedError():
                return self._explain_refusal(error.status, one_line(str(error)))
            case StrangeAnswerError():
                said = one_line(str(error))
                return WrongAnswerError(f"what answers at {url} speaks otherwise than {self.api} ({said})")
            case AnswerTooLargeError():
                return WrongAnswerError(f"{model} at {url} writes without end ({error})")
            case httpx.ConnectError() | httpx.ConnectTimeout():
                return NoGeneratorError(f"no {self.program} answers at {url}: {self.start}")
            case OverdueError():
                advice = "choose a smaller model (llm.model) or wait longer (llm.seconds)"
                return LanguageModelTimeoutError(f"{model} at {url} took longer than it may: {advice}")
            case httpx.TimeoutException():
                advice = f"{self.check}, or wait longer (llm.idle_seconds)"
                return LanguageModelTimeoutError(f"{model} at {url} fell silent: {advice}")
        return CutAnswerError(f"the connection to {url} broke before the answer was complete ({error})")

    def _explain_refusal(self, status: int, said: str) -> LanguageModelError:
        model, url = self.model, self.url
        if status == 404:
            return self._missing(said)
        if status in self.busy:
            return NoGeneratorError(f"the {self.program} at {url} is busy ({said}): ask again later")
        if 300 <= status < 400:
            advice = "which is not followed: set llm.url to the server's own"
            return NoGeneratorError(f"{url} sends on to another address, {advice}")
        if "does not support chat" in said:
            return self.cannot_chat()
        if "context" in said and ("exceed" in said or "length" in said):
            return TaskTooLongError(f"{model} at {url} cannot read so much ({said}): see llm.num_ctx")
        if status < 0:
            return CutAnswerError(f"{model} at {url} stopped in the middle of its answer: {said}")
        return LanguageModelError(f"the {self.program} at {url} failed: status {status}: {said}; its log says more")
