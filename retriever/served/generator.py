"""A generator whose model runs on a server: it looks at the model, asks it, tries again where that may help.

docs/guide/language-model.md says what it promises.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from retriever.errors import (
    LanguageModelError,
    LanguageModelTimeoutError,
    NoGeneratorError,
    RetrieverError,
    TaskTooLongError,
    WrongAnswerError,
)
from retriever.served.address import allowed_url, find_key, ollama_url
from retriever.served.ollama import OllamaServer
from retriever.served.openai import OpenAIServer
from retriever.served.server import ModelInfo, ModelServer, Reply, read_billions, served_window
from retriever.served.speed import LEAST_READ, Measured, Speed, SpeedFile, size
from retriever.served.task import Task, Written, read_answer
from retriever.settings.schema import LlmSettings

progress = logging.getLogger("retriever.served.progress")

BYTES_PER_TOKEN = 3  # prose has 4 and more in every script, code and German 3 to 4, long runs of digits fewer
PROMPT_SHARE = 0.75  # of the context window: a longer prompt would be cut in silence if it were estimated wrongly
LOOK_EVERY_S = 30.0


def open_server(settings: LlmSettings) -> ModelServer:
    """Return the server of the settings' kind, which is not asked yet; NoGeneratorError where it may not be asked."""
    is_ollama = settings.kind == "ollama"
    if not is_ollama and not settings.url:
        raise NoGeneratorError("llm.url: name the server of llm.kind openai, such as http://127.0.0.1:1234/v1")
    try:
        if is_ollama:
            return OllamaServer(
                settings.model, ollama_url(settings.url, allow_remote=settings.allow_remote), llm=settings
            )
        url = allowed_url(settings.url, allow_remote=settings.allow_remote, section="llm")
        url = url if urlsplit(url).path else f"{url}/v1"
        return OpenAIServer(settings.model, url, find_key(settings.api_key_env, url), settings)
    except ValueError as error:
        raise NoGeneratorError(f"{'llm.url' if settings.url else 'OLLAMA_HOST'}: {error}") from error


class CircuitBreaker:
    """Makes everything fail at once for a minute after two failures in a row."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._reason: RetrieverError | None = None
        self._open_until = 0.0

    def check(self) -> None:
        """Raise the last failure, of its own kind, while the breaker is open."""
        left = self._open_until - self._clock()
        if self._reason and left > 0:
            raise type(self._reason)(f"{self._reason} (failed 2 times; asked again in {left:.0f} s)")

    def record_failure(self, reason: RetrieverError) -> None:
        """Open the breaker at the second failure in a row, and at the first one after that minute."""
        self._failures += 1
        self._reason = reason
        if self._failures >= 2:
            self._open_until = self._clock() + 60.0

    def record_success(self) -> None:
        """Close the breaker."""
        self._failures = 0


class ServedGenerator:
    """Writes with a model on a server; every fault is a LanguageModelError of `write` and `room`.

    After two failures in a row it fails at once for a minute. A wrong answer is no such failure, because the server
    works, nor is a task that allowed less time than the settings do.
    """

    def __init__(self, settings: LlmSettings) -> None:
        """Name the model; nothing is asked yet."""
        self._settings = settings
        self._breaker = CircuitBreaker()
        self._model: ModelInfo | None = None
        self._window: int | None = None  # what the model reads, as the server said last
        self._looked_up_at = 0.0
        self.reply: Reply | None = None  # the last one
        self.stage_s = settings.stage_seconds
        self._speeds = SpeedFile.of_user()

    @property
    def name(self) -> str:
        """The model, as its server names it once that was asked; before, as the settings do."""
        return self.server.model if "server" in self.__dict__ else self._settings.model

    @property
    def identity(self) -> str:
        """As `Generator.identity`."""
        return f"{self.server.url} {self.own_name}"

    @property
    def own_name(self) -> str:
        """The model, as its server names it: that is asked where the settings name none; LanguageModelError."""
        if self._settings.kind == "openai" and self._settings.model == LlmSettings().model and self._model is None:
            with self._guarded(self.server.look_up_s):
                self._look_up(self.server.look_up_s)
        return self.server.model

    @property
    def billions(self) -> float | None:
        """As `Generator.billions`."""
        return self._model.billions if self._model else read_billions(None, self.name)

    @cached_property
    def server(self) -> ModelServer:
        """The server, as `open_server` gives it."""
        return open_server(self._settings)

    @cached_property
    def speed(self) -> Speed | None:
        """How fast the model is, as far as is known: measured by each answer, and kept in the user's cache folder."""
        with suppress(LanguageModelError):  # whatever is asked of the server next says the same
            return self._speeds.read(self.identity)
        return None

    def _learn(self, measured: Measured) -> None:
        if (speed := measured.joined(self.speed)) is not None and speed != self.speed:
            self.__dict__["speed"] = speed
            self._speeds.write(self.identity, speed)

    def room(self, instructions: str, max_tokens: int, seconds: float | None = None) -> int:
        """As `Generator.room`; the window is the served model's, which the server is asked for once."""
        if self._window is None:
            with self._guarded(seconds):
                self._look_up(min(self.server.look_up_s, seconds or self.server.look_up_s))
        window = min(self._window or self._settings.num_ctx, self.server.refused_window or self._settings.num_ctx)
        return max(0, self._prompt_tokens(window, max_tokens) * BYTES_PER_TOKEN - size(instructions))

    def write(self, task: Task[Written]) -> Written:
        """As `Generator.write`."""
        self._check_length(task, self._settings.num_ctx)
        with self._guarded(task.seconds):
            written = self._write(task)
        self._breaker.record_success()
        return written

    @contextmanager
    def _guarded(self, seconds: float | None) -> Iterator[None]:
        """Count what fails inside, where the server is asked in so many seconds; an open breaker raises."""
        self._breaker.check()
        try:
            yield
        except (WrongAnswerError, TaskTooLongError):
            self._breaker.record_success()
            raise
        except LanguageModelError as error:
            model, self._model = self._model, None  # look it up again before the next task
            is_late = isinstance(error, LanguageModelTimeoutError)
            if is_late and seconds is not None and seconds < self._settings.seconds:
                # The task had no time: that says nothing of the server.
                time_given = f"in the {seconds:.1f} s that it had"
                if model is not None and model.is_loaded is False:
                    advice = f"was not loaded {time_given}: `ollama run {self.name}` loads it"
                else:
                    advice = f"did not finish {time_given}: give it more, or choose a smaller llm.model"
                raise LanguageModelTimeoutError(f"{self.name} {advice}") from error
            self._breaker.record_failure(error)
            raise

    def _write(self, task: Task[Written]) -> Written:
        started = time.monotonic()
        model = self._look_up(min(self.server.look_up_s, task.seconds or self.server.look_up_s))
        window = served_window(model.context_length, self._settings)
        window = min(window, self.server.refused_window or window)
        self._check_length(task, window)
        # A model that is not loaded gets longer, but a task's own limit always holds.
        seconds = self._settings.seconds + (0 if model.is_loaded else self._settings.load_seconds)
        deadline = started + min(seconds, math.inf if task.seconds is None else task.seconds)
        problem, is_schema_to_blame = "", False
        for is_second_try in (False, True):
            self.reply = reply = self._generate(task, model, deadline, with_schema=not is_second_try)
            if (reply.prompt_tokens or 0) >= window:
                raise TaskTooLongError(f"{self.name} read the first {window} tokens of the task alone: see llm.num_ctx")
            self._model, self._looked_up_at = replace(model, is_loaded=True), time.monotonic()
            try:
                written = read_answer(reply.text, task.answer, is_cut=reply.cut is not None)
            except WrongAnswerError as error:
                if reply.cut and not reply.is_endless:
                    raise reply.cut from error
                problem = "the same again and again" if reply.is_endless else str(error)
                # Under a schema some models write nothing but thoughts, and some loop.
                is_schema_to_blame = is_schema_to_blame or reply.is_thoughts or reply.is_endless
                continue
            if reply.cut and not task.keeps_cut:
                raise reply.cut
            if is_second_try and is_schema_to_blame:
                self._remember_schema(has_schema=False)
            return written
        raise WrongAnswerError(f"{self.name} wrote {problem}, and so it did when asked again: try another llm.model")

    def _remember_schema(self, *, has_schema: bool) -> None:
        """Remember whether the model writes under a schema, also in the user's cache folder."""
        self.server.has_schema = has_schema
        if self.speed is not None and self.speed.has_schema != has_schema:
            self.__dict__["speed"] = replace(self.speed, has_schema=has_schema)
            self._speeds.write(self.identity, self.speed)

    def _generate(self, task: Task[Any], model: ModelInfo, deadline: float, *, with_schema: bool) -> Reply:
        """Return the answer, by which the speed is learned; nothing is asked where reading would take too long."""
        left = deadline - time.monotonic()
        prompt, speed = task.instructions + task.material, self.speed
        if speed is not None and (needed := speed.seconds(prompt, 1)) > left:
            self.__dict__["speed"] = replace(speed, reads=1.25 * speed.reads)  # so that it is tried again some time
            what = f"{self.name} would read for {needed:.0f} s ({speed})"
            raise LanguageModelTimeoutError(f"{what}, and has {left:.0f} s")
        # A third of what may be written is usual. A terminal shows this line, for the wait is long.
        about = f", about {speed.seconds(prompt, task.max_tokens // 3):.0f} s" if speed else ""
        progress.info("asking %s%s%s", self.name, ", which has to be loaded" if model.is_loaded is False else "", about)
        try:
            if speed is not None and not speed.has_schema:
                self.server.has_schema = False
            reply = self.server.generate(task, left, with_schema=with_schema)
        except LanguageModelTimeoutError:
            if model.is_loaded and not self.server.has_begun:  # it read until the end: it is slower than that
                tokens = max(LEAST_READ, size(prompt) // BYTES_PER_TOKEN)
                self._learn(Measured(tokens, max(left, tokens / speed.reads if speed else 0.0), 0, 0.0))
            raise
        self._learn(reply.measured)
        return reply

    def _look_up(self, seconds: float) -> ModelInfo:
        """Return what the server says of the model; asked again when it is old."""
        max_age_s = min(LOOK_EVERY_S, self._settings.keep_alive_seconds)
        if self._model is None or time.monotonic() - self._looked_up_at >= max_age_s:
            self._model, self._looked_up_at = self.server.look_up(seconds), time.monotonic()
            self._window = served_window(self._model.context_length, self._settings)
        if not self._model.can_chat:
            raise self.server.cannot_chat()
        return self._model

    def _check_length(self, task: Task[Written], window: int) -> None:
        needed = -(-(size(task.instructions) + size(task.material)) // BYTES_PER_TOKEN)
        room = self._prompt_tokens(window, task.max_tokens)
        if needed > room:
            has = f"and {self.name} reads {window:,} with its answer of up to {task.max_tokens:,}"
            raise TaskTooLongError(f"the prompt needs up to {needed:,} tokens, {has}: see llm.num_ctx")

    def _prompt_tokens(self, window: int, max_tokens: int) -> int:
        """Return how many tokens of instructions and material fit into a context window beside the answer."""
        # 256 are for the model's own chat template, and for what a second try adds.
        written = max_tokens + self.server.thought_tokens
        return min(int(window * PROMPT_SHARE), window - written) - 256
