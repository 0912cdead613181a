"""How long a run took, as its user waited."""

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds of one question, by the clock."""

    opening: float
    """Loading, indexing what was given with --docs, opening the index."""
    total: float
    """That and the search."""

    def __str__(self) -> str:
        """`0.24 s`."""
        return f"{self.total / 1000:.2f} s"


def milliseconds_since(begun: float) -> float:
    """Since a moment of `time.perf_counter()`."""
    return 1000 * (time.perf_counter() - begun)
