"""What the servers of both kinds share: how a model is asked to write, what is tried again, what a fault means."""

import json
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt

from retriever.errors import (
    CutAnswerError,
    LanguageModelError,
    LanguageModelTimeoutError,
    NoGeneratorError,
    NoModelError,
    TaskTooLongError,
    WrongAnswerError,
)
from retriever.served.speed import BYTES_PER_TOKEN, Measured, size
from retriever.served.task import Task, is_endless
from retriever.served.transport import (
    BrokenError,
    Limits,
    OverdueError,
    RefusedError,
    ServedError,
    SilentError,
    StrangeAnswerError,
    TooLargeError,
    UnreachableError,
    one_line,
)
from retriever.settings.schema import LlmSettings

LOOK_UP_S = 1.0  # for all questions about a model; a server that needs longer is not healthy
CONNECT_S = 0.5
RETRY_PAUSE_S = 0.3
BUSY = frozenset({429, 502, 503, 504})  # statuses that may pass by themselves
USUAL_WINDOW = 4096  # tokens, where nobody says: what LM Studio and older versions of Ollama load by default
# Their cards ask for these, and advise against always taking the likeliest word.
LEAST_TEMPERATURES = (("qwen3", 0.7), ("qwq", 0.6), ("deepseek-r1", 0.6))
# For the thoughts of a model that cannot be told not to think; the least level takes some hundred.
THOUGHT_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a server says of a model, without running it."""

    name: str  # as the server lists it, tag included
    is_loaded: bool | None  # with the context window that is asked for: for another one it is loaded anew; None: unsaid
    can_chat: bool  # embedding models cannot
    context_length: int | None  # how many tokens the model can read at most; None: the server does not say
    billions: float | None = None  # of weights; None: the server does not say, and neither does the name


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model wrote, unchecked."""

    text: str  # all of it; its thoughts, when it wrote nothing else
    is_thoughts: bool  # whether it wrote nothing else
    prompt_tokens: int | None  # how many tokens of the messages it read; None: the server does not say
    first_token_s: float  # from the request to the first piece of the answer
    measured: Measured  # how long the server says that it took, else by the clock
    cut: LanguageModelError | None = None  # why it is not whole; what is whole of it may be enough
    is_endless: bool = False  # whether it said the same again and again, or was stopped at its longest


@dataclass(frozen=True, slots=True)
class Piece:
    """What comes with one event of a stream."""

    text: str = ""
    thought: str = ""
    reason: str | None = None  # why the model stopped, once it did
    prompt_tokens: int | None = None
    measured: Measured | None = None


def served_window(context_length: int | None, settings: LlmSettings) -> int:
    """Return how many tokens the model reads: as many as are asked for, unless it was made, or loaded, for fewer."""
    if context_length is None and settings.num_ctx == LlmSettings().num_ctx:
        return min(settings.num_ctx, USUAL_WINDOW)  # nobody has said more
    return min(settings.num_ctx, context_length or settings.num_ctx)


def read_billions(said: object, name: str) -> float | None:
    """Return how many billion weights a model has, by `3.2B` or a count, else by its name.

    >>> read_billions("3.2B", "llama3.2"), read_billions(None, "qwen2.5-0.5b-instruct"), read_billions(None, "phi")
    (3.2, 0.5, None)
    """
    if isinstance(said, int | float):
        return said / 1e9
    found = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)\s*([bm])(?![a-z])", f"{said or ''} {name}".lower())
    return float(found[1]) / (1 if found[2] == "b" else 1000) if found else None


def least_temperature(name: str) -> float:
    """Return the temperature below which a family of models loops, by its own card; 0 for most."""
    return next((least for family, least in LEAST_TEMPERATURES if family in name.lower()), 0.0)


def may_pass(error: ServedError) -> bool:
    """Return whether a second try may help: no connection, a broken one, or a busy server."""
    is_busy = isinstance(error, RefusedError) and error.status in BUSY
    return is_busy or isinstance(error, UnreachableError | BrokenError)


class ModelServer(ABC):
    """One model on one server.

    `embed` and `rank` raise ServedError; what is asked of a language model raises LanguageModelError, which says what
    to do.
    """

    program: ClassVar[str]  # what is called healthy, busy or missing in a message
    api: ClassVar[str]  # what it speaks
    start: ClassVar[str]  # what to do where nothing answers
    check: ClassVar[str]  # what to do where it falls silent
    parallel: ClassVar[int]  # how many requests for vectors it usually works on at once

    def __init__(self, model: str, url: str, key: str = "", llm: LlmSettings | None = None) -> None:
        """Name the server, which is not asked yet; the key is sent to this URL alone, empty: none."""
        self.model = model
        self.url = url
        self._key = key
        self._llm = llm or LlmSettings()
        # How little the model is told to think; None once the server has refused to be told.
        self.think: bool | str | None = False
        self.look_up_s = LOOK_UP_S
        self._here = threading.local()  # several questions may be asked at once
        self.refused_window: int | None = None  # what it said that it reads, in refusing a longer task
        self._has_answered = False  # else the model may have been loaded with the first answer
        self.has_schema = True  # whether the server is given the schema; without, it stands in the instructions

    @property
    def has_begun(self) -> bool:
        """Whether the last answer to this thread began."""
        return getattr(self._here, "has_begun", False)

    @has_begun.setter
    def has_begun(self, begun: bool) -> None:
        self._here.has_begun = begun

    @property
    @abstractmethod
    def name(self) -> str:
        """The model and where it is, for messages."""

    @abstractmethod
    def missing(self, said: str = "") -> str:
        """Return that the server has no such model, and what to do."""

    @abstractmethod
    def identity(self, limits: Limits) -> tuple[str, ...]:
        """Return the kind of server, the model's name and, where it can be had, the digest of its weights.

        Raises:
            ServedError: it does not answer, or has no such model (404).
        """

    @abstractmethod
    def embed(self, texts: Sequence[str], limits: Limits) -> npt.ArrayLike:
        """Return one vector for each text, in order, unchecked; ServedError."""

    @abstractmethod
    def describe(self) -> str:
        """Return what the server is and where, having been asked; LanguageModelError."""

    @abstractmethod
    def look_up(self, seconds: float) -> ModelInfo:
        """Return what the server says of the model, without running it; LanguageModelError."""

    @abstractmethod
    def _generate(self, task: Task[Any], seconds: float, *, with_schema: bool) -> Reply:
        """Return the answer to one request; ServedError or LanguageModelError."""

    @abstractmethod
    def _adapt(self, error: ServedError) -> bool:
        """Leave out what the server refused in a request; return whether one without it is worth a try at once."""

    def generate(self, task: Task[Any], seconds: float, *, with_schema: bool = True) -> Reply:
        """Return what the model writes for a task, unchecked; LanguageModelError.

        A connection that breaks is tried once more in the same time. Without a schema, or where the server has none,
        the shape of the answer and an example stand in the prompt.
        """
        deadline, has_failed = time.monotonic() + seconds, False
        while True:
            try:
                self.has_begun = False
                return self._generate(task, deadline - time.monotonic(), with_schema=with_schema and self.has_schema)
            except ServedError as error:
                pause = 0.0
                if not self._adapt(error):
                    if has_failed or not may_pass(error):
                        raise self.explain(error) from error
                    has_failed, pause = True, RETRY_PAUSE_S
                if time.monotonic() + pause >= deadline:
                    raise self.explain(error) from error
            time.sleep(pause)

    @staticmethod
    def _write_messages(task: Task[Any], *, with_schema: bool) -> list[dict[str, str]]:
        instructions = task.instructions
        if not with_schema:
            shape = json.dumps(task.answer.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
            example = f" For another question it could be: {task.example}\n" if task.example else ""
            instructions += (
                "\n\nWrite one JSON object and nothing else: no thoughts, no words before or after it, "
                f"no code fence.{example} It must match this JSON schema: {shape}"
            )
        return [
            # A lone surrogate, which the name of a file may hold, cannot be sent.
            {"role": role, "content": text.encode("utf-8", "replace").decode("utf-8")}
            for role, text in (("system", instructions), ("user", task.material))
        ]

    def _collect(self, pieces: Iterable[Piece], task: Task[Any], started: float) -> Reply:
        """Return the answer of a stream; one that comes to no end is left, one that is late is given as far as it is.

        Args:
            pieces: of the stream.
            task: what was asked.
            started: when, by the monotonic clock.
        """
        text, thoughts, written, first = "", "", 0, 0.0
        reason, prompt_tokens, measured = None, None, None
        late: ServedError | None = None
        try:
            for piece in pieces:
                text, thoughts = text + piece.text, thoughts + piece.thought
                reason, measured = piece.reason or reason, piece.measured or measured
                prompt_tokens = piece.prompt_tokens or prompt_tokens
                if piece.text or piece.thought:
                    first = first if self.has_begun else time.monotonic() - started
                    self.has_begun, written = True, written + 1  # nearly always, an event is a token
                if piece.text and task.on_text is not None:
                    task.on_text(text)
                if piece.text and is_endless(text):
                    reason = "endless"
                    break
        except (OverdueError, SilentError) as error:
            if not self.has_begun:
                raise
            late = error
        if measured is None and self._has_answered:
            read = prompt_tokens or round(size(task.instructions + task.material) / BYTES_PER_TOKEN)
            measured = Measured(read, first, written, time.monotonic() - started - first)
        self._has_answered, text = True, text.strip()
        return Reply(
            text=text or thoughts,
            is_thoughts=not text,
            prompt_tokens=prompt_tokens,
            first_token_s=first,
            measured=measured or Measured(0, 0.0, 0, 0.0),
            cut=self.explain(late) if late else self._explain_end(reason, text, thoughts),
            is_endless=reason == "endless" or (reason == "length" and bool(text or not thoughts)),
        )

    def _explain_end(self, reason: str | None, text: str, thoughts: str) -> LanguageModelError | None:
        """Return what is wrong with an answer that ended for a reason; None where it is whole."""
        where = f"{self.model} at {self.url}"
        match reason:
            case "stop":
                return None
            case None:
                return CutAnswerError(f"{where} ended its answer in the middle")
            case "length" if thoughts and not text:
                what = f"{where} thought aloud until it was stopped, and wrote no answer"
                return CutAnswerError(f"{what}: choose an llm.model that does not think, or thinks less")
            case "length":
                return CutAnswerError(f"{where} wrote more than it may, and was stopped")
            case "endless":
                return CutAnswerError(f"{where} wrote the same again and again, and was stopped")
        return CutAnswerError(f"{where} stopped before its answer was complete ({reason})")

    @property
    def thought_tokens(self) -> int:
        """How many tokens are added to an answer for thoughts that cannot be switched off."""
        return 0 if self.think is False else THOUGHT_TOKENS

    @property
    def manner(self) -> str:
        """How the model is asked, where that is not as usual: how much it thinks, and whether it follows a schema."""
        thinks = "" if self.think is False else f"it cannot be told not to think (think: {self.think})"
        return ", ".join(filter(None, (thinks, "" if self.has_schema else "it writes JSON only without a schema")))

    def cannot_chat(self) -> NoModelError:
        """Return that this model embeds and does not write."""
        advice = "as embedding models cannot: name a chat model (llm.model)"
        return NoModelError(f"{self.model} at {self.url} cannot chat, {advice}")

    def explain_unhealthy(self, error: ServedError, seconds: float) -> LanguageModelError:
        """Return what a fault means that meets a simple question: a server that cannot answer it is taken for none."""
        explained = self.explain(error)
        is_late = isinstance(explained, LanguageModelTimeoutError) and seconds < self.look_up_s
        if is_late or not isinstance(explained, LanguageModelTimeoutError | WrongAnswerError | CutAnswerError):
            return explained
        return NoGeneratorError(f"no healthy {self.program} at {self.url} ({explained}): restart it, or see llm.url")

    def explain(self, error: ServedError) -> LanguageModelError:
        """Return what a fault means for who asks a language model, and what to do about it."""
        model, url, said = self.model, self.url, one_line(error)
        match error:
            case RefusedError():
                return self._explain_refusal(error.status, said)
            case StrangeAnswerError():
                return WrongAnswerError(f"what answers at {url} speaks otherwise than {self.api} ({said})")
            case TooLargeError():
                return WrongAnswerError(f"{model} at {url} writes without end ({said})")
            case UnreachableError():
                return NoGeneratorError(f"no {self.program} answers at {url}: {self.start}")
            case OverdueError():
                advice = "choose a smaller model (llm.model) or wait longer (llm.seconds)"
                return LanguageModelTimeoutError(f"{model} at {url} took longer than it may: {advice}")
            case SilentError():
                advice = f"{self.check}, or wait longer (llm.idle_seconds)"
                return LanguageModelTimeoutError(f"{model} at {url} fell silent: {advice}")
        return CutAnswerError(f"the connection to {url} broke before the answer was complete ({said})")

    def _explain_refusal(self, status: int, said: str) -> LanguageModelError:
        model, url = self.model, self.url
        if status == 404:
            return NoModelError(self.missing(said))
        if status in BUSY:
            return NoGeneratorError(f"the {self.program} at {url} is busy ({said}): ask again later")
        if 300 <= status < 400:
            advice = "which is not followed: set llm.url to the server's own"
            return NoGeneratorError(f"{url} sends on to another address, {advice}")
        if "does not support chat" in said:
            return self.cannot_chat()
        if "n_ctx" in said or ("context" in (lower := said.lower()) and ("exceed" in lower or "length" in lower)):
            # Of the two numbers the smaller one is the window, and the larger one the task.
            numbers = [int(number) for number in re.findall(r"\d{3,}", said)]
            self.refused_window = min(numbers, default=self.refused_window or 2 * USUAL_WINDOW)
            if not numbers:
                self.refused_window //= 2
            return TaskTooLongError(f"{model} at {url} cannot read so much ({said}): see llm.num_ctx")
        if status < 0:
            return CutAnswerError(f"{model} at {url} stopped in the middle of its answer: {said}")
        return LanguageModelError(f"the {self.program} at {url} failed: status {status}: {said}; its log says more")
