"""The lines of an input, and all that is wrong with them, reported at once."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pageindex.regular_file import read_file
from retriever.errors import UsageError

MAX_BYTES = 1_000_000_000
"""Of a file of questions, judgements or expansions; the largest public collections of questions have a tenth."""
MAX_NAMED = 20
"""How many mistakes are named one by one."""

Value = TypeVar("Value")


@dataclass(slots=True)
class Mistakes:
    """Collected while a file is read; `raise_any` ends with all of them."""

    found: list[str] = field(default_factory=list)

    def note(self, place: str, what: str) -> None:
        """One mistake; `place` is `file:line` or `file`."""
        self.found.append(f"{place}: {what}")

    def raise_any(self) -> None:
        """Says all of them.

        Raises:
            UsageError: when there are some.
        """
        if self.found:
            more = [f"and {len(self.found) - MAX_NAMED:,} mistakes more"] if len(self.found) > MAX_NAMED else []
            raise UsageError("\n".join([*self.found[:MAX_NAMED], *more]))


def read_text(path: Path) -> str:
    """A file in UTF-8, without a byte order mark.

    Raises:
        UsageError: it cannot be read, or is not UTF-8.
    """
    try:
        return read_file(path, MAX_BYTES, follow_link=True).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """(`file:line`, text) of each line that is not blank."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", line.rstrip("\r")


def read_lines(path: Path, parse: Callable[[str], Value], mistakes: Mistakes) -> list[tuple[str, Value]]:
    """(`file:line`, value) of each line that is not blank; what `parse` raises as ValueError is noted."""
    values = []
    for place, line in lines_of(path):
        try:
            values.append((place, parse(line)))
        except ValueError as error:
            mistakes.note(place, str(error))
    return values


def json_object(text: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ValueError: it is none.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def text_in(item: dict[str, Any], key: str) -> str:
    """A text that is not blank.

    Raises:
        ValueError: the key holds none.
    """
    value = item.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} must be a text that is not empty")
    return value


def id_in(item: dict[str, Any], key: str = "id") -> str:
    """An id; whole numbers become texts.

    Raises:
        ValueError: it is neither a text nor a whole number.
    """
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ValueError(f"{key} must be a text or a whole number")
    return str(value)


def texts_in(item: dict[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts, none blank; empty when the key is missing.

    Raises:
        ValueError: it is something else.
    """
    value = item.get(key, [])
    if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
        raise ValueError(f"{key} must be a list of texts that are not empty")
    return tuple(value)
