"""Ways to damage a file, each with a name."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path

Harm = Callable[[bytes, random.Random], bytes | None]
"""From what a file holds to what it is to hold; None: it goes."""


A_FOLDER = "a folder in its place"
HARMS: Mapping[str, Harm] = {
    "deleted": lambda _, __: None,
    A_FOLDER: lambda _, __: None,
    "emptied": lambda _, __: b"",
    "half of it": lambda data, _: data[: len(data) // 2],
    "without its last byte": lambda data, _: data[:-1],
    "truncated": lambda data, chance: data[: chance.randrange(max(1, len(data)))],
}


def damage(file: Path, harm: str, chance: random.Random) -> None:
    changed = HARMS[harm](file.read_bytes(), chance)
    file.unlink()
    if harm == A_FOLDER:
        file.mkdir()
    elif changed is not None:
        file.write_bytes(changed)
