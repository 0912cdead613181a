"""A generator whose model runs on a server: it looks at the model, asks it, and asks again where that may help.

docs/internals/language-models.md says what it promises.
"""

import logging
import math
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from retriever.errors import (
    LanguageModelError,
    LanguageModelTimeoutError,
    RetrieverError,
    WrongAnswerError,
)
from retriever.served.server import KEEP_ALIVE_S, SERVERS, ModelInfo, ModelServer, StreamEvent
from retriever.served.task import (
    ABILITIES,
    PROBE_VERSION,
    SPEEDS,
    TYPICAL_BYTES,
    USUAL,
    Abilities,
    Measured,
    Speed,
    Task,
    Written,
    read_answer,
)
from retriever.served.transport import OverdueError
from retriever.settings import LlmSettings, Profile
from retriever.text import BYTES_PER_TOKEN

progress = logging.getLogger("retriever.served.progress")

STAGE_SHARE = 8 / 30  # of the longest wait, that a stage should take: most people wait 8 s for an answer, not 30
LOAD_S = 60.0  # the longest wait, besides, for a model that is not loaded yet
PROMPT_SHARE = 0.75  # of the context window: a longer prompt would be cut in silence if it were estimated wrongly


@dataclass
class Reply:
    """The part of a stream that has come."""

    text: str = ""
    thought: str = ""
    reason: str | None = None  # why the model stopped, once it did
    prompt_tokens: int | None = None  # how many tokens of the messages were read; None: the server does not say
    measured: Measured | None = None
    cut: RetrieverError | None = None  # why it is not whole, where it is not

    @property
    def said(self) -> str:
        """The answer, or what a model that wrote none thought."""
        return self.text.strip() or self.thought

    def add(self, event: StreamEvent) -> None:
        self.text += event.text or ""
        self.thought += event.thought or ""
        self.reason = event.reason or self.reason
        self.prompt_tokens = event.prompt_tokens or self.prompt_tokens
        self.measured = event.measured or self.measured


class Generator:
    """Writes with a model on a server; every fault is a LanguageModelError."""

    def __init__(self, profile: Profile) -> None:
        """Take the profile that names the model; nothing is asked yet."""
        self._allow_remote = profile.allow_remote
        self._settings = profile.llm
        self.name = profile.llm.model  # as its server names it once that was asked
        self.stage_s = profile.llm.seconds * STAGE_SHARE
        self._model: ModelInfo | None = None
        self._loaded_until = 0.0  # by time.monotonic(); 0: nothing is known to be loaded

    @cached_property
    def server(self) -> ModelServer:
        """The server, which speaks OpenAI's API where its address has a path; NoGeneratorError."""
        llm = self._settings
        has_path = "/" in llm.url.rpartition("://")[2].rstrip("/")
        return SERVERS["openai" if has_path else "ollama"]("llm", llm.model, llm.url, self._allow_remote, llm)

    @property
    def identity(self) -> str:
        """The model and its server, by which its speed is kept; LanguageModelError.

        The server is asked for its model where the settings name none.
        """
        if self.server.kind == "openai" and self._settings.model == LlmSettings().model:
            self.look_up()
        return f"{self.server.url} {self.name}"

    @property
    def speed(self) -> Speed | None:
        """How fast the model is, as far as is known: measured by each answer, and kept in the user's cache folder."""
        with suppress(LanguageModelError):  # whatever is asked of the server next says the same
            speed = SPEEDS.read().get(self.identity)
            return speed and speed.current
        return None

    @property
    def abilities(self) -> Abilities | None:
        """The abilities that the model was seen to have; None where nobody has looked. LanguageModelError."""
        return ABILITIES.read().get(self._abilities_key)

    def remember(self, abilities: Abilities) -> None:
        """Store what the model was seen to do well."""
        ABILITIES.write(self._abilities_key, abilities)

    @property
    def _abilities_key(self) -> str:
        weights = self.look_up().weights
        return f"{self.identity} {weights} {PROBE_VERSION}"

    def room(self, task: Task[Any]) -> int:
        """Return how many bytes more the model could read beside the answer; below 0, it cannot read the task.

        The server is asked once what the model reads: LanguageModelError.
        """
        window = self.look_up().window
        # 256 are for the model's own chat template, and for what a second try adds.
        written = task.max_tokens + self.server.thought_tokens
        tokens = min(int(window * PROMPT_SHARE), window - written) - 256
        return tokens * BYTES_PER_TOKEN - task.size

    def choose(self, tasks: Iterable[Task[Written]], seconds: float) -> Task[Written]:
        """Return the first task that the model can read, and end in the seconds; LanguageModelError where none is."""
        speed, has_room = self.speed or USUAL, False
        for task in tasks:
            has_room = self.room(task) >= 0
            if has_room and speed.seconds(task) <= seconds:
                return task
        raise self.explain_slow(seconds) if has_room else self.explain_narrow()

    def explain_narrow(self) -> LanguageModelError:
        """Return the error of a prompt that needs more than the model reads."""
        reads = f"{self.name} reads {self.look_up().window:,} with its answer"
        how = "raise llm.num_ctx; llama-server gives each of its -np slots its share of -c"
        return LanguageModelError(f"the prompt needs more tokens, and {reads}: {how}")

    def explain_slow(self, seconds: float) -> LanguageModelTimeoutError:
        """Return the error of a stage whose least task would take longer."""
        what = f"{self.name} could not finish in {seconds:.3g} s at {self.speed or USUAL}"
        return LanguageModelTimeoutError(f"{what}: give it longer (llm.seconds)")

    def write(self, task: Task[Written]) -> Written:
        """Return the object that the model wrote.

        Raises LanguageModelError, or one of its kinds: it is not there, has no such model, took too long, stopped in
        the middle, wrote something else, or the task is longer than it can read.
        """
        if self.room(task) < 0:
            raise self.explain_narrow()
        is_loaded = time.monotonic() < self._loaded_until
        longest = self._settings.seconds + (0 if is_loaded else LOAD_S)
        end = self.server.deadline(min(longest, task.seconds))
        # A terminal shows this line, for the wait is long.
        speed = self.speed
        about = f", about {speed.seconds(task):.0f} s" if speed else ""
        progress.info("asking %s%s", self.name, about)
        problem, is_schema_to_blame = "", False
        # Under a schema some models write nothing, and some loop: that is remembered.
        for with_schema in ((speed is None or speed.has_schema) and not self.server.is_gpt_oss, False):
            asked = task if with_schema else task.in_words()
            reply = self._ask(asked, end, with_schema=with_schema)
            cut = reply.cut
            try:
                written = read_answer(reply.said, task.answer, is_cut=cut is not None)
            except WrongAnswerError as error:
                if cut and not isinstance(cut, WrongAnswerError):
                    raise cut from error
                problem = str(cut or f"{self.name} wrote {error}")
                is_schema_to_blame = with_schema and bool(cut or not reply.said)
                continue
            if is_schema_to_blame and (speed := self.speed):
                SPEEDS.write(self.identity, replace(speed, has_schema=False))
            return written
        raise WrongAnswerError(f"{problem}, and so it did when asked again: try another llm.model")

    def _ask(self, task: Task[Any], end: float, *, with_schema: bool) -> Reply:
        """Return what the model writes, unchecked; LanguageModelError.

        A connection that breaks is tried once more. How fast the model was is remembered.
        """
        try:
            reply = self.server.attempt(lambda: self._collect(task, end, with_schema=with_schema))
        except LanguageModelError:
            self._model = None  # look it up again before the next task
            raise
        if reply.said:
            self._loaded_until = time.monotonic() + KEEP_ALIVE_S
        if reply.measured and (speed := reply.measured.joined(self.speed)):
            SPEEDS.write(self.identity, speed)
        window = self.look_up().window
        if (reply.prompt_tokens or 0) >= window:
            raise LanguageModelError(f"{self.name} read the first {window} tokens of the task alone: see llm.num_ctx")
        return reply

    def _collect(self, task: Task[Any], end: float, *, with_schema: bool) -> Reply:
        """Return all of a stream; one that is late is cut off."""
        started, first, count = time.monotonic(), 0.0, 0
        reply = Reply()
        try:
            with closing(self.server.stream(task, end, with_schema=with_schema)) as events:
                for event in events:
                    reply.add(event)
                    if event.text or event.thought:
                        first = first or time.monotonic() - started
                        count += 1  # nearly always, an event is a token
        except OverdueError as error:
            reply.cut = self.server.explain(error)
        took = time.monotonic() - started
        if reply.measured is None and self._loaded_until:  # else the model may have been loaded first
            read = reply.prompt_tokens or round(task.size / TYPICAL_BYTES)
            # What has not begun reads slower than that, and half of it is nearer.
            reply.measured = Measured(read if first else read // 2, first or took, count, took - first)
        reply.cut = reply.cut or self._explain_end(reply)
        return reply

    def _explain_end(self, whole: Reply) -> LanguageModelError | None:
        """Return what is wrong with an answer that ended for a reason; None where it is whole."""
        match whole.reason:
            case "stop":
                return None
            case "length" if whole.thought and not whole.text.strip():
                what = f"{self.name} thought aloud until it was stopped, and wrote no answer"
                return LanguageModelError(f"{what}: choose an llm.model that does not think, or thinks less")
            case "length":  # under a schema some models loop
                return WrongAnswerError(f"{self.name} wrote until it was stopped, perhaps the same again and again")
        why = whole.reason or "no reason"
        return LanguageModelError(f"{self.name} at {self.server.url} ended its answer in the middle ({why})")

    def look_up(self) -> ModelInfo:
        """Return what the server says of the model; LanguageModelError.

        It is asked once, and again after a failure.
        """
        if self._model is None:
            server = self.server
            self._model = server.attempt(server.look_up, ())
            self.name = server.model
            if server.kind == "openai" and server.template is not None:  # llama.cpp, which has loaded it
                self._loaded_until = math.inf
        return self._model
