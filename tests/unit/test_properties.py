"""Days as people write them, and front matter as it is searched."""

import pytest

from retriever.lexical.properties import find_days, tokenize_properties


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1987-11-02", ["1987-11-02"]),
        ("02/11/1987", ["1987-11-02"]),
        ("March 15, 2024", ["2024-03-15"]),
        ("the 15th of March 2024", ["2024-03-15"]),
        ("1. März 2020", ["2020-03-01"]),
        ("2 de noviembre de 1987", ["1987-11-02"]),
        ("1er août 1999", ["1999-08-01"]),
        ("juin 2001, juillet 2002", ["2001-06", "2002-07"]),
        ("31 February 2020", []),
        ("version 1.2.2024.5", []),
        ("marching on 20 roads", []),
    ],
)
def test_days_are_read_as_people_write_them(text: str, days: list[str]) -> None:
    assert find_days(text) == days


def test_a_property_gives_its_key_its_words_and_its_day() -> None:
    found = tokenize_properties([("due", "3 November 2024"), ("tags", "kitchen")])
    assert {"due", "novemb", "2024-11-03", "2024-11"} <= set(found)
    assert "kitchen" not in found
