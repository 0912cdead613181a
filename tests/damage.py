"""What can happen to a file: each way has a name."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path

Harm = Callable[[bytes, random.Random], bytes | None]
"""From what a file holds to what it is to hold; None: it goes."""


def flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    if changed:
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def zeroed(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(max(1, len(data) - 1))
    return data[:start] + bytes(len(data) - start)


A_FOLDER = "a folder in its place"
HARMS: Mapping[str, Harm] = {
    "deleted": lambda _, __: None,
    A_FOLDER: lambda _, __: None,
    "emptied": lambda _, __: b"",
    "half of it": lambda data, _: data[: len(data) // 2],
    "without its last byte": lambda data, _: data[:-1],
    "random": lambda data, chance: chance.randbytes(len(data)),
    "truncated": lambda data, chance: data[: chance.randrange(max(1, len(data)))],
    "zeroed": zeroed,
    "one bit flipped": flipped,
}


def damage(file: Path, harm: str, chance: random.Random) -> bool:
    """Harms the file; whether that made a difference."""
    data = file.read_bytes()
    changed = HARMS[harm](data, chance)
    file.unlink()
    if harm == A_FOLDER:
        file.mkdir()
    elif changed is not None:
        file.write_bytes(changed)
    return changed != data
