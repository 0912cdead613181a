"""What a model wrote for a question, remembered: for a minute in memory, and for longer on disk.

The file is in the user's cache folder, not in the index: an index may be read-only, and what was written for a
question depends on the index only by the vocabulary that the model was given, which is part of the key.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from retriever.expansion.memory import Memory
from retriever.expansion.prompt import Expanded
from retriever.llm.generator import Task

MEMORY_TTL_S = 60.0
MAX_IN_MEMORY = 100
MAX_CONTENT_CHARS = 50_000
"""A longer answer is not remembered: no question needs it."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a model wrote."""

    expanded: Expanded
    milliseconds: float
    """How long it took to write it."""


class ExpansionCache:
    """Bounded in both places. A file that cannot be read or written is no cache, and no failure."""

    def __init__(self, memory: Memory, entries: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._disk = memory
        self._entries = entries
        self._clock = clock
        self._recent: dict[str, tuple[float, Remembered]] = {}

    def get(self, key: str) -> Remembered | None:
        """What was remembered under a key, if it still is."""
        noticed, found = self._recent.get(key, (float("-inf"), None))
        if found is not None and self._clock() - noticed < MEMORY_TTL_S:
            return found
        content = self._disk.expansion(key) if self._entries else None
        return None if content is None else _read(content)

    def put(self, key: str, remembered: Remembered) -> None:
        """Remembers it in both places; the oldest entries give way."""
        now = self._clock()
        self._recent = {
            known: item
            for known, item in list(self._recent.items())[1 - MAX_IN_MEMORY :]
            if now - item[0] < MEMORY_TTL_S
        }
        self._recent[key] = (now, remembered)
        content = json.dumps([remembered.milliseconds, remembered.expanded.model_dump()])
        if self._entries and len(content) <= MAX_CONTENT_CHARS:
            self._disk.put_expansion(key, content, self._entries)


def cache_key(model: str, task: Task[Expanded]) -> str:
    """Of the model, the prompt and its numbers, the question in any case and spacing, and what grounds it."""
    parts = [model, task.instructions, task.temperature, task.max_tokens, " ".join(task.material.casefold().split())]
    return sha256(json.dumps(parts).encode()).hexdigest()


def _read(content: str) -> Remembered | None:
    """None for what another version wrote."""
    try:
        milliseconds, written = json.loads(content)
        return Remembered(Expanded.model_validate(written), float(milliseconds))
    except (ValueError, TypeError):
        return None
