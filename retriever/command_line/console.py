"""The two streams of a command, and what it says beside its results: notes and progress, on standard error."""

import io
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import click

from retriever.display import (
    STAGES,
    format_duration,
    sanitize,
    sanitize_line,
)

if TYPE_CHECKING:
    from rich.progress import Progress as Display
    from rich.progress import TaskID

    from retriever.types import Cited, Progress


MAX_NAMED = 20  # skipped files that are named one by one; `status` names them all
FIRST_NOTE_S = 10.0  # of a stage, where there are no bars: agents give a silent command up after a minute or two

log = logging.getLogger(__name__)


# The two streams.


def prepare_streams() -> None:
    """Make both streams take any character, and exist."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: `>&-`
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def abandon_output() -> None:
    """Drop what is still buffered after a failed write, so that the interpreter's own flush cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def shorten_path(folder: str, file: str) -> str:
    """Return the file's path as an editor started here opens it: relative or absolute, whichever is shorter."""
    absolute = os.path.normpath(f"{folder}/{file}")
    try:
        relative = os.path.relpath(absolute)
    except (OSError, ValueError):  # the current folder was deleted, or is on another drive
        return absolute
    return min(relative, absolute, key=len)


def shorten_citation(place: "Cited") -> str:
    """Return the lines of a file as an editor opens them, and as `read` takes them."""
    if place.cited_as not in ("", place.file):
        return place.citation
    return f"{shorten_path(place.folder, place.file)}:{place.cited_lines}"


# Notes and progress.


@dataclass(frozen=True)
class Console:
    """Standard error, as loud as -q and -v say."""

    quiet: bool = False  # errors alone
    verbose: bool = False  # what the stages report, with timings

    @property
    def can_ask(self) -> bool:
        """Return whether a person at a terminal can be asked something."""
        return not self.quiet and sys.stdin.isatty() and sys.stderr.isatty()

    def note(self, text: str, *, dim: bool = False) -> None:
        if not self.quiet:
            line = sanitize_line(text)
            dims = dim and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
            sys.stderr.write(f"{click.style(line, dim=True) if dims else line}\n")

    def note_skipped(self, files: tuple[tuple[str, str], ...]) -> None:
        """Name files that were left out, (path, reason) each."""
        for path, reason in files[:MAX_NAMED]:
            self.note(f"skipped {path}: {reason}")
        if len(files) > MAX_NAMED:
            self.note(f"skipped {len(files) - MAX_NAMED:,} more files; `status` names them all")

    def follow_logging(self) -> None:
        """Send what libraries log to standard error: warnings, with -v our own stages' reports as well."""
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_SanitizingFormatter("%(message)s"))
        logging.basicConfig(level=logging.ERROR if self.quiet else logging.WARNING, handlers=[handler], force=True)
        for package in ("retriever", "pageindex"):
            logging.getLogger(package).setLevel(logging.INFO if self.verbose else logging.NOTSET)
        if sys.stderr.isatty() and not self.quiet:  # somebody is waiting, and a language model takes long
            logging.getLogger("retriever.served.progress").setLevel(logging.INFO)

    @contextmanager
    def show_progress(self) -> "Iterator[Progress | None]":
        """Yield what a long operation reports to: bars on a terminal, which disappear afterwards, else lines."""
        if self.quiet:
            yield None
        elif not sys.stderr.isatty():
            yield LoggedStages(self)
        else:
            with closing(Bars()) as bars:
                yield bars


class _SanitizingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:  # log lines may quote documents and file names
        return sanitize(super().format(record))


class LoggedStages:
    """A log line for each stage, and for a long one how far it is: the reader of a pipe may be waiting, too."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def start(self, stage: str, total: int, unit: str) -> None:
        self._begun, self._total, self._unit = time.perf_counter(), total, unit
        self._next_note = FIRST_NOTE_S  # seconds after the stage began

    def advance(self, stage: str, done: int) -> None:
        seconds = time.perf_counter() - self._begun
        if done and seconds >= self._next_note:
            left = format_duration(seconds * (self._total - done) / done) or "less than a minute"
            self._console.note(f"{STAGES.get(stage, stage)}: {done:,} of {self._total:,} {self._unit}, {left} left")
            self._next_note = 2 * seconds  # a long night takes only a few lines

    def finish(self, stage: str) -> None:
        seconds = time.perf_counter() - self._begun
        per_second = self._total / max(seconds, 1e-9)
        log.info("%s: %d %s in %.1f s (%.0f/s)", stage, self._total, self._unit, seconds, per_second)


class Bars:
    """A bar for each stage, with the time that is left, on standard error."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskID] = {}

    @cached_property
    def _display(self) -> "Display":
        from rich import console, progress  # 60 ms, for bars that most runs do not draw

        return progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[unit]}", markup=False),
            progress.TimeRemainingColumn(compact=True),
            console=console.Console(stderr=True),
            transient=True,
        )

    def start(self, stage: str, total: int, unit: str) -> None:
        self._display.start()
        self._tasks[stage] = self._display.add_task(STAGES.get(stage, stage), total=total, unit=unit)

    def advance(self, stage: str, done: int) -> None:
        self._display.update(self._tasks[stage], completed=done)

    def finish(self, stage: str) -> None:
        self._display.remove_task(self._tasks.pop(stage))
        if not self._tasks:
            self._display.stop()

    def close(self) -> None:
        if self._tasks:
            self._display.stop()
