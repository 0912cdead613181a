"""How an answer is made, noted while it is made; how long it may take, and which optional stages that leaves time for.

Looking for changed files, embedding the question, both searches, the tree, the fusion and building the hits always run.
The time that they leave is for the optional stages: the expansion, late interaction and the reranking. A deadline is no
promise to the millisecond: a stage that has begun is not interrupted, except for a language model.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from retriever.errors import LanguageModelTimeoutError, OutOfTimeError
from retriever.query import ExpansionReport
from retriever.types import Degradation, Ranking, Signals, Stage, StageName, Trace

EXPECTED_SECONDS: Mapping[StageName, float] = {  # of each stage in the first search of a process, in their order
    StageName.FOLLOW_UP: 0.0,  # a language model, likewise
    StageName.EXPAND: 0.0,  # a language model: its time is not known before
    StageName.EMBED: 0.10,  # opens the embedding model: 57 to 86 ms
    StageName.SEMANTIC: 0.90,  # imports ChromaDB where it is needed: 770 to 950 ms
    StageName.KEYWORD: 0.05,
    StageName.NEIGHBORS: 0.02,
    StageName.FUSE: 0.01,
    StageName.TOKEN_MATCH: 0.03,
    StageName.ROUNDS: 0.0,  # a language model, likewise
    StageName.RERANK: 0.0,  # a language model; a cross-encoder says itself how long it takes to load
    StageName.HITS: 0.02,
}
# Their last time says nothing of the next: they cache.
MODEL_STAGES = frozenset({StageName.FOLLOW_UP, StageName.EXPAND, StageName.ROUNDS, StageName.RERANK})
OPTIONAL = MODEL_STAGES | {StageName.TOKEN_MATCH}  # no time is reserved for these
RETRY_SECONDS = 60.0  # a language model may be loaded by then


class StageTimes:
    """How long each stage took when it ran last; shared by the searches of one retriever."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        # By stage: how many seconds were too short for its model, and until when that is believed.
        self._too_short: dict[str, tuple[float, float]] = {}

    def record(self, stages: Iterable[Stage]) -> None:
        """Notes how long the stages of an answer took."""
        for stage in stages:
            if stage.name not in MODEL_STAGES and not stage.skipped:
                self._last[stage.name] = stage.milliseconds / 1000

    def record_timeout(self, stage: StageName, seconds: float, now: float) -> None:
        """Notes that a model did not finish a stage in `seconds`."""
        self._too_short[stage] = (seconds, now + RETRY_SECONDS)

    def expected(self, stage: StageName, now: float) -> float:
        """How many seconds a stage is expected to take at least."""
        seconds, until = self._too_short.get(stage, (0.0, -math.inf))
        return seconds if now <= until else self._last.get(stage, EXPECTED_SECONDS[stage])

    def reserved_after(self, stage: StageName, now: float) -> float:
        """How many seconds the required stages after this one are expected to take."""
        order = list(EXPECTED_SECONDS)
        following = order[order.index(stage) + 1 :]
        return sum(self.expected(name, now) for name in following if name not in OPTIONAL)


@dataclass(frozen=True)
class Deadline:
    """When the answer to one question is due."""

    total_s: float = math.inf  # the time for the whole answer; infinite without a limit
    times: StageTimes = field(default_factory=StageTimes)
    clock: Callable[[], float] = time.monotonic
    started: float = 0.0  # by the clock

    def left(self) -> float:
        """How many seconds are left; below 0 when the answer is late."""
        return self.started + self.total_s - self.clock()

    def seconds_for(self, stage: StageName, needs: float = 0.0) -> float | None:
        """How long an optional stage may take (None: no limit); OutOfTimeError where it `needs` more."""
        if self.total_s == math.inf:
            return None
        left, now = self.left(), self.clock()
        reserved, needed = self.times.reserved_after(stage, now), max(needs, self.times.expected(stage, now))
        if left - reserved > needed:
            return left - reserved
        if left <= 0:
            raise OutOfTimeError("skipped, the budget is used up")
        raise OutOfTimeError(
            f"skipped, {1000 * left:,.0f} ms of the budget of {1000 * self.total_s:,.0f} ms were left, "
            f"and {1000 * (reserved + needed):,.0f} ms are needed"
        )

    @contextmanager
    def allow(self, stage: StageName, needs: float = 0.0) -> Iterator[float | None]:
        """As `seconds_for`; a model that needs longer is not given so little again for a minute."""
        seconds = self.seconds_for(stage, needs)
        try:
            yield seconds
        except LanguageModelTimeoutError:
            if seconds is not None:
                self.times.record_timeout(stage, seconds, self.clock())
            raise


@dataclass(slots=True)
class Note:
    """What a stage says of itself."""

    text: str = ""
    skipped: bool = False  # whether it is switched off, or has nothing to do

    def skip(self, reason: str = "") -> None:
        """Note that the stage does nothing, and why where that is not plain."""
        self.text = f"skipped: {reason}" if reason else "skipped"
        self.skipped = True


@dataclass(slots=True)
class Recorder:
    """Collects the stages of one search, and what of it was skipped or failed; knows how much time it has left."""

    stages: list[Stage] = field(default_factory=list)
    rankings: list[Ranking] = field(default_factory=list)
    degraded: list[Degradation] = field(default_factory=list)
    signals: Signals = field(default_factory=lambda: Signals(0.0, 0.0, 0.0, "words", margin=None, agreement=None))
    expansion: ExpansionReport | None = None
    deadline: Deadline = field(default_factory=Deadline)
    notes: list[str] = field(default_factory=list)  # what else was done that people are told
    order: tuple[str, ...] = ()  # the candidates in their last order

    @contextmanager
    def stage(self, name: StageName) -> Iterator[Note]:
        """Times what happens inside; a stage that raises is noted too."""
        note = Note()
        started = time.perf_counter()
        try:
            yield note
        finally:
            self.stages.append(Stage(name, (time.perf_counter() - started) * 1000, note.text, note.skipped))

    def degrade(self, stage: StageName, reason: object) -> None:
        """Note what a stage could not do; `reason` is a sentence, or an error that says it."""
        self.degraded.append(Degradation(stage, str(reason)))

    def copy(self) -> "Recorder":
        """One that goes on from here, so that what an attempt notes can be dropped when it fails."""
        stages, rankings, degraded = list(self.stages), list(self.rankings), list(self.degraded)
        return Recorder(stages, rankings, degraded, self.signals, self.expansion, self.deadline, list(self.notes))

    def trace(self) -> Trace:
        """What was collected."""
        return Trace(tuple(self.stages), tuple(self.rankings), self.signals, self.order)


# How long a run took, as its user waited.


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds of one question, by the clock."""

    opening: float  # loading, indexing what was given with --docs, opening the index
    total: float  # that and the search

    def __str__(self) -> str:
        """`0.24 s`."""
        return f"{self.total / 1000:.2f} s"


def milliseconds_since(begun: float) -> float:
    """Since a moment of `time.perf_counter()`."""
    return 1000 * (time.perf_counter() - begun)


class NoProgress:
    """A progress reporter that does nothing."""

    def start(self, stage: str, total: int, unit: str) -> None:
        """A stage begins."""

    def advance(self, stage: str, done: int) -> None:
        """So many units of it are done."""

    def finish(self, stage: str) -> None:
        """It is over."""
