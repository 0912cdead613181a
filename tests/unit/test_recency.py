from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.front_matter import read_front_matter
from retriever.searching.fusion import scale_by_bounds
from retriever.searching.sources import SECONDS_OF_A_DAY, decay_by_age, score_recency
from retriever.types import Ranked, Ranking, Source

DAY = SECONDS_OF_A_DAY
dates = st.lists(st.none() | st.floats(-1e11, 1e11), max_size=6)


def test_half_of_it_is_gone_after_a_half_life() -> None:
    assert decay_by_age([400 * DAY, 220 * DAY, 40 * DAY], 180.0) == [1.0, 0.5, 0.25]


def test_what_was_too_young_to_have_a_time_is_as_new_as_the_newest() -> None:
    assert decay_by_age([None, 100 * DAY, 10 * DAY], 90.0) == [1.0, 1.0, 0.5]
    assert decay_by_age([None, None], 90.0) == [1.0, 1.0]
    assert decay_by_age([], 90.0) == []


def test_openings_count_less_and_less() -> None:
    assert score_recency([0.0, 0.0, -180 * DAY], [0, 9, 9], 180.0) == [1.0, 1 + log(10), (1 + log(10)) / 2]


@given(dates, st.floats(1e-3, 1e5))
def test_it_is_a_share(found: list[float | None], half_life: float) -> None:
    shares = decay_by_age(found, half_life)
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert max(shares, default=1.0) == 1.0


@given(st.lists(st.integers(0, 3000), min_size=2, max_size=6), st.integers(0, 3000))
def test_beside_the_highest_it_does_not_matter_what_day_it_is(days: list[int], later: int) -> None:
    """The clock is no setting because of this: a later "now" makes all older by one factor."""
    counted = decay_by_age([day * DAY for day in days], 180.0)
    by_the_clock = [0.5 ** ((max(days) + later - day) / 180.0) for day in days]
    lists = [
        Ranking(Source.RECENCY, "any", 1.0, tuple(Ranked(str(n), score) for n, score in enumerate(scores)), max(scores))
        for scores in (counted, by_the_clock)
    ]
    assert scale_by_bounds(lists[0]) == pytest.approx(scale_by_bounds(lists[1]), abs=1e-9)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2024-05-01", 1_714_521_600),
        ("2024-05-01T02:00:00+02:00", 1_714_521_600),
        ("2024-05-01T00:00:00Z", 1_714_521_600),
        ("2024-05-01 10:00:00 +0200", 1_714_550_400),
        ("2024-05-01 10:00 UTC", 1_714_521_600),
        ("1969-12-31", -86_400),
        ("0001-01-01", -62_135_596_800),
        ("2024-13-01", None),
        ("in spring", None),
        ("''", None),
    ],
)
def test_a_date_in_front_matter(written: str, seconds: int | None) -> None:
    assert read_front_matter(f"---\ndate: {written}\n---\n").dated == seconds


def test_no_date() -> None:
    assert read_front_matter("# Title\n").dated is None
