"""Rounds of a language model: which actions are granted, and how what they find becomes one list."""

import pytest

from benchmarks import rounds as benchmark
from benchmarks.follow_ups import read_asked
from retriever.searching.rounds import MAX_ACTIONS, MAX_SEARCHES, Action, Found, Plan, check_actions, merge_found
from retriever.types import Candidate, Evidence, Source


def search(question: str) -> Action:
    return Action(action="search", question=question)


def walk(kind: str, section: int) -> Action:
    return Action(action=kind, section=section)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Action(action="delete", section=1), "delete 1: there is no such action"),
        (Action(), " 0: there is no such action"),
        (walk("children", 0), "children 0: there is no section of that number"),
        (walk("outline", 4), "outline 4: there is no section of that number"),
        (search("  "), "search : no question, or a long one"),
        (search("x" * 301), f"search {'x' * 59}…: no question, or a long one"),
        (search("How is the key rotated?"), "search How is the key rotated?: asked already"),
    ],
)
def test_what_is_wrong_is_refused_and_named(action: Action, reason: str) -> None:
    granted, refused = check_actions([action, walk("related", 3)], "how is the key rotated?", 3, [])
    assert granted == [walk("related", 3)]
    assert refused == [reason]


def test_the_budget_is_of_all_rounds_together() -> None:
    done = [search("one"), walk("children", 1)]
    wanted = [
        search("ONE"),
        search(" two  words "),
        search("three"),
        walk("children", 1),
        walk("outline", 1),
        walk("related", 1),
    ]
    granted, refused = check_actions(wanted, "q", 1, done)
    assert granted == [search("two words"), walk("outline", 1)]
    assert [item.partition(": ")[2] for item in refused] == [
        "asked already", "more than 2 searches", "done already", "more than 4 actions",
    ]  # fmt: skip
    assert (MAX_SEARCHES, MAX_ACTIONS) == (2, 4)


@pytest.mark.parametrize(
    ("written", "actions"),
    [
        ("{}", []),
        ('{"actions": null}', []),
        ('{"actions": ["search", 3, {"action": "search", "question": "x", "section": null, "why": 1}]}', [search("x")]),
        ('{"actions": [{"action": "outline", "section": "2", "question": null}]}', [walk("outline", 2)]),
        ('{"actions": [{"action": ["x"], "section": -1e400}]}', [Action()]),
    ],
)
def test_what_models_write_is_read(written: str, actions: list[Action]) -> None:
    assert Plan.model_validate_json(written).actions == actions


def candidate(node_id: str, score: float) -> Candidate:
    return Candidate(node_id, score, (Evidence(Source.KEYWORD, 1, 7.0, "bm25", score),))


def test_lists_are_fused_by_rank() -> None:
    first = [candidate("a", 0.03), candidate("b", 0.02), candidate("c", 0.01)]
    found = [
        Found('search "x"', (candidate("c", 9.0), candidate("d", 8.0))),
        Found('children of "A"', (candidate("d", 1.0),)),
    ]
    merged = merge_found(first, found, 3)
    # a: 1/2; b: 1/3; c: 1/4 + 1/2; d: 1/3 + 1/2
    assert [item.node_id for item in merged] == ["d", "c", "a"]
    assert [round(item.score, 4) for item in merged] == [0.8333, 0.75, 0.5]
    for item in merged:
        assert sum(one.share for one in item.evidence) == pytest.approx(item.score)
    assert [(one.source, one.note) for one in merged[1].evidence] == [("rounds", 'search "x"'), ("keyword", "")]
    assert [one.note for one in merged[0].evidence] == ['children of "A"', 'search "x"'], (
        "what they found themselves is of another question"
    )


def test_the_questions_of_the_benchmark_have_their_lines() -> None:
    asked = read_asked(benchmark.QUESTIONS)
    assert len(asked) == 30
    assert {len(item["gold"]) for item in asked} == {2, 3}
    assert all(sum(map(len, item["rounds"])) <= MAX_ACTIONS for item in asked)
