"""A rest after failures: what failed twice in a row is not waited for again at once."""

import time
from collections.abc import Callable

from retriever.errors import GeneratorError

FAILURES = 2
REST_S = 60.0


class Breaker:
    """Knows how often in a row something failed, and fails for it during the rest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._reason: GeneratorError | None = None
        self._rests_until = 0.0

    def check(self) -> None:
        """Raises the last failure, of its own kind, while the rest lasts."""
        left = self._rests_until - self._clock()
        if self._reason and left > 0:
            raise type(self._reason)(f"{self._reason} (failed {FAILURES} times; asked again in {left:.0f} s)")

    def failed(self, reason: GeneratorError) -> None:
        """One more failure; the second in a row begins a rest, and so does one right after a rest."""
        self._failures += 1
        self._reason = reason
        if self._failures >= FAILURES:
            self._rests_until = self._clock() + REST_S

    def succeeded(self) -> None:
        """It works: earlier failures do not count any more."""
        self._failures = 0
