"""How a setting is declared: type, default, bounds and help in one place."""

from dataclasses import field
from typing import Any


def setting(default: Any, help: str) -> Any:  # noqa: ANN401 - as dataclasses.field, which takes the field's own type
    """A dataclass field with its default and one sentence of help."""
    return field(default=default, metadata={"help": help})
