"""How long work is shown: bars on a terminal, one logged line for each stage elsewhere."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from retriever.command_line.notes import Notes

if TYPE_CHECKING:
    from rich.progress import Progress as Display
    from rich.progress import Task, TaskID
    from rich.text import Text

    from retriever.types import Progress

log = logging.getLogger(__name__)


@contextmanager
def shown_progress(notes: Notes) -> "Iterator[Progress | None]":
    """What a long operation reports to; the bars are gone afterwards, however it ends."""
    if notes.quiet:
        yield None
    elif not sys.stderr.isatty():
        yield LoggedStages()
    else:
        bars = Bars()
        try:
            yield bars
        finally:
            bars.close()


class LoggedStages:
    """One line for each finished stage, at INFO."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[float, int, str]] = {}

    def start(self, stage: str, total: int, unit: str) -> None:
        """A stage begins that will take `total` units."""
        self._begun[stage] = time.perf_counter(), total, unit

    def advance(self, stage: str, done: int) -> None:
        """`done` units are done by now; a log has nothing to say about it."""

    def finish(self, stage: str) -> None:
        """The stage is over."""
        begun, total, unit = self._begun.pop(stage)
        seconds = time.perf_counter() - begun
        log.info("%s: %d %s in %.1f s (%.0f/s)", stage, total, unit, seconds, total / max(seconds, 1e-9))


class Bars:
    """A bar for each stage, with its rate and the time left, on standard error.

    Nothing is loaded or drawn before the first stage starts: most runs find nothing to do.
    """

    def __init__(self) -> None:
        self._display: Display | None = None
        self._tasks: dict[str, TaskID] = {}

    def start(self, stage: str, total: int, unit: str) -> None:
        """Shows an empty bar."""
        if self._display is None:
            self._display = _display()
            self._display.start()
        self._tasks[stage] = self._display.add_task(stage, total=total, unit=unit)

    def advance(self, stage: str, done: int) -> None:
        """Moves the bar to `done` units."""
        if self._display is not None:
            self._display.update(self._tasks[stage], completed=done)

    def finish(self, stage: str) -> None:
        """Takes the bar away."""
        if self._display is not None:
            self._display.remove_task(self._tasks.pop(stage))

    def close(self) -> None:
        """Gives the terminal back."""
        if self._display is not None:
            self._display.stop()


def _display() -> "Display":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class RateColumn(ProgressColumn):
        def render(self, task: "Task") -> "Text":
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f}/s", style="dim")

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}", markup=False),
        RateColumn(),
        TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        transient=True,
    )
