"""What speaks for a section before a question is asked: how new it is, and how often it was opened. Pure.

The prior of Li and Croft, "Time-Based Language Models", CIKM 2003, decays exponentially with age. Age is counted from
the newest of the sections that are compared, not from the clock: the same index gives the same answer on any day. No
order depends on it: from a later day all of them would be less by one factor, which is taken out again where they are
divided by the highest.
"""

from collections.abc import Sequence
from math import log

SECONDS_OF_A_DAY = 86_400.0


def recency(dates: Sequence[float | None], half_life_days: float) -> list[float]:
    """For each date 0.5 ** (age / half-life): 1 for the newest, 0.5 for one that is a half-life older; 0 to 1.

    Args:
        dates: seconds, from any moment; None, when the time was too young to be kept, is as new as the newest.
        half_life_days: above 0.
    """
    newest = max((date for date in dates if date is not None), default=0.0)
    return [0.5 ** _half_lives(newest if date is None else date, newest, half_life_days) for date in dates]


def _half_lives(date: float, newest: float, half_life_days: float) -> float:
    return (newest - date) / SECONDS_OF_A_DAY / half_life_days


def temporal_scores(dates: Sequence[float | None], opened: Sequence[int], half_life_days: float) -> list[float]:
    """Recency times 1 + ln(1 + how often a section was opened): the tenth time says less than the first; at least 0."""
    return [share * (1.0 + log(1 + times)) for share, times in zip(recency(dates, half_life_days), opened, strict=True)]
