"""The resident process stands in for a question's process: its folder, its environment, its streams, its width."""

import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from retriever.serving.resident_protocol import ConversationError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DEFAULT_COLUMNS = 80
"""Where neither COLUMNS nor a terminal says how many, as in `shutil.get_terminal_size`."""


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """How a stream of the other process writes text."""

    tty: bool
    encoding: str
    line_buffering: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A command line, and all that its result depends on, apart from files."""

    words: tuple[str, ...]
    """The arguments."""
    program_name: str
    """As error messages name the program."""
    folder: str
    """The current one."""
    environment: Mapping[str, str]
    columns: int
    """Of the terminal; 0 where there is none."""
    stdout: StreamFacts
    stderr: StreamFacts


def call_of(message: Mapping[str, Any]) -> Call:
    """A call from what a client sent.

    Raises:
        ConversationError: something is missing or of a wrong type.
    """
    try:
        call = Call(
            words=tuple(map(_text, message["words"])),
            program_name=_text(message["program_name"]),
            folder=_text(message["folder"]),
            environment={_text(name): _text(value) for name, value in message["environment"].items()},
            columns=int(message["columns"]),
            stdout=_facts(message["stdout"]),
            stderr=_facts(message["stderr"]),
        )
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise ConversationError(f"no call: {error!r}") from error
    return call


def _facts(message: Mapping[str, Any]) -> StreamFacts:
    encoding = _text(message["encoding"])
    "".encode(encoding)  # a LookupError where there is none of this name
    return StreamFacts(bool(message["tty"]), encoding, bool(message["line_buffering"]))


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError(f"{value!r:.100} is no text")
    return value


class Recording:
    """What two streams wrote, in the order in which it would have left the process."""

    def __init__(self) -> None:
        self.chunks: list[tuple[int, bytes]] = []

    def stream(self, number: int, facts: StreamFacts) -> TextIO:
        """A stream of text whose bytes are recorded under that number, buffered as in a process of its own."""
        buffer = io.BufferedWriter(_Sink(self.chunks, number, tty=facts.tty))
        return io.TextIOWrapper(
            buffer, encoding=facts.encoding, errors="backslashreplace", line_buffering=facts.line_buffering
        )


class _Sink(io.RawIOBase):
    """The end of a stream, in place of a file."""

    def __init__(self, chunks: list[tuple[int, bytes]], number: int, *, tty: bool) -> None:
        self._chunks = chunks
        self._number = number
        self._tty = tty

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._tty

    def write(self, data: "ReadableBuffer", /) -> int:
        taken = bytes(data)
        self._chunks.append((self._number, taken))
        return len(taken)


@contextmanager
def standing_in(call: Call) -> Iterator[Recording]:
    """For the length of the block this process has the folder, the environment and the streams of the call.

    They belong to the process, so one block at a time is open in it. Afterwards it stays in the root folder, so that
    no other one is in use, and keeps the environment, which the next call changes to its own.

    Raises:
        OSError: the folder cannot be entered.
    """
    os.chdir(call.folder)
    _take_environment(call)
    recording = Recording()
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.StringIO()
    sys.stdout, sys.stderr = recording.stream(1, call.stdout), recording.stream(2, call.stderr)
    try:
        yield recording
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        os.chdir("/")


def _take_environment(call: Call) -> None:
    """Only what differs is set: the C library's environment is not made for other threads that read it meanwhile."""
    wanted = {**call.environment, "COLUMNS": str(_columns(call))}
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _columns(call: Call) -> int:
    """As `shutil.get_terminal_size` decides in the other process; here it would ask the wrong terminal."""
    try:
        columns = int(call.environment.get("COLUMNS", ""))
    except ValueError:
        columns = 0
    return columns if columns > 0 else call.columns or DEFAULT_COLUMNS


def replayed(chunks: Sequence[tuple[int, bytes]]) -> list[list[Any]]:
    """The chunks as a message carries them: each byte is one character."""
    return [[number, data.decode("latin-1")] for number, data in chunks]
