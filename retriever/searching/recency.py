"""The ranking by age, for notes and logs: how new a section is.

The prior of Li and Croft, "Time-Based Language Models", CIKM 2003, decays exponentially with age. Age is counted from
the newest of the sections that are compared, not from the clock: the same index gives the same answer on any day. No
order depends on it: from a later day all of them would be less by one factor, which is taken out again where they are
divided by the highest.
"""

from collections.abc import Sequence

from retriever.searching.mapping import sort_ranked
from retriever.searching.open_index import View
from retriever.store import reading
from retriever.types import Ranked, Ranking, Source

SECONDS_OF_A_DAY = 86_400.0


def rank_recency(view: View, rankings: Sequence[Ranking], half_life_days: float) -> Ranking:
    """The sections that the rankings hold, by how new they are."""
    ids = sorted({item.node_id for ranking in rankings for item in ranking.items})
    dates = reading.dates(view.connection, ids)
    scores = decay_by_age([dates[node_id] for node_id in ids], half_life_days)
    items = sort_ranked(map(Ranked, ids, scores))
    return Ranking(Source.RECENCY, "recency", 1.0, items, max(scores, default=0.0))


def decay_by_age(dates: Sequence[float | None], half_life_days: float) -> list[float]:
    """For each date 0.5 ** (age / half-life): 1 for the newest, 0.5 for one that is a half-life older; 0 to 1.

    Args:
        dates: seconds, from any moment; None, when the time was too young to be kept, is as new as the newest.
        half_life_days: above 0.
    """
    newest = max((date for date in dates if date is not None), default=0.0)
    ages = [0.0 if date is None else (newest - date) / SECONDS_OF_A_DAY for date in dates]
    return [0.5 ** (age / half_life_days) for age in ages]
