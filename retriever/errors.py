"""Every error that this package raises on purpose; how the program was called, for hints that name a command.

RetrieverError                  what went wrong, and what to do about it; the command line prints it and exits 1
├── UsageError                  the caller asked for something that cannot be; exit 2
│   ├── ProfileError            one or more mistakes in a profile, all of them reported
│   ├── QuestionError           an empty question, or one that no stage can read
│   │   └── ScopeError          a filter names a folder, tag, day or field that is not there
│   ├── ParametersError         one or more mistakes in a call over HTTP or MCP, all of them reported
│   ├── UnknownReferenceError   a node id or a path names nothing in the index
│   └── ClosedError             the retriever was closed
├── DocumentsError              the folder of documents is missing, unreadable or holds none; or one cannot be kept
├── IndexUnusableError          the index cannot be used
│   ├── NoIndexError            there is none yet
│   ├── IndexVersionError       it was made by a version with another format
│   │   └── OldIndexError       by an earlier one: it can be made again, and keeps its vectors
│   ├── IndexLockedError        another process is writing to it
│   ├── IndexDamagedError       its truth (index.sqlite) cannot be read
│   └── StorageError            the disk is full, read-only or failing
├── SnapshotError               ChromaDB cannot be used: it is made anew from the rows
│   └── ReadOnlyError           it is on a disk that cannot be written, and writes to what it opens
├── EncoderError                the embedding model cannot be loaded, reached or believed
├── LanguageModelError          the language model gave nothing that can be used
│   ├── NoGeneratorError        its server is not running, or is not one that may be asked
│   ├── LanguageModelTimeoutError  it took longer than was agreed
│   ├── WrongAnswerError        it wrote something else than was asked for, twice
│   └── UnfitModelError         it was seen not to do well what a stage asks, which is left out
├── RerankerError               the cross-encoder cannot be loaded, reached or believed
├── ServingError                nothing can be served: the port is taken, or the address is not this machine's
└── NotReadyError               the documents are still being indexed

Each may carry a `hint`: what to do. `str(error)` is the whole text; `message` the error alone.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

INSTALLED = "hybrid-retrieve"  # the console script
SHORT = "hr"  # the same one
SCRIPT = "hybrid_retrieve.py"  # in a checkout
MODULE = "python -m retriever"  # wherever `import retriever` works: also for programs that use the package
_CHECKOUT = Path(__file__).parents[1]


def name_program() -> str:
    """Return the words before a command's name.

    >>> from unittest.mock import patch
    >>> with patch("sys.argv", ["/opt/bin/hr"]), patch.dict("os.environ", {"UV_RUN_RECURSION_DEPTH": "1"}):
    ...     name_program()
    'uv run hr'

    `hybrid-retrieve`, `uv run hybrid_retrieve.py` or `python -m retriever`; a path where the name alone is not found.
    """
    called = Path(sys.argv[0])
    by_uv = "uv run " if "UV_RUN_RECURSION_DEPTH" in os.environ else ""  # uv sets it
    if called.name == SCRIPT:
        return f"{by_uv or 'python '}{shlex.quote(str(called))}"
    if called.stem in (INSTALLED, SHORT):  # `.exe` on Windows
        return f"{by_uv}{called.stem if by_uv or shutil.which(called.stem) else shlex.quote(str(called))}"
    return f"{by_uv}{MODULE}"


def name_installer(extra: str) -> str:
    """Return the command that installs an extra of this program."""
    if (_CHECKOUT / "pyproject.toml").is_file():
        return f"uv sync --extra {extra}"
    return f"pip install '{INSTALLED}[{extra}]'"


def suggest(arguments: str, lead: str = "run") -> str:
    """Return a hint that is a command line, `run: hybrid-retrieve index FOLDER`, with the program as it was called.

    Args:
        arguments: without the program's name.
        lead: the words before it: "run", or for example "if that is meant, run".
    """
    return f"{lead}: {name_program()} {arguments}"


class RetrieverError(Exception):
    """An error that a user can do something about, and how.

    >>> str(RetrieverError("the disk is full", hint="make room")), str(RetrieverError("the disk is full"))
    ('the disk is full; make room', 'the disk is full')

    Args:
        message: what went wrong, in one or two sentences.
        hint: what to do: of `suggest`, or a sentence without its first capital; empty where the message says it.
    """

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def message(self) -> str:
        """The error alone, without the hint."""
        return super().__str__()

    def __str__(self) -> str:
        return "; ".join(filter(None, [self.message, self.hint]))


class UsageError(RetrieverError):
    """The caller asked for something that cannot be."""


class ProfileError(UsageError):
    """One or more mistakes in a profile, a line each: `place: key.path: what is wrong`."""


class QuestionError(UsageError):
    """An empty question, or one that no stage can read."""


class ScopeError(QuestionError):
    """A filter names a folder, a tag, a day or a field that is not there."""


class ParametersError(UsageError):
    """One or more mistakes in the arguments of a call over HTTP or MCP."""


class UnknownReferenceError(UsageError):
    """A reference names nothing in the index.

    Args:
        reference: as it was given.
        near: ids of what is called nearly so, the nearest first.
    """

    def __init__(self, reference: str, near: Sequence[str] = ()) -> None:
        self.near = tuple(near)
        question = f"did you mean {' or '.join(map(repr, near))}?" if near else ""
        super().__init__(f"{reference!r} is not in the index", hint=question or "`tree` shows what is")


class ClosedError(UsageError):
    """The retriever was closed."""


class DocumentsError(RetrieverError):
    """The folder of documents is missing, unreadable or holds no document; or a database cannot hold one of them."""


class IndexUnusableError(RetrieverError):
    """The index cannot be used."""


class NoIndexError(IndexUnusableError):
    """There is no index yet.

    Attributes:
        folder: one with documents that no index covers, where the caller stands; empty otherwise.
    """

    folder = ""


class IndexVersionError(IndexUnusableError):
    """The index was made by a version of this program with another format."""


class OldIndexError(IndexVersionError):
    """The index was made by an earlier version; `doctor --repair` makes it again, and keeps what was embedded."""


class IndexLockedError(IndexUnusableError):
    """Another process is writing to the index."""


class IndexDamagedError(IndexUnusableError):
    """index.sqlite cannot be read."""


class StorageError(IndexUnusableError):
    """The disk is full, read-only or failing."""


class SnapshotError(RetrieverError):
    """ChromaDB cannot be used; it can be made anew from the rows."""


class ReadOnlyError(SnapshotError):
    """ChromaDB writes to what it opens, and cannot."""


class EncoderError(RetrieverError):
    """The embedding model cannot be loaded or reached, or gives unusable answers."""


class LanguageModelError(RetrieverError):
    """The language model gave nothing that can be used."""


class NoGeneratorError(LanguageModelError):
    """The server of the language model is not running, or is not one that may be asked."""


class LanguageModelTimeoutError(LanguageModelError):
    """The language model took longer than was agreed."""


class WrongAnswerError(LanguageModelError):
    """The language model wrote something else than was asked for."""


class UnfitModelError(LanguageModelError):
    """The language model was seen not to do well what a stage asks: a choice, and no failure."""


class RerankerError(RetrieverError):
    """The cross-encoder cannot be loaded or reached, or gives unusable answers."""


class ServingError(RetrieverError):
    """Nothing can be served: the port is taken, or the address is not this machine's."""


class NotReadyError(RetrieverError):
    """The documents are still being indexed; nothing can be answered yet."""
