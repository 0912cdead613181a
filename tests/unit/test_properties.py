"""Days as people write them, and front matter as it is searched."""

import pytest

from retriever.lexical.properties import find_days, tokenize_properties
from tests.tables import read_table


@pytest.mark.parametrize(("text", "days"), read_table("words", "Days"))
def test_days_are_read_as_people_write_them(text: str, days: str) -> None:
    assert find_days(text) == days.split()


def test_a_property_gives_its_key_its_words_and_its_day() -> None:
    found = tokenize_properties([("due", "3 November 2024"), ("tags", "kitchen")])
    assert {"due", "novemb", "2024-11-03", "2024-11"} <= set(found)
    assert "kitchen" not in found
