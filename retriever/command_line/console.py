"""What a command writes: results on standard output, notes and progress on standard error.

Documents, their names and error messages may hold escape sequences (recolour, retitle, write the clipboard), carriage
returns that overwrite what was printed, and characters that reverse or hide text. People see a mark in their place;
programs get them exactly, as JSON. No character stops the output.
"""

import io
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import IO, TYPE_CHECKING, Any, TextIO

import click

from retriever.display.json import add_version
from retriever.display.phrases import STAGES, format_duration
from retriever.display.sanitize import sanitize, sanitize_line
from retriever.errors import RetrieverError
from retriever.files import check_new

if TYPE_CHECKING:
    from rich.progress import Progress as Display
    from rich.progress import TaskID

    from pageindex.node import Span
    from retriever.looking.browse import Excerpt
    from retriever.protocols import Progress
    from retriever.types import CitedSentence, Hit, SimilarSection

MAX_NAMED = 20  # skipped files that are named one by one; `status` names them all
FIRST_NOTE_S = 10.0  # of a stage, where there are no bars: agents give a silent command up after a minute or two
STANDARD_STREAM = "-"  # as a file's name on the command line

log = logging.getLogger(__name__)


# The two streams.


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


def terminal_columns() -> int:
    """The width to print for: COLUMNS, else the terminal's, else 80."""
    return shutil.get_terminal_size().columns


def is_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "ascii").lower().replace("_", "-").startswith("utf")


def shorten_path(folder: str, file: str) -> str:
    """The file's path as an editor started here opens it: relative or absolute, whichever is shorter."""
    absolute = os.path.normpath(f"{folder}/{file}")
    try:
        relative = os.path.relpath(absolute)
    except (OSError, ValueError):  # the current folder was deleted, or is on another drive
        return absolute
    return min(relative, absolute, key=len)


def shorten_citation(
    place: "Hit | SimilarSection | CitedSentence | Excerpt", lines: "Span", folders: Iterable[str] = ()
) -> str:
    """The lines of a file as an editor opens them, and as `read` takes them; `folders` are those of the index.

    What `read` would take for another file begins with `./`; where two folders hold a file of that path, the folder's
    name stands before it.
    """
    if place.cited_as not in ("", place.file) and not getattr(place, "index", ""):
        return f"{place.cited_as}:{lines}"
    path, absolute = shorten_path(place.folder, place.file), os.path.normpath(f"{place.folder}/{place.file}")
    others = {os.path.normpath(f"{folder}/{path}") for folder in (place.folder, *folders)} - {absolute}
    is_misread = path[0] in "-~" or any(map(os.path.lexists, others))
    is_inside = not path.startswith((os.sep, f"..{os.sep}"))
    return f"{'./' if is_inside and is_misread else ''}{path}:{lines}"


# Results.


def print_line(text: str) -> None:
    sys.stdout.write(f"{sanitize(text)}\n")


def print_json(content: dict[str, Any]) -> None:
    sys.stdout.write(f"{format_json(add_version(content))}\n")


def format_json(content: dict[str, Any]) -> str:
    """The object as text that this standard output can hold; lone surrogates, as in names of files, only as escapes."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(content, allow_nan=False)
    return text if is_unicode(sys.stdout) else json.dumps(content, allow_nan=False)


def check_output(target: str | None) -> None:
    """Raise UsageError where a file that a command is to write is there already: it is not ours."""
    if target is not None and target != STANDARD_STREAM:
        path = Path(target)
        if path.is_file() or not path.exists():  # else a pipe or a device, or a folder, which cannot be opened
            check_new(path)


@contextmanager
def write_whole(target: str) -> Iterator[IO[str]]:
    """Open a new file that appears when all of it is written; `-`, a pipe or /dev/null is written as the text comes."""
    if target == STANDARD_STREAM:
        yield sys.stdout
        return
    path = Path(target)
    check_output(target)
    is_special = path.exists()
    partial = path if is_special else path.with_name(f".{path.name}.{token_hex(8)}.partial")
    is_made = False
    try:
        with partial.open("w" if is_special else "x", encoding="utf-8", newline="\n") as out:
            is_made = not is_special
            yield out
        if is_made:
            check_output(target)  # again: somebody may have made one meanwhile
            partial.replace(path)
            is_made = False
    except OSError as error:
        raise RetrieverError(f"{target}: cannot be written: {error.strerror}") from error
    finally:
        if is_made:
            partial.unlink()


# Notes and progress.


@dataclass(frozen=True, slots=True)
class Console:
    """Standard error, as loud as -q and -v say."""

    quiet: bool = False  # errors alone
    verbose: bool = False  # what the stages report, with timings

    def note(self, text: str) -> None:
        if not self.quiet:
            sys.stderr.write(f"{sanitize(text)}\n")

    def note_dim(self, text: str) -> None:
        line = sanitize_line(text)
        if not self.quiet:
            can_dim = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
            sys.stderr.write(f"{click.style(line, dim=True) if can_dim else line}\n")

    def note_skipped(self, files: tuple[tuple[str, str], ...]) -> None:
        """Names files that were left out, (path, reason) each."""
        for path, reason in files[:MAX_NAMED]:
            self.note(f"skipped {path}: {reason}")
        if len(files) > MAX_NAMED:
            self.note(f"skipped {len(files) - MAX_NAMED:,} more files; `status` names them all")

    def follow_logging(self) -> None:
        """Sends what libraries log to standard error: warnings, with -v our own stages' reports as well."""
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_SanitizingFormatter("%(message)s"))
        logging.basicConfig(level=logging.ERROR if self.quiet else logging.WARNING, handlers=[handler], force=True)
        for package in ("retriever", "pageindex"):
            logging.getLogger(package).setLevel(logging.INFO if self.verbose else logging.NOTSET)
        if sys.stderr.isatty() and not self.quiet:  # somebody is waiting, and a language model takes long
            logging.getLogger("retriever.served.progress").setLevel(logging.INFO)

    @contextmanager
    def show_progress(self, first: str = "") -> "Iterator[Progress | None]":
        """What a long operation reports to: bars on a terminal, which are gone afterwards, else lines.

        Args:
            first: what is shown while no stage has a bar, as loading what is needed takes some time.
        """
        if self.quiet:
            yield None
        elif not sys.stderr.isatty():
            yield LoggedStages(self)
        else:
            bars = Bars(first)
            try:
                yield bars
            finally:
                bars.close()


class _SanitizingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:  # log lines may quote documents and file names
        return sanitize(super().format(record))


class LoggedStages:
    """A log line for each stage, and of one that takes long how far it is: whoever reads a pipe may be waiting, too."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun: dict[str, tuple[float, int, str]] = {}
        self._next_note: dict[str, float] = {}  # seconds after the stage began

    def start(self, stage: str, total: int, unit: str) -> None:
        self._begun[stage] = time.perf_counter(), total, unit
        self._next_note[stage] = FIRST_NOTE_S

    def advance(self, stage: str, done: int) -> None:
        begun, total, unit = self._begun[stage]
        seconds = time.perf_counter() - begun
        if done and seconds >= self._next_note[stage]:
            left = format_duration(seconds * (total - done) / done)
            self._console.note(f"{STAGES.get(stage, stage)}: {done:,} of {total:,} {unit}, {left} left")
            self._next_note[stage] = 2 * seconds  # a long night is told in a few lines

    def finish(self, stage: str) -> None:
        begun, total, unit = self._begun.pop(stage)
        seconds = time.perf_counter() - begun
        log.info("%s: %d %s in %.1f s (%.0f/s)", stage, total, unit, seconds, total / max(seconds, 1e-9))


class Bars:
    """A bar for each stage, with its rate and the time left, on standard error."""

    def __init__(self, first: str = "") -> None:
        self._waiting = first if os.environ.get("TERM") != "dumb" else ""  # shown while no bar is
        self._is_waiting = False
        self._wait()
        self._display: Display | None = None  # nothing is loaded or drawn before a stage starts: most runs have none
        self._tasks: dict[str, TaskID] = {}

    def start(self, stage: str, total: int, unit: str) -> None:
        self.clear()
        if self._display is None:
            self._display = make_progress_display()
        self._display.start()
        self._tasks[stage] = self._display.add_task(STAGES.get(stage, stage), total=total, unit=unit)

    def advance(self, stage: str, done: int) -> None:
        if self._display is not None:
            self._display.update(self._tasks[stage], completed=done)

    def finish(self, stage: str) -> None:
        if self._display is not None:
            self._display.remove_task(self._tasks.pop(stage))
            if not self._tasks:
                self._display.stop()
                self._wait()

    def close(self) -> None:
        self.clear()
        if self._display is not None:
            self._display.stop()

    def clear(self) -> None:
        """Leaves the terminal to who prints between two stages."""
        if self._is_waiting:
            sys.stderr.write("\x1b[2K")
            sys.stderr.flush()
        self._is_waiting = False

    def _wait(self) -> None:
        if self._waiting:
            sys.stderr.write(f"{click.style(sanitize_line(self._waiting), dim=True)}\r")
            sys.stderr.flush()
            self._is_waiting = True


def make_progress_display() -> "Display":
    from rich import console, progress, text  # 60 ms, for bars that most runs do not draw

    class RateColumn(progress.ProgressColumn):
        def render(self, task: progress.Task) -> text.Text:
            speed = task.finished_speed or task.speed
            return text.Text("" if speed is None else f"{speed:,.0f}/s", style="dim")

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[unit]}", markup=False),
        RateColumn(),
        progress.TimeRemainingColumn(compact=True),
        console=console.Console(stderr=True),
        transient=True,
    )
