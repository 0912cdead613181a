"""A generator whose model runs on a server: it looks at the model, asks it, and asks again where that may help.

docs/guide/language-model.md says what it promises.
"""

import logging
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from retriever.errors import (
    LanguageModelError,
    LanguageModelTimeoutError,
    NoGeneratorError,
    TaskTooLongError,
    WrongAnswerError,
)
from retriever.served.address import allowed_url, find_key, ollama_url
from retriever.served.ollama import OllamaServer
from retriever.served.openai import OpenAIServer
from retriever.served.server import ModelInfo, ModelServer
from retriever.served.task import Speed, Task, Written, new_nonce, read_answer, read_speed, size, write_speed
from retriever.served.transport import Limits, OverdueError, RefusedError, ServedError, StrangeAnswerError, one_line
from retriever.settings.schema import LlmSettings

progress = logging.getLogger("retriever.served.progress")

LEAST_BYTES_PER_TOKEN = 3  # prose has 4 and more in every script, code and German 3 to 4, long runs of digits fewer
JUDGED_AT_ONCE = 4  # a server with fewer slots lets them wait
PROMPT_SHARE = 0.75  # of the context window: a longer prompt would be cut in silence if it were estimated wrongly


def open_server(settings: LlmSettings) -> ModelServer:
    """Return the server of the settings' kind, which is not asked yet; NoGeneratorError where it may not be asked."""
    is_ollama = settings.kind == "ollama"
    if not is_ollama and not settings.url:
        raise NoGeneratorError("llm.url: name the server of llm.kind openai, such as http://127.0.0.1:1234/v1")
    try:
        if is_ollama:
            url = ollama_url(settings.url, allow_remote=settings.allow_remote)
            return OllamaServer("llm", settings.model, url, llm=settings)
        url = allowed_url(settings.url, allow_remote=settings.allow_remote, section="llm")
        url = url if urlsplit(url).path else f"{url}/v1"
        return OpenAIServer("llm", settings.model, url, find_key(settings.api_key_env, url), settings)
    except ValueError as error:
        raise NoGeneratorError(f"{'llm.url' if settings.url else 'OLLAMA_HOST'}: {error}") from error


class Generator:
    """Writes with a model on a server; every fault is a LanguageModelError."""

    def __init__(self, settings: LlmSettings) -> None:
        """Name the model; nothing is asked yet."""
        self._settings = settings
        self.name = settings.model  # as its server names it once that was asked
        self._model: ModelInfo | None = None
        self._answered_at = -math.inf
        self._speed: Speed | None = None
        self.stage_s = settings.stage_seconds

    @cached_property
    def server(self) -> ModelServer:
        """The server, as `open_server` gives it."""
        return open_server(self._settings)

    @property
    def identity(self) -> str:
        """The model and its server, by which its speed is kept; LanguageModelError.

        The server is asked for its model where the settings name none.
        """
        if self._settings.kind == "openai" and self._settings.model == LlmSettings().model:
            self.look_up()
        return f"{self.server.url} {self.name}"

    @property
    def speed(self) -> Speed | None:
        """How fast the model is, as far as is known: measured by each answer, and kept in the user's cache folder."""
        if self._speed is None:
            with suppress(LanguageModelError):  # whatever is asked of the server next says the same
                self._speed = read_speed(self.identity)
        return self._speed

    def _remember(self, speed: Speed) -> None:
        self._speed = speed
        write_speed(self.identity, speed)

    def room(self, instructions: str, max_tokens: int, seconds: float | None = None) -> int:
        """Return how much material fits beside the instructions and the answer, in bytes as `size` counts; at least 0.

        The server is asked once what the model reads, for at most so many seconds: LanguageModelError.
        """
        window = self.look_up(seconds).window
        return max(0, self._prompt_tokens(window, max_tokens) * LEAST_BYTES_PER_TOKEN - size(instructions))

    def write_planned(self, plan: Callable[[], Task[Written]]) -> Written:
        """As `write`, for a task that is planned; once more where its server turns out to read less."""
        try:
            return self.write(plan())
        except TaskTooLongError:  # how much it reads is known by now
            return self.write(plan())

    def write(self, task: Task[Written]) -> Written:
        """Return the object that the model wrote.

        Raises LanguageModelError, or one of its kinds: it is not there, has no such model, took too long, stopped in
        the middle, wrote something else, or the task is longer than it can read.
        """
        try:
            return self._write(task)
        except TaskTooLongError as error:
            # Of the numbers in a server's refusal the smaller one is its window, and the larger one the task.
            numbers = [int(number) for number in re.findall(r"\d{3,}", str(error.__cause__))]
            if numbers and self._model:
                self._model = replace(self._model, window=min(*numbers, self._model.window))
            raise
        except LanguageModelError as error:
            self._model = None  # look it up again before the next task
            if task.seconds is None or not isinstance(error, LanguageModelTimeoutError):
                raise
            what = f"{self.name} did not finish in the {task.seconds:.1f} s that it had"
            raise LanguageModelTimeoutError(f"{what}: give it more, or choose a smaller llm.model") from error

    def _write(self, task: Task[Written]) -> Written:
        started = time.monotonic()
        window = self.look_up(task.seconds).window
        needed = -(-(size(task.instructions) + size(task.material)) // LEAST_BYTES_PER_TOKEN)
        if needed > self._prompt_tokens(window, task.max_tokens):
            has = f"and {self.name} reads {window:,} with its answer of up to {task.max_tokens:,}"
            raise TaskTooLongError(f"the prompt needs up to {needed:,} tokens, {has}: see llm.num_ctx")
        deadline = started + self._limit(task.seconds)
        # A third of what may be written is usual. A terminal shows this line, for the wait is long.
        read, speed = size(task.instructions + task.material), self.speed
        about = f", about {speed.seconds(read, task.max_tokens // 3):.0f} s" if speed else ""
        progress.info("asking %s%s", self.name, about)
        problem, is_schema_to_blame = "", False
        # Under a schema some models write nothing, and some loop: that is remembered.
        for with_schema in (speed is None or speed.has_schema, False):
            reply = self.server.generate(task, deadline - time.monotonic(), with_schema=with_schema)
            self._answered_at = time.monotonic()
            if reply.measured and (measured := reply.measured.joined(self.speed)):
                self._remember(measured)
            if (reply.prompt_tokens or 0) >= window:
                raise TaskTooLongError(f"{self.name} read the first {window} tokens of the task alone: see llm.num_ctx")
            try:
                written = read_answer(reply.text, task.answer, is_cut=reply.cut is not None)
            except WrongAnswerError as error:
                if reply.cut and not isinstance(reply.cut, WrongAnswerError):
                    raise reply.cut from error
                problem = str(reply.cut or f"{self.name} wrote {error}")
                is_schema_to_blame = with_schema and (reply.cut is not None or not reply.text)
                continue
            if reply.cut and not task.keeps_cut:
                raise reply.cut
            if is_schema_to_blame and self._speed:
                self._remember(replace(self._speed, has_schema=False))
            return written
        raise WrongAnswerError(f"{problem}, and so it did when asked again: try another llm.model")

    def judge(self, instructions: str, materials: Sequence[str], seconds: float | None = None) -> list[float]:
        """Return how likely the model says yes beside no to each material, 0 to 1, by the odds of its first word.

        Raises:
            WrongAnswerError: its server gives no odds, or neither is among them; that is remembered for a month.
            LanguageModelError: as `write`.
        """
        server, judged = self.server, list[float]()
        deadline = time.monotonic() + self._limit(seconds)

        def ask(material: str) -> float:
            return server.judge(instructions, material, Limits(server.connect_s, deadline - time.monotonic()))

        try:
            judged.append(ask(materials[0]))  # alone: the model may have to be loaded, or say neither
            with ThreadPoolExecutor(JUDGED_AT_ONCE) as pool:
                judged += pool.map(ask, materials[1:])
        except ServedError as error:
            if isinstance(error, RefusedError | StrangeAnswerError) and not error.may_pass:
                if self.speed and not judged:
                    self._remember(replace(self.speed, has_odds=False))
                raise WrongAnswerError(f"{self.name} gives no odds of yes and no ({one_line(error)})") from error
            raise server.explain(error) from error
        self._answered_at = time.monotonic()
        return judged

    def _limit(self, seconds: float | None) -> float:
        """Return how long is waited for an answer: longer where a model may have to be loaded, never over `seconds`."""
        settings = self._settings
        is_loaded = time.monotonic() - self._answered_at < settings.keep_alive_seconds
        longest = settings.seconds + (0 if is_loaded else settings.load_seconds)
        return min(longest, math.inf if seconds is None else seconds)

    def look_up(self, seconds: float | None = None) -> ModelInfo:
        """Return what the server says of the model, in so many seconds; LanguageModelError.

        It is asked once, and again after a failure.
        """
        if self._model is None:
            server = self.server
            try:
                limits = Limits(server.connect_s, min(server.look_up_s, seconds or math.inf))
                self._model = server.look_up(limits)
                self.name = server.model
            except (OverdueError, StrangeAnswerError) as error:
                what = f"no healthy {server.program} answers at {server.url} ({one_line(error)})"
                raise NoGeneratorError(f"{what}: restart it, or see llm.url") from error
            except ServedError as error:
                raise server.explain(error) from error
        return self._model

    def _prompt_tokens(self, window: int, max_tokens: int) -> int:
        """Return how many tokens of instructions and material fit into a context window beside the answer."""
        # 256 are for the model's own chat template, and for what a second try adds.
        written = max_tokens + self.server.thought_tokens
        return min(int(window * PROMPT_SHARE), window - written) - 256


# Whether the language model can be used, for `doctor`


class _Count(BaseModel):
    """Enough to write that it takes a measurable time."""

    numbers: list[Annotated[int, Field(ge=1, le=20)]] = Field(max_length=20)  # without bounds, small models count on


def _count_task() -> Task[_Count]:
    """Some 600 tokens that no server has read before, and some 60 to write."""
    text = " ".join(f"On page {new_nonce()} somebody tells how the boats come in at night." for _ in range(25))
    return Task("Write the numbers from 1 to 20 as JSON, whatever the text says.", text, _Count, 256)


def check_llm(settings: LlmSettings) -> Iterator[tuple[str, bool, str]]:
    """Yield what was looked at, whether it is well, and what was seen, or is wrong and what to do about it.

    The model's speed is measured, and kept for stages to plan by.
    """
    what = "model"
    try:
        generator = Generator(settings)
        model = generator.look_up()
        longest = model.context_length or "an unknown number"
        reads = f"it reads {model.window} of {longest} tokens (llm.num_ctx)"
        yield (what, True, f"{generator.name} is there, at {generator.server.url}; {reads}")
        what, started = "answer", time.monotonic()
        generator.write(_count_task())
        if generator.speed is None:  # the server does not measure, and may have loaded the model first
            started = time.monotonic()
            generator.write(_count_task())
        says = f"JSON of the shape that was asked for after {time.monotonic() - started:.1f} s"
        yield what, True, f"{says}; {generator.speed}" if generator.speed else says
    except LanguageModelError as error:
        yield what, False, str(error)
