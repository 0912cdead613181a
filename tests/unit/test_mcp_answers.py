"""How much of an answer fits, and how its pages follow one another."""

import pytest

from retriever.errors import UsageError
from retriever.serving.mcp_answers import Pagination, count_fitting, estimate_tokens, fit_text

PAGES = Pagination(("read", "mail.md"), snapshot=7)


def test_a_cursor_goes_on_where_it_was_made() -> None:
    assert PAGES.offset("") == 0
    assert PAGES.offset(PAGES.cursor(1200)) == 1200


@pytest.mark.parametrize(
    ("cursor", "message"),
    [
        ("x", "belongs to another call"),
        ("7-1200-000000000000", "belongs to another call"),
        (PAGES.cursor(1200).replace("1200", "1201"), "belongs to another call"),
        (PAGES.cursor(1200).replace("7-", "8-", 1), "belongs to another call"),
        (Pagination(("read", "other.md"), snapshot=7).cursor(1200), "belongs to another call"),
        (Pagination(("read", "mail.md"), snapshot=6).cursor(1200), "the documents changed"),
        ("\u0667-\u0661-000000000000", "belongs to another call"),
    ],
)
def test_a_cursor_of_something_else_is_refused(cursor: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PAGES.offset(cursor)


def test_an_estimate_counts_letters_of_other_scripts_as_more() -> None:
    assert estimate_tokens("three by") == 3
    assert estimate_tokens("\u6771\u4eac") == 3


@pytest.mark.parametrize(("most", "count"), [(0, 1), (2, 1), (4, 2), (100, 3)])
def test_lines_that_fit(most: int, count: int) -> None:
    assert count_fitting(["one 1", "two 2", "three"], most) == count


@pytest.mark.parametrize(("most", "text"), [(0, "o"), (1, "one"), (3, "one 1\n"), (100, "one 1\ntwo 2\n")])
def test_text_that_fits(most: int, text: str) -> None:
    assert fit_text("one 1\ntwo 2\n", most) == text
