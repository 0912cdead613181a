"""Rounds of a language model: which actions are granted, and how what they find becomes one list."""

from typing import Literal

import pytest
from pydantic import ValidationError

from retriever.searching.rounds import Action, RoundPlan, grant_actions, rank_found
from retriever.types import Candidate, Evidence, Source


def search(question: str) -> Action:
    return Action(action="search", question=question)


def walk(kind: Literal["children", "related", "outline"], section: int) -> Action:
    return Action(action=kind, section=section)


@pytest.mark.parametrize(
    "action",
    [walk("children", 0), walk("outline", 4), search("  "), search("x" * 301), search("HOW is the  key rotated?")],
)
def test_what_cannot_be_done_is_passed_over(action: Action) -> None:
    granted = grant_actions([action, walk("related", 3)], "how is the key rotated?", 3, [])
    assert granted == [walk("related", 3)]


def test_the_limits_are_of_all_rounds_together() -> None:
    done = [search("one"), walk("children", 1)]
    wanted = [search("ONE"), search(" two  words "), search("three"), walk("children", 1), walk("outline", 1)]
    assert grant_actions([*wanted, walk("related", 1)], "q", 1, done) == [search("two words"), walk("outline", 1)]


def test_what_models_write_is_read() -> None:
    assert RoundPlan.model_validate_json("{}").actions == []
    written = '{"actions": [{"action": "search", "question": "x", "why": 1}, {"action": "outline", "section": "2"}]}'
    assert RoundPlan.model_validate_json(written).actions == [search("x"), walk("outline", 2)]
    for wrong in ('{"actions": ["search"]}', '{"actions": [{"action": "delete", "section": 1}]}'):
        with pytest.raises(ValidationError):
            RoundPlan.model_validate_json(wrong)


def candidate(node_id: str, score: float) -> Candidate:
    return Candidate(node_id, score, (Evidence(Source.KEYWORD, 1, 7.0, "bm25", score),))


def test_what_the_actions_find_is_one_ranking() -> None:
    ranking = rank_found(
        {
            'search "x"': (candidate("c", 9.0), candidate("d", 8.0), candidate("e", 7.0)),
            'children of "A"': (candidate("d", 1.0), candidate("f", 1.0)),
        }
    )
    assert [(item.node_id, item.evidence, item.note) for item in ranking.items] == [
        ("c", 1.0, 'search "x"'),
        ("d", 1.0, 'children of "A"'),
        ("f", 0.5, 'children of "A"'),
        ("e", pytest.approx(1 / 3), 'search "x"'),
    ]
    assert ranking.source is Source.ROUNDS
