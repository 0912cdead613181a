"""How an answer is made, noted while it is made."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from retriever.query import ExpansionReport
from retriever.types import Degradation, Ranking, Signals, Stage, StageName, Trace


@dataclass
class Note:
    """The note of a stage on itself."""

    text: str = ""
    skipped: bool = False  # whether it is switched off, or has nothing to do

    def skip(self, reason: str = "") -> None:
        """Note that the stage does nothing, and why where that is not plain.

        >>> note = Note()
        >>> note.skip("1 candidate")
        >>> note
        Note(text='skipped: 1 candidate', skipped=True)
        """
        self.text = f"skipped: {reason}" if reason else "skipped"
        self.skipped = True


@dataclass
class Recorder:
    """Collects the stages of one search, and what of it was skipped or failed."""

    stages: list[Stage] = field(default_factory=list)
    rankings: list[Ranking] = field(default_factory=list)
    degraded: list[Degradation] = field(default_factory=list)
    signals: Signals = field(default_factory=lambda: Signals(0.0, 0.0, 0.0, "words"))
    expansion: ExpansionReport | None = None
    notes: list[str] = field(default_factory=list)  # what else was done that people should know
    order: tuple[str, ...] = ()  # the candidates in their last order

    @contextmanager
    def stage(self, name: StageName) -> Iterator[Note]:
        """Time what happens inside; a stage that raises is noted too."""
        note = Note()
        started = time.perf_counter()
        try:
            yield note
        finally:
            self.stages.append(Stage(name, milliseconds_since(started), note.text, note.skipped))

    def degrade(self, stage: StageName, reason: object) -> None:
        """Note what a stage could not do; `reason` is a sentence, or an error that says it.

        >>> recorder = Recorder()
        >>> for reason in ("no vectors", ValueError("no vectors")):
        ...     recorder.degrade(StageName.SEMANTIC, reason)
        >>> print(*recorder.degraded)
        semantic: no vectors
        """
        if (degradation := Degradation(stage, str(reason))) not in self.degraded:
            self.degraded.append(degradation)

    def trace(self) -> Trace:
        """Return what was collected."""
        return Trace(tuple(self.stages), tuple(self.rankings), self.signals, self.order)


# Wall-clock time of a run.


@dataclass(frozen=True)
class Spent:
    """Milliseconds of one question, by the clock."""

    opening: float  # loading, indexing what was given with --docs, opening the index
    total: float  # that and the search

    @classmethod
    def since(cls, begun: float, stages: Iterable[Stage]) -> "Spent":
        """Return what was spent since a moment of `time.perf_counter()`; what no stage took is the opening.

        >>> begun_a_minute_ago, ten_seconds = time.perf_counter() - 60, Stage(StageName.HITS, 10_000.0, "")
        >>> round(Spent.since(begun_a_minute_ago, [ten_seconds, ten_seconds]).opening, -3)
        40000.0
        """
        total = milliseconds_since(begun)
        return cls(max(0.0, total - sum(stage.milliseconds for stage in stages)), total)

    def __str__(self) -> str:
        """Return `0.24 s`."""
        return f"{self.total / 1000:.2f} s"


def milliseconds_since(begun: float) -> float:
    """Return the milliseconds since a moment of `time.perf_counter()`."""
    return 1000 * (time.perf_counter() - begun)


class NoProgress:
    """A progress reporter that shows nothing, and remembers how far it has come.

    >>> progress = NoProgress()
    >>> progress.start("reading", 3, "files")
    >>> progress.advance("reading", 2)
    >>> progress.done, progress.total
    (2, 3)
    >>> progress.finish("reading")
    >>> progress.done
    3
    """

    stage = unit = ""
    total = done = 0

    def start(self, stage: str, total: int, unit: str) -> None:
        """Remember the stage that begins."""
        self.stage, self.total, self.unit, self.done = stage, total, unit, 0

    def advance(self, stage: str, done: int) -> None:
        """Remember how much is done."""
        self.done = done

    def finish(self, stage: str) -> None:
        """Remember that all is done."""
        self.done = self.total


NO_PROGRESS = NoProgress()
