"""How fast a model reads and writes on this machine, and what of a stage it can finish in time.

A laptop's processor reads 60 to 500 tokens a second and writes 10 to 50: the same task takes 5 seconds on one and a
minute on another. The server says with each answer how long it took, so the next task is cut to what the model can do.
"""

import contextlib
import json
import logging
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from retriever.files import find_cache_file, make_private_folder, write_file

log = logging.getLogger(__name__)

FILE_NAME = "speeds.json"
BYTES_PER_TOKEN = 3.6  # of prose and some code; a window is planned with fewer, for there nothing may be too long
LEAST_READ, LEAST_WRITTEN = 100, 8  # tokens that say something about a speed
MAX_AGE_S = 30 * 86_400.0
NEW_SHARE = 0.4  # of what was measured last in what is kept


def size(text: str) -> int:
    """Return the bytes of a text in UTF-8, which tell of its tokens in every script; a lone surrogate has three."""
    return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens a second, above 0."""

    reads: float
    writes: float
    has_schema: bool = True  # whether the model writes what is asked for under a JSON schema
    has_odds: bool = True  # whether its server says how likely its words were

    def seconds(self, read: int, written: int) -> float:
        """Return about how long a task takes that has so many bytes, and an answer of so many tokens."""
        return read / BYTES_PER_TOKEN / self.reads + written / self.writes

    def bytes_in(self, seconds: float, written: int) -> int:
        """Return how much can be read in the seconds beside writing so many tokens; at least 0."""
        return max(0, int((seconds - written / self.writes) * self.reads * BYTES_PER_TOKEN))

    def __str__(self) -> str:
        """Return `150 tokens a second read, 20 written`."""
        return f"{self.reads:,.0f} tokens a second read, {self.writes:,.0f} written"


USUAL = Speed(150, 20)  # of a laptop without a graphics card and a model of 3 to 4 billion weights


@dataclass(frozen=True, slots=True)
class Measured:
    """What a server says of one answer; 0 where it does not say."""

    read: int  # tokens of the prompt
    read_s: float
    written: int
    written_s: float

    def joined(self, before: Speed | None) -> Speed | None:
        """Return the speed by this answer and what was known before; None where neither says anything."""
        reads = self.read / self.read_s if self.read >= LEAST_READ and self.read_s > 0 else 0.0
        writes = self.written / self.written_s if self.written >= LEAST_WRITTEN and self.written_s > 0 else 0.0
        if before is None:
            return Speed(reads, writes or reads / 8) if reads else None
        return replace(
            before,
            reads=NEW_SHARE * (reads or before.reads) + (1 - NEW_SHARE) * before.reads,
            writes=NEW_SHARE * (writes or before.writes) + (1 - NEW_SHARE) * before.writes,
        )


# The speeds of models by server and name, in the user's cache folder; dispensable, and never a reason to fail.


def read_speed(key: str) -> Speed | None:
    """Return the speed of a model, by server and name; None where it is unknown or a month old."""
    match _read_file(find_cache_file(FILE_NAME)).get(key):
        case [int() | float() as reads, int() | float() as writes, bool() as schema, bool() as odds, int() as at]:
            if 0 < reads < 1e6 and 0 < writes < 1e6 and time.time() - at < MAX_AGE_S:
                return Speed(reads, writes, schema, odds)
    return None


def write_speed(key: str, speed: Speed) -> None:
    """Keep the speed of a model."""
    path = find_cache_file(FILE_NAME)
    if path is None or (os.path.lexists(path) and not _read_file(path)):  # it is not ours
        return
    entry = [round(speed.reads, 1), round(speed.writes, 1), speed.has_schema, speed.has_odds, int(time.time())]
    entries = _read_file(path) | {key: entry}
    try:
        make_private_folder(path.parent)
        write_file(path, json.dumps(entries))
    except OSError as error:
        log.info("%s: %s", path, error)


def _read_file(path: Path | None) -> dict[str, object]:
    content: object = None
    if path is not None:
        with contextlib.suppress(OSError, ValueError):
            content = json.loads(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}
