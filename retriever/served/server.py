"""What the servers of both kinds share: how a model is asked to write, how its answer is read, what a fault means."""

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import exp
from threading import Event
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
from retriever.served.address import is_this_machine
from retriever.served.task import BYTES_PER_TOKEN, Measured, Task, is_endless, size
from retriever.served.transport import (
    BUSY,
    Limits,
    OverdueError,
    RefusedError,
    ServedError,
    StrangeAnswerError,
    UnreachableError,
    one_line,
    retry,
)
from retriever.settings.schema import LlmSettings

PAUSE_S = 0.3  # before a second try for which somebody waits
USUAL_WINDOW = 4096  # tokens, where nobody says: what LM Studio and older versions of Ollama load by default
# Their cards ask for these, and advise against always taking the likeliest word.
LEAST_TEMPERATURES = (("qwen3", 0.7), ("qwq", 0.6), ("deepseek-r1", 0.6))
ODDS = 10  # words that a server is asked for, with how likely they are
# For the thoughts of a model that cannot be told not to think; the least level takes some hundred.
THOUGHT_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a server says of a model, without running it."""

    context_length: int | None  # how many tokens the model can read at most; None: the server does not say
    window: int  # how many of them it reads here
    billions: float | None  # of weights; None: the server does not say, and neither does the name


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model wrote, unchecked."""

    text: str  # all of it; its thoughts, when it wrote nothing else
    prompt_tokens: int | None  # how many tokens of the messages it read; None: the server does not say
    measured: Measured | None  # how long the server says that it took, else by the clock
    cut: LanguageModelError | None = None  # why it is not whole; what is whole of it may be enough


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """What comes with one event of a stream."""

    text: str = ""
    thought: str = ""
    reason: str | None = None  # why the model stopped, once it did
    prompt_tokens: int | None = None
    measured: Measured | None = None


def read_billions(said: str) -> float | None:
    """Return how many billion weights a model has, by its name or what its server says of its size.

    >>> read_billions("3.2B llama3.2"), read_billions("qwen2.5-500m-instruct"), read_billions("phi")
    (3.2, 0.5, None)
    """
    found = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)\s*([bm])(?![a-z])", said.lower())
    return float(found[1]) / (1 if found[2] == "b" else 1000) if found else None


def make_messages(instructions: str, material: str) -> list[dict[str, str]]:
    return [
        # A lone surrogate, which the name of a file may hold, cannot be sent.
        {"role": role, "content": text.encode("utf-8", "replace").decode("utf-8")}
        for role, text in (("system", instructions), ("user", material))
    ]


def share_of_yes(odds: Iterable[tuple[str, float]]) -> float:
    """Return p(yes) / (p(yes) + p(no)) by the likeliest first words and the logarithms of how likely they are.

    >>> round(share_of_yes([("Yes", -0.2), (" no", -2.0), ("The", -5.0)]), 2)
    0.86
    """
    sums = {"yes": 0.0, "no": 0.0}
    for word, logarithm in odds:
        word = word.strip(" \n\"'.*\u2581\u0120").lower()
        if word in sums:
            sums[word] += exp(min(logarithm, 0.0))
    if not any(sums.values()):
        raise StrangeAnswerError("neither is among its first words")
    return sums["yes"] / sum(sums.values())


class ModelServer(ABC):
    """One model on one server.

    What asks it raises ServedError, except `generate`: its LanguageModelErrors say what to do.
    """

    program: ClassVar[str]  # what is called busy, missing or failing in a message
    start: ClassVar[str]  # what to do where nothing answers
    missing: ClassVar[str]  # that there is no such model, and what to do, of `section`, `model` and `url`

    def __init__(self, section: str, model: str, url: str, key: str = "", llm: LlmSettings | None = None) -> None:
        """Name the server, which is not asked yet.

        Args:
            section: of the settings that name it, for messages: `llm`, `encoder` or `rerank`.
            model: as the server names it.
            url: of the server.
            key: is sent to this URL alone; empty: none.
            llm: how a language model is asked.
        """
        self.section = section
        self.model = model
        self.url = url
        self._key = key
        self._llm = llm or LlmSettings()
        # For a connection, and for all questions about a model: a server that needs longer is not healthy.
        self.connect_s, self.look_up_s = (0.5, 1.0) if is_this_machine(url) else (5.0, 5.0)
        self._has_answered = False  # else the model may have been loaded with the first answer

    @property
    @abstractmethod
    def thought_tokens(self) -> int:
        """How many tokens are added to an answer for thoughts that cannot be switched off."""

    @abstractmethod
    def identity(self, limits: Limits) -> tuple[str, ...]:
        """Return the kind of server, the model's name and, where it can be had, the digest of its weights."""

    @abstractmethod
    def embed(self, texts: Sequence[str], limits: Limits) -> npt.ArrayLike:
        """Return one vector for each text, in order, unchecked."""

    @abstractmethod
    def look_up(self, limits: Limits) -> ModelInfo:
        """Return what the server says of the model, without running it."""

    @abstractmethod
    def judge(self, instructions: str, material: str, limits: Limits) -> float:
        """Return how likely the model begins with yes beside no, 0 to 1; StrangeAnswerError where nothing says so."""

    @abstractmethod
    def _stream(self, task: Task[Any], limits: Limits, *, with_schema: bool) -> Generator[StreamPiece]:
        """Yield the answer to one request."""

    def _make_info(self, name: str, context_length: int | None, said: str = "") -> ModelInfo:
        """Return the information of a model; it reads what is asked for, unless it was made, or loaded, for less."""
        wanted = self._llm.num_ctx
        known = context_length or (USUAL_WINDOW if wanted == LlmSettings().num_ctx else wanted)  # nobody has said more
        return ModelInfo(context_length, min(wanted, known), read_billions(f"{said} {name}"))

    def generate(self, task: Task[Any], seconds: float, *, with_schema: bool = True) -> Reply:
        """Return what the model writes for a task, unchecked; LanguageModelError.

        A connection that breaks is tried once more in the same time. Without a schema the shape of the answer and an
        example stand in the prompt.
        """
        deadline, model = time.monotonic() + seconds, self.model.lower()
        least = (least for family, least in LEAST_TEMPERATURES if family in model)
        task = replace(task, temperature=max(task.temperature, next(least, 0.0)))
        has_schema = with_schema and "gpt-oss" not in model  # it writes nothing under one
        if not has_schema:
            shape = json.dumps(task.answer.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
            example = f" For another question it could be: {task.example}\n" if task.example else ""
            how = "\n\nWrite one JSON object and nothing else: no thoughts, no words before or after it, no code fence."
            in_words = f"{how}{example} It must match this JSON schema: {shape}"
            task = replace(task, instructions=task.instructions + in_words)

        def ask() -> Reply:
            begun = Event()
            limits = Limits(self.connect_s, deadline - time.monotonic(), self._llm.idle_seconds, begun.is_set)
            with closing(self._stream(task, limits, with_schema=has_schema)) as pieces:
                return self._collect(pieces, task, begun)

        try:
            return retry(ask, (PAUSE_S,))
        except ServedError as error:
            raise self.explain(error) from error

    def _collect(self, pieces: Iterable[StreamPiece], task: Task[Any], begun: Event) -> Reply:
        """Return the answer of a stream; one that comes to no end is left, one that is late is given as far as it is.

        Args:
            pieces: of the stream.
            task: what was asked.
            begun: is set with the first data.
        """
        started, first = time.monotonic(), 0.0
        text, thoughts, written = "", "", 0
        reason, prompt_tokens, measured = None, None, None
        late: ServedError | None = None
        try:
            for piece in pieces:
                text, thoughts = text + piece.text, thoughts + piece.thought
                reason, measured = piece.reason or reason, piece.measured or measured
                prompt_tokens = piece.prompt_tokens or prompt_tokens
                if piece.text or piece.thought:
                    first = first or time.monotonic() - started
                    begun.set()
                    written += 1  # nearly always, an event is a token
                if piece.text and task.on_text is not None:
                    task.on_text(text)
                if piece.text and is_endless(text):
                    reason = "endless"
                    break
        except OverdueError as error:
            if not begun.is_set():
                raise
            late = error
        if measured is None and self._has_answered:
            read = prompt_tokens or round(size(task.instructions + task.material) / BYTES_PER_TOKEN)
            measured = Measured(read, first, written, time.monotonic() - started - first)
        self._has_answered, text = True, text.strip()
        return Reply(
            text=text or thoughts,
            prompt_tokens=prompt_tokens,
            measured=measured,
            cut=self.explain(late) if late else self._explain_end(reason, text, thoughts),
        )

    def _explain_end(self, reason: str | None, text: str, thoughts: str) -> LanguageModelError | None:
        """Return what is wrong with an answer that ended for a reason; None where it is whole."""
        match reason:
            case "stop":
                return None
            case "length" if thoughts and not text:
                what = f"{self.model} thought aloud until it was stopped, and wrote no answer"
                return CutAnswerError(f"{what}: choose an llm.model that does not think, or thinks less")
            case "length" | "endless":  # under a schema some models loop
                return WrongAnswerError(f"{self.model} wrote more than it may, or the same again and again")
        return CutAnswerError(f"{self.model} at {self.url} ended its answer in the middle ({reason or 'no reason'})")

    def explain(self, error: ServedError) -> LanguageModelError:
        """Return what a fault means, and what to do about it."""
        url, said, section = self.url, one_line(error), self.section
        match error:
            case UnreachableError():
                return NoGeneratorError(f"no {self.program} answers at {url}: {self.start}")
            case OverdueError():
                how = "; choose a smaller llm.model, or wait longer (llm.seconds, llm.idle_seconds)"
                text = f"{self.model or 'the model'} at {url} takes too long: {said}"
                return LanguageModelTimeoutError(text + (how if section == "llm" else ""))
            case StrangeAnswerError():
                return WrongAnswerError(f"what answers at {url} speaks otherwise than {self.program} ({said})")
            case RefusedError(status=401 | 403):
                what = f"{url} refuses the key" if self._key else f"{url} wants a key"
                return NoGeneratorError(f"{what} ({said}): put it into the variable that {section}.api_key_env names")
            case RefusedError(status=404):
                return NoModelError(f"{self.missing.format(section=section, model=self.model, url=url)} ({said})")
            case RefusedError(status=status) if 300 <= status < 400:
                how = f"which is not followed: set {section}.url to that"
                return NoGeneratorError(f"{url} sends on to another address, {how}")
            case RefusedError(status=status) if status in BUSY:
                return NoGeneratorError(f"the {self.program} at {url} is busy ({said}): ask again later")
            case RefusedError(status=status):
                kind = CutAnswerError if status < 0 else LanguageModelError
                if re.search(r"n_ctx|context.*(exceed|length)|exceed.*context", said, re.IGNORECASE):
                    kind = TaskTooLongError
                how = "; set encoder.max_tokens lower if a text is too long" if section == "encoder" else ""
                return kind(f"the {self.program} at {url} refuses: status {status}: {said}{how}")
        return CutAnswerError(f"the connection to {url} broke before the answer was complete ({said})")
