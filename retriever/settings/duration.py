"""Texts with a form of their own: a time with its unit, as people write it (`800ms`, `2s`), a regular expression."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?(ms|s)", re.ASCII)


def parse_duration(text: str) -> float:
    """`800ms` -> 0.8, `2s` -> 2.0, `1.5s` -> 1.5; ValueError for 0, more than an hour, and all else."""
    text = text.strip()
    match = DURATION.fullmatch(text)
    if match is None:
        if text.replace(".", "", 1).isdecimal():
            raise ValueError(f"must have a unit: {text}ms or {text}s")
        raise ValueError("must be a time such as 800ms or 2s, or empty")
    seconds = float(match[1]) * {"ms": 0.001, "s": 1.0}[match[2]]
    if not 0 < seconds <= 3600:
        raise ValueError("must be more than 0 and at most 3600s")
    return seconds


def compile_pattern(text: str) -> "re.Pattern[str]":
    """The regular expression; ValueError says what is wrong with it."""
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression ({error})") from error


@dataclass(frozen=True, slots=True)
class TextSchema:
    """Tells pydantic how a text is checked: by a function that raises ValueError. An empty one is always right."""

    parse: Callable[[str], object] = field(repr=False)

    def __get_pydantic_core_schema__(self, source: type, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import PydanticCustomError, core_schema  # 70 ms, needed only where a profile is checked

        def check(value: object) -> str:
            try:
                if value != "":
                    self.parse(str(value))
            except ValueError as error:
                raise PydanticCustomError("text", "{why}", {"why": str(error)}) from error
            return str(value)

        return core_schema.no_info_plain_validator_function(check)


# `800ms`, `2s`, or empty for no limit.
Duration = Annotated[str, TextSchema(parse_duration)]
# A regular expression of Python, such as `^TICKET-[0-9]+`.
Pattern = Annotated[str, TextSchema(compile_pattern)]
