"""The two streams: what a document holds is never obeyed by a terminal, and no character stops the output.

Documents, their names and error messages may hold escape sequences (recolour, retitle, write the clipboard), carriage
returns that overwrite what was printed, and characters that reverse or hide text. People see a mark in their place;
programs get them exactly, as JSON.
"""

import io
import os
import shutil
import sys
import unicodedata
from typing import TextIO

REPLACEMENT = "\ufffd"

_HARMLESS_FORMATS = frozenset("\u200c\u200d\xad")
"""Of the invisible characters: the joiners that emoji and Persian are written with, and the soft hyphen."""


class _Inert(dict[int, str]):
    """For `str.translate`: each character as a terminal may see it; remembers what it has seen."""

    def __init__(self, kept: str) -> None:
        super().__init__({ord(character): character for character in kept})

    def __missing__(self, code: int) -> str:
        self[code] = seen = _seen(chr(code))
        return seen


def _seen(character: str) -> str:
    if 0xDC80 <= ord(character) <= 0xDCFF:  # a byte of a name that is not UTF-8, as Python carries it (PEP 383)
        return f"\\x{ord(character) - 0xDC00:02x}"
    if character in "\n\t":
        return f"\\x{ord(character):02x}"
    category = unicodedata.category(character)
    hides = category in {"Cc", "Cs", "Zl", "Zp"} or (category == "Cf" and character not in _HARMLESS_FORMATS)
    return REPLACEMENT if hides else character


_TEXT = _Inert(kept="\n\t")
_LINE = _Inert(kept="")


def inert(text: str) -> str:
    """The text with every character replaced that would move the cursor, reorder or hide text; newline and tab stay."""
    return text.translate(_TEXT)


def inert_line(text: str) -> str:
    r"""As `inert`, for what stands in one line, such as a file's name: newline and tab show as `\x0a` and `\x09`."""
    return text.translate(_LINE)


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
    """One or more lines, made inert."""
    stream.write(f"{inert(text)}\n")


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
