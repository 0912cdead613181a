"""What a question asks for, by its words."""

import pytest

from retriever.searching.question_kind import read_kind
from tests.tables import read_table


@pytest.mark.parametrize(("question", "kind"), read_table("questions", "What a question asks for"))
def test_what_a_question_asks_for(question: str, kind: str) -> None:
    assert read_kind(question).value == kind


def test_a_follow_up_asks_for_what_was_asked_before() -> None:
    before = "how long does it bake?"
    kinds = [read_kind(question, before).value for question in ("and rolls?", "what about rolls?", "why?")]
    assert kinds == ["value", "value", "why"]


@pytest.mark.parametrize(("question", "kind"), read_table("questions", "What a follow-up asks for"))
def test_a_follow_up_may_say_it_behind_a_first_word(question: str, kind: str) -> None:
    assert read_kind(question, "what are the steps").value == kind
