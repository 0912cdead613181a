import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.node import Span
from retriever.searching.citations import find_anchor
from retriever.searching.passage import Asked, ScoredUnits, find_passage, score_node
from retriever.searching.question_words import read_kind
from retriever.types import Reading
from tests.sections import make_node
from tests.tables import read_table

LINES = st.lists(st.sampled_from(["", "a", "b", "# a", "a b"]), min_size=1, max_size=8)


@given(LINES, LINES, LINES)
def test_what_is_cited_as_exact_or_moved_holds_the_text(above: list[str], section: list[str], below: list[str]) -> None:
    now = "\n".join([*above, *section, *below]) + "\n"
    span, state = find_anchor(Span(3, 2 + len(section)), "\n".join(section) + "\n", now)
    if state != "stale":
        assert now.split("\n")[span.first - 1 : span.last] == section
    elif any(section):
        places = [at for at in range(len(above) + len(below) + 1) if now.split("\n")[at : at + len(section)] == section]
        assert len(places) != 1


ASKED = Asked(read_kind("how do I row"), {"row": 1.0}, ())
SIDES = "A canoe has one paddle.\n\n- It is open.\n\nA kayak is closed.\n"
LONG = "Before you row:\n\n- Look:\n  - at the sky.\n- Pack a kayak.\n" + "- Stay at home if the wind is high.\n" * 15
TABLE = "| boat | seats |\n|---|---|\n" + "| skiff | 2 |\n" * 9 + "| gig | 6 |\n" + "| a long boat | 12 |\n" * 140
WIDE = f"| boat | built | carried |\n|---|---|---|\n| skiff | {'Of oak. ' * 60} | As a kayak, on one shoulder. |\n"
FAR_APART = SIDES.replace("- It is open.", "It is open.\n" * 20)
LONG_TEXTS = [
    (FAR_APART, "A canoe", "canoe vs kayak", "3", "A canoe has one paddle."),
    (TABLE, "skiff", "how do I row a gig", "5", "boat: skiff · seats: 2"),
    (WIDE, "skiff \u00b7 As", "how is a kayak carried", "5", "boat: skiff · carried: As a kayak, on one shoulder."),
    (LONG, "Pack", "can I row", "7", "Before you row: Pack a kayak."),
]


@pytest.mark.parametrize(
    ("text", "best", "question", "cited", "shown"), [*read_table("sections", "What is cited together"), *LONG_TEXTS]
)
def test_what_is_cited_together(text: str, best: str, question: str, cited: str, shown: str) -> None:
    whole = f"## Boats\n\n{text}\nMore.\n"
    node = make_node(whole, "a.md#boats", "Boats")
    asked = Asked(read_kind(question), dict.fromkeys(("canoe", "kayak"), 1.0), ())
    units = score_node(node, asked).units
    found = find_passage(node, asked, ScoredUnits(units, [9.0 * unit.text.startswith(best) for unit in units]))
    assert str(found.span) == cited
    assert found.sentence == shown


def test_a_unit_that_was_not_read_is_never_before_one_that_was() -> None:
    units = score_node(make_node("## Lake\n\nGigs.\n\nSkiffs.\n\n```\nrow\n```\n", "a.md#lake", "Lake"), ASKED).units
    read = ScoredUnits(units, [6.0, 4.0, 2.0], by_words=[6.5, 4.5, 0.0]).add_readings([0, 1], [Reading(3, 0.5)] * 2)
    assert read.best() == [0, 1, 2]


def test_of_a_long_list_the_items_in_the_chunk_that_matched_are_read() -> None:
    units = score_node(make_node("## Boats\n\n" + "- A boat of oak.\n" * 40, "a.md#boats", "Boats"), ASKED).units
    read = ScoredUnits(units, [1.2] * 2 + [0.0] * 39).choose_read(3, Span(20, 22), ASKED)
    assert [units[place].span.first for place in read] == [3, 20, 21], "behind one that is far better"


def test_a_list_that_was_not_read_reads_as_the_best_of_its_items() -> None:
    units = score_node(make_node("## Boats\n\n- gig\n- skiff\n", "a.md#boats", "Boats"), ASKED).units
    readings = [Reading(3, 0.5, 0.1), Reading(3, 0.6, 0.1)]
    read = ScoredUnits(units, [0.0] * 3, by_words=[1.0] * 3).add_readings([1, 2], readings)
    assert read.scores == pytest.approx([7.5, 6.3, 7.5])
