"""The two streams: what a document holds is never obeyed by a terminal, and no character stops the output.

Documents, their names and error messages may hold escape sequences (recolour, retitle, write the clipboard), carriage
returns that overwrite what was printed, and characters that reverse or hide text. People see a mark in their place;
programs get them exactly, as JSON.
"""

import io
import os
import shutil
import sys
from typing import TextIO

from retriever.display.sanitize import sanitize


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
