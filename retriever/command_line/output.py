"""The two streams of a command: results on standard output, in one format; notes and progress on standard error.

`--json` chooses the format, which then prints everything. Documents, their names and error messages may hold escape
sequences (recolour, retitle, write the clipboard), carriage returns that overwrite what was printed, and characters
that reverse or hide text. People see a mark in their place; programs get them exactly, as JSON. No character stops the
output.
"""

import io
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retriever.display import (
    add_version,
    describe_freshness,
    describe_search,
    dump,
    dump_answer,
    format_duration,
    format_refresh_command,
    list_remarks,
    pluralize,
    sanitize,
    sanitize_line,
    shorten_path,
)
from retriever.trace import NO_PROGRESS, Spent

if TYPE_CHECKING:
    from retriever.answering.context import AnswerInContext
    from retriever.command_line.render import Page
    from retriever.types import Answer, Progress, ShortAnswer


MAX_NAMED = 20  # skipped files that are named one by one; `status` names them all
FIRST_NOTE_S = 10.0  # of a stage, in a pipe: agents give a silent command up after a minute or two
REDRAW_S = 0.1  # on a terminal


# The two streams.


def prepare_streams() -> None:
    """Make both streams take any character, and exist."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: `>&-`
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for the whole process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def abandon_output() -> None:
    """Drop what is still buffered after a failed write, so that the interpreter's own flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    def show_progress(self) -> "Iterator[Progress]":
        """Yield what a long operation reports to."""
        if self.quiet:
            yield NO_PROGRESS
            return
        line = ProgressLine(self)
        try:
            yield line
        finally:
            line.finish("")


class _SanitizingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:  # log lines may quote documents and file names
        return sanitize(super().format(record))


class ProgressLine:
    """A line on how far a stage is: written over itself on a terminal, and elsewhere now and then a new one.

    One stage runs at a time. The reader of a pipe may be waiting, too: there the lines become rarer.

    >>> from contextlib import redirect_stderr
    >>> from unittest.mock import patch
    >>> with redirect_stderr(sys.stdout), patch("time.perf_counter", side_effect=[0, 0, 9, 10, 19, 20, 39, 40]):
    ...     line = ProgressLine(Console())
    ...     line.start("embedding", 30_000, "texts")
    ...     for done in (400, 500, 900, 10_000, 11_000, 30_000):
    ...         line.advance("embedding", done)
    embedding: 500 of 30,000 texts, 9 minutes left
    embedding: 10,000 of 30,000 texts, less than a minute left
    embedding: 30,000 of 30,000 texts, less than a minute left
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_terminal = sys.stderr.isatty()

    def start(self, stage: str, total: int, unit: str) -> None:
        self._begun, self._total, self._unit = time.perf_counter(), total, unit
        self._next_s = 0.0 if self._is_terminal else FIRST_NOTE_S  # after the stage began
        self.advance(stage, 0)

    def advance(self, stage: str, done: int) -> None:
        seconds = time.perf_counter() - self._begun
        if seconds < self._next_s:
            return
        line = f"{stage}: {done:,} of {self._total:,} {self._unit}"
        if done:
            left = format_duration(seconds * (self._total - done) / done) or "less than a minute"
            line += f", {left} left"
        if self._is_terminal:
            self._overwrite(line)
            self._next_s = seconds + REDRAW_S
        else:
            self._console.note(line)
            self._next_s = 2 * seconds  # a long night takes only a few lines

    def finish(self, stage: str) -> None:
        """Leave an empty line on a terminal."""
        if self._is_terminal:
            self._overwrite("")

    def _overwrite(self, line: str) -> None:
        columns = shutil.get_terminal_size().columns - 1  # in the last one, some terminals begin a new line
        sys.stderr.write(f"\r{sanitize_line(line)[:columns]:<{columns}}\r")
        sys.stderr.flush()


# The formats.


class Output:
    """Prints results for people, as lines and pages; a subclass prints the same results for programs."""

    is_for_people = True  # who read notes, and take an answer in parts

    def show(self, content: Any, text: str | Iterable[str]) -> None:  # noqa: ANN401 - whatever becomes JSON
        """Print a result.

        Args:
            content: for programs: a dataclass, or a mapping by names.
            text: for people: lines, or a text whose lines stay as they are.
        """
        if isinstance(text, str):
            print_text(text)
        else:
            for line in text:
                print_line(line)

    def draw(self, content: Any, draw: Callable[["Page"], object]) -> None:  # noqa: ANN401 - as above
        """Do as `show` where people get a page with colours."""
        from retriever.command_line.render import Page  # rich

        draw(Page())


class JsonOutput(Output):
    """Prints each result as one JSON object."""

    is_for_people = False

    def show(self, content: Any, text: object) -> None:  # noqa: ANN401 - as above
        sys.stdout.write(f"{format_json(add_version(dump(content)))}\n")
        sys.stdout.flush()  # for the reader of `watch`

    def draw(self, content: Any, draw: object) -> None:  # noqa: ANN401 - as above
        self.show(content, ())


def print_line(text: str) -> None:
    sys.stdout.write(f"{sanitize_line(text)}\n")


def print_text(text: str) -> None:
    """Print lines unchanged, with one end of line."""
    sys.stdout.write(f"{sanitize(text).rstrip(chr(10))}\n")


def format_json(content: dict[str, Any]) -> str:
    """Return the object as JSON text that this standard output can hold."""
    is_unicode = (sys.stdout.encoding or "ascii").lower().startswith("utf")
    return json.dumps(content, ensure_ascii=not is_unicode, allow_nan=False)


# An answer: itself on standard output, and on standard error what to know about it.


@dataclass
class Printer:
    """Prints the answers to one question, which has two while the first index of its documents is made."""

    console: Console
    output: Output
    index: str | None  # as it was given with --index
    _: KW_ONLY
    full: bool = False
    explain: bool = False
    begun: float = field(default_factory=time.perf_counter)  # loading modules is a part of what the user waits for
    shown: "Answer | None" = None

    def show(self, answer: "Answer", short: "ShortAnswer | None" = None) -> "Answer":
        """Print an answer, a second one where it has other sections, and return it.

        Args:
            answer: to print.
            short: of which the answer is; people have seen its sentences, and take them for the verdict.
        """
        spent, before, self.shown = self.measure(answer), self.shown, answer
        if before is not None:
            # The same list twice would be read twice, to find that nothing changed.
            if [hit.node_id for hit in before.hits] == [hit.node_id for hit in answer.hits]:
                self.console.note(f"everything is embedded now, and the answer is the same ({spent})")
                return answer
            for line in ("", "Now that everything is embedded, by meaning as well:", ""):
                print_line(line)

        def draw(page: "Page") -> None:
            from retriever.command_line.render import show_answer, show_explanation  # rich

            show_answer(page, answer, full=self.full, headline=not (short and short.sentences))
            if self.explain:
                show_explanation(page, answer, spent)

        self.output.draw(dump_answer(answer, spent, short, full=self.full, explain=self.explain), draw)
        self.note_state(answer, spent)
        return answer

    def show_context(self, found: "AnswerInContext") -> "Answer":
        """Print the context for a prompt alone, and return its answer."""
        spent = self.measure(found.answer)
        context = dump(found.context)
        for piece in context["left_out"]:
            del piece["text"]
        self.output.show(dump_answer(found.answer, spent) | context, found.context.markdown)
        self.note_state(found.answer, spent)
        if found.context.left_out and self.output.is_for_people:
            left_out = pluralize(len(found.context.left_out), "hit")
            limit = f"{found.context.max_tokens:,} tokens (--max-tokens)"
            self.console.note(f"{left_out} not quoted, for the limit of {limit}")
        return found.answer

    def measure(self, answer: "Answer") -> Spent:
        """Return what was spent on an answer until now."""
        return Spent.since(self.begun, answer.trace.stages)

    def note_state(self, answer: "Answer", spent: Spent) -> None:
        """Say on standard error what to know about an answer; for people alone, what was searched."""
        sys.stdout.flush()  # results before notes, where both streams go to one place
        for remark in list_remarks(answer, f"run: {format_refresh_command(answer.index, self.index)}"):
            self.console.note(f"note: {remark}")
        if self.output.is_for_people:
            folders = ", ".join(shorten_path(folder, ".") for folder in answer.index.folders)
            searched = f"searched {describe_search(answer)} in {folders}"
            parts = (searched, answer.profile, str(spent), describe_freshness(answer.index))
            self.console.note(" | ".join(parts), dim=True)

    def note_pending(self, answer: "Answer") -> None:
        """Say how to embed the rest of an index that is not finished."""
        if answer.index.embedded_share < 1:
            self.console.note(f"note: to embed the rest, run: {format_refresh_command(answer.index, self.index)}")
