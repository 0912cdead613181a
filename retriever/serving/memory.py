"""Memory that is freed goes back to the system, also where many threads took it.

glibc gives each thread an arena of its own and keeps what is freed in it: a server whose threads take turns came to
hold twice what it uses (docs/agents.md). Other C libraries give it back by themselves; there nothing is done.
"""

import ctypes
import sys
import threading
import time
from functools import cache

ARENAS = 1
"""For all threads together: a retriever lets its callers take turns anyway."""
EVERY_S = 5.0
"""Giving back takes some milliseconds, so it is not done after each answer."""
_M_ARENA_MAX = -8
"""Of mallopt, as in malloc.h."""


class SpareMemory:
    """The freed memory of this process."""

    def __init__(self) -> None:
        self._given_back = time.monotonic()
        self._lock = threading.Lock()
        libc = _glibc()
        if libc is not None:
            libc.mallopt(_M_ARENA_MAX, ARENAS)

    def give_back(self) -> None:
        """Gives back what is free, unless that was done a moment ago."""
        libc = _glibc()
        with self._lock:
            if libc is None or time.monotonic() - self._given_back < EVERY_S:
                return
            self._given_back = time.monotonic()
        libc.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    return libc if hasattr(libc, "gnu_get_libc_version") else None
