"""How long the answer to one question may take, and which of its stages that leaves time for.

Looking for changed files, the embedding, both arms, the tree, the fusion and what is shown always run. Whatever is left
is for the others: the expansion, late interaction and the reranking. A budget is no promise to the millisecond: a
stage that has begun is not interrupted, but for a language model, which is left when its time is over.
"""

import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from retriever.errors import GeneratorTimeoutError, OutOfTimeError
from retriever.types import Stage

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

FIRST_S: Mapping[str, float] = {
    "change": 0.0,
    "expand": 0.0,
    "embed": 0.10,
    "dense": 0.90,
    "lexical": 0.05,
    "neighbors": 0.02,
    "fuse": 0.01,
    "late": 0.03,
    "rerank": 0.0,
    "present": 0.02,
}
"""Seconds that each stage takes in the first search of a process, in their order: the embedding model is opened (57 to
86 ms), and ChromaDB imported where it is needed (770 to 950 ms). What a language model takes is not known before."""
OPTIONAL = frozenset({"change", "expand", "late", "rerank"})
"""Stages for which nothing is set aside."""
MEASURED = frozenset(FIRST_S) - OPTIONAL | {"late"}
LATELY = 3
"""The longest of so many runs of a stage is what it is expected to take."""
LATELY_S = 60.0
"""A stage that was skipped is tried again after so many seconds: a model may be loaded by now."""
SKIPPED = "skipped"
"""What the trace says of a stage that did not run: it took no time, which tells nothing."""

_WRITTEN = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?(ms|s)", re.ASCII)
_UNIT_S = {"ms": 0.001, "s": 1.0}
LONGEST_S = 3600.0


def seconds_in(text: str) -> float:
    """`800ms` -> 0.8, `2s` -> 2.0, `1.5s` -> 1.5.

    Raises:
        ValueError: it is no such time, is nothing, or is longer than an hour.
    """
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        bare = text.strip().replace(".", "", 1).isdecimal()
        raise ValueError(f"must have a unit: {text.strip()}ms or {text.strip()}s" if bare else _HOW)
    seconds = float(match[1]) * _UNIT_S[match[2]]
    if not 0 < seconds <= LONGEST_S:
        raise ValueError("must be more than 0 and at most 3600s")
    return seconds


_HOW = "must be a time such as 800ms or 2s, or empty"


class _Written:
    """How pydantic reads a time: as text with a unit, or empty."""

    def __get_pydantic_core_schema__(self, source: type, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema  # 70 ms, and only profiles that say something are checked

        return core_schema.no_info_plain_validator_function(_checked)


def _checked(value: object) -> str:
    from pydantic_core import PydanticCustomError

    try:
        if value != "":
            seconds_in(value if isinstance(value, str) else str(value))
    except ValueError as error:
        raise PydanticCustomError("duration", "{why}", {"why": str(error)}) from error
    return str(value)


Duration = Annotated[str, _Written()]
"""`800ms`, `2s`, or empty for no limit."""


class Pace:
    """What the stages of one retriever took lately; safe to share between threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lately: dict[str, deque[tuple[float, float]]] = {}
        self._lock = threading.Lock()

    def note(self, stages: Iterable[Stage]) -> None:
        """What the stages of an answer took; not those of a model, which takes nothing for what it remembers."""
        for stage in stages:
            if stage.name in MEASURED and stage.note != SKIPPED:
                self.note_seconds(stage.name, stage.milliseconds / 1000)

    def note_seconds(self, name: str, seconds: float) -> None:
        """What a stage took; or how long it was given, when that was too short."""
        with self._lock:
            self._lately.setdefault(name, deque(maxlen=LATELY)).append((self._clock(), seconds))

    def seconds(self, name: str) -> float:
        """What a stage is expected to take."""
        oldest = self._clock() - LATELY_S if name in OPTIONAL else -math.inf
        with self._lock:
            return max(
                (seconds for noticed, seconds in self._lately.get(name, ()) if noticed >= oldest),
                default=FIRST_S[name],
            )

    def after(self, name: str) -> float:
        """What the stages after this one are expected to take, those alone that always run."""
        order = list(FIRST_S)
        following = order[order.index(name) + 1 :]
        return sum(self.seconds(each) for each in following if each not in OPTIONAL)


@dataclass(frozen=True)
class TimeBudget:
    """What one question may take, from the moment at which it was asked."""

    total_s: float | None = None
    """None: as long as it takes."""
    pace: Pace = field(default_factory=Pace)
    clock: Callable[[], float] = time.monotonic
    begun: float = 0.0
    """By the clock."""

    def seconds_for(self, stage: str, needs: float = 0.0) -> float | None:
        """What a stage may take, so that those after it still have their time; None without a limit.

        Args:
            stage: its name.
            needs: what it takes in any case.

        Raises:
            OutOfTimeError: it cannot finish.
        """
        if self.total_s is None:
            return None
        left = self.begun + self.total_s - self.clock()
        after, needed = self.pace.after(stage), max(needs, self.pace.seconds(stage))
        if left - after > needed:
            return left - after
        of_all = f"{_ms(left)} of the budget of {_ms(self.total_s)} were left" if left > 0 else "the budget is used up"
        rest = f", and {_ms(after + needed)} are needed" if left > 0 and after + needed > 0 else ""
        raise OutOfTimeError(f"{SKIPPED}, {of_all}{rest}")

    @contextmanager
    def allowing(self, stage: str, needs: float = 0.0) -> Iterator[float | None]:
        """As `seconds_for`; when that is too short for a language model, it is not asked so again for a minute."""
        seconds = self.seconds_for(stage, needs)
        try:
            yield seconds
        except GeneratorTimeoutError:
            if seconds is not None:
                self.pace.note_seconds(stage, seconds)
            raise

    @contextmanager
    def waiting(self, lock: threading.Lock, stage: str) -> Iterator[None]:
        """Holds the lock, once another question has let go of it.

        Raises:
            OutOfTimeError: it did not in time.
        """
        seconds = self.seconds_for(stage)
        if not lock.acquire(timeout=-1 if seconds is None else seconds):
            raise OutOfTimeError(f"{SKIPPED}, another question took the time of the budget of {_ms(self.total_s or 0)}")
        try:
            yield
        finally:
            lock.release()


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms"
