"""What a request may ask for: parameters declared once, checked when it comes, and described in openapi.json."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from retriever.errors import ParametersError

NO_TEXT = r"\s\x00-\x1f\x7f-\x9f"
"""What no question is made of, as a class of a regular expression."""
SWITCHES = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A text of the query: at most `most` characters."""

    name: str
    help: str
    required: bool = False
    default: Any = ""
    most: int = 4_096

    def read(self, given: str) -> Any:  # noqa: ANN401 - as the kinds below declare it
        """The value.

        Raises:
            ValueError: what is wrong with it, and what to do.
        """
        if len(given) > self.most:
            raise ValueError(f"must have at most {self.most:,} characters, not {len(given):,}")
        return given

    def schema(self) -> dict[str, Any]:
        """As JSON Schema."""
        least = {"minLength": 1} if self.required else {"default": self.default}
        return {"type": "string", "maxLength": self.most, **least}


@dataclass(frozen=True, slots=True)
class Question(Parameter):
    """A text that says something."""

    def schema(self) -> dict[str, Any]:
        """As JSON Schema: where it is required, at least one character that is no space."""
        least = {"minLength": 1, "pattern": f"[^{NO_TEXT}]"} if self.required else {"default": self.default}
        return {"type": "string", "maxLength": self.most, **least}


@dataclass(frozen=True, slots=True)
class Choice(Parameter):
    """One of some words; the default is the first of them."""

    choices: tuple[str, ...] = ()

    def read(self, given: str) -> str:
        """The word."""
        if given not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}{_nearest(given, self.choices)}")
        return given

    def schema(self) -> dict[str, Any]:
        """As JSON Schema."""
        return {"type": "string", "enum": list(self.choices), "default": self.default}


@dataclass(frozen=True, slots=True)
class Switch(Parameter):
    """On or off."""

    default: Any = False

    def read(self, given: str) -> bool:
        """Whether it is on."""
        if given not in SWITCHES:
            raise ValueError("must be true or false")
        return SWITCHES[given]

    def schema(self) -> dict[str, Any]:
        """As JSON Schema."""
        return {"type": "boolean", "default": self.default}


@dataclass(frozen=True, slots=True)
class Number(Parameter):
    """A whole number from `low` to `high`."""

    default: Any = None
    low: int = 0
    high: int = 1_000_000_000

    def read(self, given: str) -> int:
        """The number."""
        digits = given.isascii() and given.isdigit() and len(given) <= len(str(self.high))
        if not digits or not self.low <= int(given) <= self.high:
            raise ValueError(f"must be a whole number from {self.low:,} to {self.high:,}")
        return int(given)

    def schema(self) -> dict[str, Any]:
        """As JSON Schema."""
        default = {} if self.default is None else {"default": self.default}
        return {"type": "integer", "minimum": self.low, "maximum": self.high, **default}


def read_parameters(query: bytes, declared: Sequence[Parameter]) -> Mapping[str, Any]:
    """The values of a query string by name; those that are not given have their defaults.

    Args:
        query: as it came, percent-encoded; bytes that are no UTF-8 become what Python makes of such file names.
        declared: all that there may be.

    Raises:
        ParametersError: every mistake in it.
    """
    by_name = {item.name: item for item in declared}
    values: dict[str, Any] = {item.name: item.default for item in declared}
    mistakes: dict[str, str] = {item.name: "is missing" for item in declared if item.required}
    seen: set[str] = set()
    for name, given in parse_qsl(query.decode("latin-1"), keep_blank_values=True, errors="surrogateescape"):
        if name not in by_name:
            mistakes[name] = f"is no parameter{_nearest(name, by_name)}; there are: {', '.join(by_name) or 'none'}"
        elif name in seen:
            mistakes[name] = "is given twice"
        else:
            seen.add(name)
            mistakes.pop(name, None)
            try:
                values[name] = by_name[name].read(given)
            except ValueError as error:
                mistakes[name] = str(error)
    if mistakes:
        raise ParametersError(mistakes)
    return values


def _nearest(given: str, known: Sequence[str] | Mapping[str, object]) -> str:
    near = difflib.get_close_matches(given[:100], known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""
