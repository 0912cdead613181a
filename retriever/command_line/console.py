"""A page of output for people: wrapped and coloured on a terminal, one line for each item elsewhere."""

import io
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

import click
from rich.console import Console
from rich.text import Text

from retriever.display.editors import NO_EDITOR, choose_template, make_editor_link
from retriever.display.json import SCHEMA_VERSION
from retriever.display.sanitize import sanitize, sanitize_line

if TYPE_CHECKING:
    from rich.progress import Progress as Display
    from rich.progress import Task, TaskID

    from retriever.types import Progress


# The two streams: what a document holds is never obeyed by a terminal, and no character stops the output.
#
# Documents, their names and error messages may hold escape sequences (recolour, retitle, write the clipboard), carriage
# returns that overwrite what was printed, and characters that reverse or hide text. People see a mark in their place;
# programs get them exactly, as JSON.


def prepare_streams() -> None:
    """Makes both streams take any character, and exist."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: `>&-`
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def abandon_output() -> None:
    """After a failed write: what is still buffered goes nowhere, so that the interpreter's own flush cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def write_line(stream: TextIO, text: str) -> None:
    """One or more lines, sanitized."""
    stream.write(f"{sanitize(text)}\n")


def columns() -> int:
    """The width to print for; COLUMNS, else the terminal's, else 80."""
    return shutil.get_terminal_size().columns


def is_unicode(stream: TextIO) -> bool:
    """Whether the stream can hold other characters than ASCII, or would show them as escapes."""
    return (stream.encoding or "ascii").lower().replace("_", "-").startswith("utf")


def openable(folder: str, file: str) -> str:
    """The file's path as an editor started here opens it: relative or absolute, whichever is shorter."""
    absolute = os.path.normpath(f"{folder}/{file}")
    try:
        relative = os.path.relpath(absolute)
    except (OSError, ValueError):  # the current folder was deleted, or is on another drive
        return absolute
    return min(relative, absolute, key=len)


MAX_WIDTH = 110
"""Columns: longer lines of prose are hard to read."""

MIN_WIDTH = 40

CITED = "bold cyan"
MATCHED = "bold yellow"
QUIET = "dim"


class _Console(Console):
    """Leaves a closed pipe to `main`; rich would end the process with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@dataclass(frozen=True, slots=True)
class Page:
    """Where lines are written."""

    console: Console
    width: int
    """Columns to wrap at, on a terminal."""
    crumb: str
    """Between two titles of a breadcrumb."""
    dot: str
    """Between two facts of a line."""
    bar: str
    """Before each line of a quoted text."""
    links: str = ""
    """The template of the addresses that citations lead to; empty where none is shown."""

    @classmethod
    def on(cls, stream: TextIO, editor: str = NO_EDITOR) -> "Page":
        """A page on that stream; no colours where it is no terminal, or with NO_COLOR, and links on a terminal alone.

        Raises:
            UsageError: there is no such editor (see `choose_template`).
        """
        width = max(MIN_WIDTH, columns())
        no_color = bool(os.environ.get("NO_COLOR"))
        console = _Console(file=stream, width=width, no_color=no_color, highlight=False, markup=False, emoji=False)
        signs = (" \u203a ", " \u00b7 ", "\u2502 ") if is_unicode(stream) else (" > ", " | ", "| ")
        links = choose_template(editor, os.environ)
        can_link = stream.isatty() and os.environ.get("TERM") != "dumb"
        return cls(console, min(width, MAX_WIDTH), *signs, links if can_link else "")

    def paragraph(self, text: Text, indent: int = 0) -> None:
        """Prose; elsewhere than on a terminal it stays one line, so that tools find what stands in it."""
        rows = text.wrap(self.console, self.width - indent) if self.console.is_terminal else [text]
        for row in rows:
            self.line(row, indent)

    def line(self, text: Text, indent: int = 0) -> None:
        """What must not be broken: a path, a row of a table."""
        text.rstrip()
        self.console.print(Text(" " * indent).append_text(text), soft_wrap=True)

    def cited(self, citation: str, absolute_path: str, line: int) -> Text:
        """A citation, which opens that line in the editor where it is followed."""
        text = Text(sanitize_line(citation), CITED)
        if not self.links:
            return text
        # An address holds printable ASCII alone, so that no file's name can end the sequence (OSC 8, ended by ST).
        address = make_editor_link(self.links, absolute_path, line)
        return Text.assemble(f"\x1b]8;;{address}\x1b\\", text, "\x1b]8;;\x1b\\")

    def quotation(self, text: Text, indent: int = 0) -> None:
        """Lines of a document as they stand there, behind a bar."""
        for row in text.split("\n"):
            self.line(Text.assemble((self.bar, QUIET), row), indent)

    def blank(self) -> None:
        """An empty line."""
        self.console.print()

    def path_of_titles(self, titles: tuple[str, ...]) -> str:
        """A breadcrumb as one line."""
        return self.crumb.join(map(sanitize_line, titles))


# What is said on standard error, beside the results.

MAX_NAMED = 20
"""How many skipped files are named one by one; `status` names them all."""


@dataclass(frozen=True, slots=True)
class Notes:
    """The voice of one run."""

    quiet: bool = False
    """Errors alone."""
    verbose: bool = False
    """What the stages report, with timings."""

    def say(self, text: str) -> None:
        """One line, unless quiet."""
        self._write(sanitize(text))

    def aside(self, text: str) -> None:
        """One dim line, unless quiet."""
        can_dim = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        line = sanitize_line(text)
        self._write(click.style(line, dim=True) if can_dim else line)

    def skipped(self, files: tuple[tuple[str, str], ...]) -> None:
        """Names the files that were left out, each with its reason."""
        for path, reason in files[:MAX_NAMED]:
            self.say(f"skipped {path}: {reason}")
        if len(files) > MAX_NAMED:
            self.say(f"skipped {len(files) - MAX_NAMED:,} more files; `status` names them all")

    def _write(self, text: str) -> None:
        if not self.quiet:
            sys.stderr.write(f"{text}\n")

    def follow_logging(self) -> None:
        """Sends what the libraries log to standard error: warnings, with `verbose` our own stages' reports as well."""
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_InertFormatter("%(message)s"))
        logging.basicConfig(level=logging.ERROR if self.quiet else logging.WARNING, handlers=[handler], force=True)
        for package in ("retriever", "pageindex"):
            logging.getLogger(package).setLevel(logging.INFO if self.verbose else logging.NOTSET)


class _InertFormatter(logging.Formatter):
    """Log lines may quote documents and file names."""

    def format(self, record: logging.LogRecord) -> str:
        return sanitize(super().format(record))


# Every command's result as one JSON object on standard output.


def write_json(content: dict[str, Any]) -> None:
    """One object and a newline on standard output."""
    sys.stdout.write(f"{json_line({'schema_version': SCHEMA_VERSION, **content})}\n")


def json_line(content: dict[str, Any]) -> str:
    """The object as text that standard output can hold: other characters than ASCII stay as they are where they can.

    A file name that is not UTF-8 holds lone surrogates, which only an escape can carry.
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(content, allow_nan=False)
    return text if is_unicode(sys.stdout) else json.dumps(content, allow_nan=False)


# How long work is shown: bars on a terminal, one logged line for each stage elsewhere.

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
