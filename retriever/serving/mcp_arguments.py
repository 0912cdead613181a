"""The arguments of a tool: declared once, shown to the agent as JSON Schema, and checked to the letter."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from retriever.errors import UsageError

Value = str | int | bool
REQUIRED = None
"""In place of a default."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    name: str
    kind: Literal["string", "integer", "boolean"]
    help: str
    default: Value | None = REQUIRED
    low: int = 0
    """Of an integer."""
    high: int = 0
    """Of an integer; of a string, its length in characters."""
    choices: tuple[str, ...] = ()
    """All that a string may be; empty: anything."""

    def schema(self) -> dict[str, Any]:
        """As JSON Schema."""
        schema: dict[str, Any] = {"type": self.kind, "description": self.help}
        if self.kind == "integer":
            schema |= {"minimum": self.low, "maximum": self.high}
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.default not in (REQUIRED, ""):
            schema["default"] = self.default
        return schema

    def mistake(self, value: object) -> str:
        """What is wrong with a value; empty when nothing is."""
        if self.kind == "integer":
            right = isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high
            return "" if right else f"{self.name} must be a whole number from {self.low:,} to {self.high:,}"
        if self.kind == "boolean":
            return "" if isinstance(value, bool) else f"{self.name} must be true or false"
        if not isinstance(value, str):
            return f"{self.name} must be a string"
        if len(value) > self.high:
            return f"{self.name} has {len(value):,} characters; at most {self.high:,} are read"
        if self.choices and value not in self.choices:
            return f"{self.name} must be one of: {', '.join(self.choices)}"
        return f"{self.name} is empty" if self.default is REQUIRED and not value.strip() else ""


def input_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {item.name: item.schema() for item in parameters},
        "required": [item.name for item in parameters if item.default is REQUIRED],
        "additionalProperties": False,
    }


def checked(parameters: Sequence[Parameter], given: Mapping[str, object]) -> dict[str, Value]:
    """The arguments with their defaults; one that is null counts as not given.

    Raises:
        UsageError: with every mistake, each with what may be given instead.
    """
    known = {item.name: item for item in parameters}
    mistakes = [_unknown(name, list(known)) for name in given if name not in known]
    values: dict[str, Value] = {}
    for item in parameters:
        value = _whole(given.get(item.name))
        if value is None:
            if item.default is None:
                mistakes.append(f"{item.name} is missing: {item.help}")
            else:
                values[item.name] = item.default
        elif wrong := item.mistake(value):
            mistakes.append(wrong)
        elif isinstance(value, str | int):
            values[item.name] = value
    if mistakes:
        raise UsageError("; ".join(mistakes))
    return values


def _whole(value: object) -> object:
    """In JSON 5.0 is as whole as 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name[:100], known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known) or 'none'}"
    return f"there is no argument {name[:100]!r}; {hint}"
