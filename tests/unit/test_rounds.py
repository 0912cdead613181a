"""Rounds of a language model: what it may write, and how what they find becomes one list."""

import pytest
from pydantic import ValidationError

from retriever.searching.rounds import RoundPlan, rank_found
from retriever.types import Source


def test_what_models_write_is_read() -> None:
    assert RoundPlan.model_validate_json("{}") == RoundPlan(searches=[], open=[])
    written = '{"searches": ["x"], "open": ["2"], "why": 1}'
    assert RoundPlan.model_validate_json(written) == RoundPlan(searches=["x"], open=[2])
    for wrong in ('{"searches": [1]}', '{"open": ["the second"]}'):
        with pytest.raises(ValidationError):
            RoundPlan.model_validate_json(wrong)


def test_what_rounds_find_is_one_ranking() -> None:
    ranking = rank_found(
        {
            'search "x"': ("c", "d", "e"),
            "sections of a.md": ("d", "f"),
        }
    )
    assert [(item.node_id, item.evidence, item.note) for item in ranking.items] == [
        ("c", 1.0, 'search "x"'),
        ("d", 1.0, "sections of a.md"),
        ("f", 0.5, "sections of a.md"),
        ("e", pytest.approx(1 / 3), 'search "x"'),
    ]
    assert ranking.source is Source.ROUNDS
