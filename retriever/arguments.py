"""The check of what programs hand to the public functions: a UsageError that says what an argument should be."""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from retriever.errors import UsageError

Given = ParamSpec("Given")
Result = TypeVar("Result")


def is_texts(value: object, *kinds: type) -> bool:
    """Return whether a value is several texts; one text alone would be read letter by letter."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Path | Mapping):
        return False
    return all(isinstance(item, (str, *kinds)) for item in value)


def is_number(value: object) -> bool:
    """Return whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


PATHS = "a list of folders: [FOLDER]", lambda value: is_texts(value, Path)
PATH = "a text or a Path", lambda value: isinstance(value, str | Path)
TEXT = "a text", lambda value: isinstance(value, str)
TEXTS = "a list of texts: [TEXT]", is_texts
NUMBER = "a whole number", is_number
SWITCH = "True or False", lambda value: isinstance(value, bool)
SETTINGS = "a mapping of settings, nested as in a profile", lambda value: isinstance(value, Mapping)

# What each argument of a public function is, by its name; None is right where it is the default.
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("docs", "indexes"), PATHS),
    **dict.fromkeys(("index", "file"), PATH),
    **dict.fromkeys(("profile", "name", "reference", "encoder_url", "since", "until"), TEXT),
    **dict.fromkeys(("references", "folders", "tags", "where", "without", "phrases", "focus"), TEXTS),
    **dict.fromkeys(("not_folders", "not_tags"), TEXTS),
    **dict.fromkeys(("count", "depth", "max_tokens"), NUMBER),
    **dict.fromkeys(("everything", "replace", "undo", "repair", "llm", "clear", "same_file", "details"), SWITCH),
    "settings": SETTINGS,
}


def check_value(name: str, value: object) -> None:
    """Raise UsageError where a value is not what an argument of this name takes."""
    kind = KINDS.get(name)
    if kind is not None and not kind[1](value):
        raise UsageError(f"{name} takes {kind[0]}; it was given {value!r:.100}")


def check_arguments(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return a function that checks its arguments by their names (`KINDS`) before anything is done.

    Raises, when it is called:
        UsageError: an argument is of another type.
    """
    parameters = signature(function).parameters

    @wraps(function)
    def call(*arguments: Given.args, **named: Given.kwargs) -> Result:
        for name, value in (*zip(parameters, arguments, strict=False), *named.items()):
            if name in parameters and value is not parameters[name].default:
                check_value(name, value)
        return function(*arguments, **named)

    return call
