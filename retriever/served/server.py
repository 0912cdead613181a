"""What the servers of both kinds share: what they are asked, for how long, and what a fault means."""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from math import exp
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
from retriever.served.task import Measured, Task
from retriever.served.transport import (
    BUSY,
    Limits,
    OverdueError,
    RefusedError,
    ServedError,
    StrangeAnswerError,
    UnreachableError,
    one_line,
)
from retriever.settings.schema import LlmSettings

USUAL_WINDOW = 4096  # tokens, where nobody says: what LM Studio and older versions of Ollama load by default
ODDS = 10  # words that a server is asked for, with how likely they are
# For the thoughts of a model that cannot be told not to think; the least level takes some hundred.
THOUGHT_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a server says of a model, without running it."""

    window: int  # how many tokens it reads here
    billions: float | None  # of weights; None: the server does not say, and neither does the name


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """What comes with one event of a stream, or with several."""

    text: str = ""
    thought: str = ""
    reason: str | None = None  # why the model stopped, once it did
    prompt_tokens: int | None = None  # how many tokens of the messages were read; None: the server does not say
    measured: Measured | None = None

    def joined(self, after: "StreamPiece") -> "StreamPiece":
        """Return what comes with this one and the next."""
        return StreamPiece(
            self.text + after.text,
            self.thought + after.thought,
            after.reason or self.reason,
            after.prompt_tokens or self.prompt_tokens,
            after.measured or self.measured,
        )


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


@dataclass(eq=False)
class ModelServer(ABC):
    """One model on one server; what asks it raises ServedError, and `explain` says what that means."""

    program: ClassVar[str]  # what is called busy, missing or failing in a message
    start: ClassVar[str]  # what to do where nothing answers
    may_think: ClassVar[bool]  # whether some servers of this kind have no way to tell a model not to think
    missing: ClassVar[str]  # that there is no such model, and what to do, of `section`, `model` and `url`

    section: str  # of the settings that name it, for messages: `llm`, `encoder` or `rerank`
    model: str  # as the server names it
    url: str
    key: str = field(default="", repr=False)  # is sent to this URL alone; empty: none
    llm: LlmSettings = field(default_factory=LlmSettings)  # how a language model is asked

    def limits(self, seconds: float | None = None) -> Limits:
        """Return the limits of a request that may take so many seconds from now, of None those of a quick look."""
        is_near = is_this_machine(self.url)
        # A server that needs longer to connect, or to say what it has, is not healthy.
        total_s = seconds if seconds is not None else 1.0 if is_near else 5.0
        return Limits(0.5 if is_near else 5.0, time.monotonic() + total_s, self.llm.idle_seconds)

    @property
    def is_gpt_oss(self) -> bool:
        """Whether the model is of a family that cannot be told not to think, and writes nothing under a schema."""
        return "gpt-oss" in self.model.lower()

    @property
    def thought_tokens(self) -> int:
        """How many tokens are added to an answer for thoughts that cannot be switched off."""
        return THOUGHT_TOKENS if self.may_think or self.is_gpt_oss else 0

    def identity(self, limits: Limits) -> tuple[str, ...]:
        """Return the kind of server and the model's name; most servers tell nothing of the weights."""
        return ("openai", self.model)

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
    def stream(self, task: Task[Any], limits: Limits, *, with_schema: bool) -> Generator[StreamPiece]:
        """Yield what the model writes, as it comes."""

    def _make_info(self, name: str, context_length: int | None, said: str = "") -> ModelInfo:
        """Return the information of a model; it reads what is asked for, unless it was made, or loaded, for less."""
        wanted = self.llm.num_ctx
        known = context_length or (USUAL_WINDOW if wanted == LlmSettings().num_ctx else wanted)  # nobody has said more
        return ModelInfo(min(wanted, known), read_billions(f"{said} {name}"))

    def explain(self, error: ServedError) -> LanguageModelError:
        """Return what a fault means, and what to do about it."""
        url, said, section = self.url, one_line(error), self.section
        match error:
            case UnreachableError():
                return NoGeneratorError(f"no {self.program} answers at {url}: {self.start}")
            case OverdueError():
                how = "; restart it, choose a smaller llm.model, or wait longer (llm.seconds, llm.stage_seconds)"
                text = f"{self.model or 'the model'} at {url} takes too long: {said}"
                return LanguageModelTimeoutError(text + (how if section == "llm" else ""))
            case StrangeAnswerError():
                return WrongAnswerError(f"what answers at {url} speaks otherwise than {self.program} ({said})")
            case RefusedError(status=401 | 403):
                what = f"{url} refuses the key" if self.key else f"{url} wants a key"
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
