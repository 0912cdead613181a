"""Summaries of what systems found: what counts, what does not, and what is said about it."""

from pathlib import Path

from pageindex.document import parse_document
from retriever.evaluation import (
    Gold,
    Outcome,
    Question,
    QuestionSet,
    System,
    SystemSummary,
    compare,
    find_right,
    measure_ranking,
    read_questions,
    summarize,
)
from tests.shelf import write_pages

TEN_LINES = "".join(f"# s{number}\n" + 9 * "x\n" for number in range(5))
SECTIONS = [placed.node for file in ("a.md", "b.md") for placed in parse_document(file, TEN_LINES).nodes]
QUESTIONS = QuestionSet(
    "set",
    (
        Question("q1", "first?", (Gold("a.md", 15, 22),), "direct"),
        Question("q2", "second?", (Gold("b.md", 1, 1),), "overview"),
        Question("q3", "none?", (), "unanswerable"),
    ),
)


Answer = tuple[str, ...]


def measured(name: str, q1: Answer = (), q2: Answer = (), q3: Answer = (), failures: Answer = ()) -> SystemSummary:
    """Measure a system that found these sections; `failures` are of the second question."""
    outcomes = []
    for question, found in zip(QUESTIONS.questions, (q1, q2, q3), strict=True):
        right = find_right(SECTIONS, question.gold)
        values = measure_ranking(found, right) if right else {}
        outcomes.append(Outcome(question, values, not found, 1.0, failures if question.id == "q2" else ()))
    return summarize(System(name, name), outcomes)


GOOD = measured("good", ("a.md#s1", "a.md#s4"), ("b.md#s1", "b.md#s0"))
POOR = measured("poor", ("a.md#s0", "b.md#s0"), ("a.md#s0",), ("a.md#s0",))


def test_sections_are_right_by_their_own_lines() -> None:
    assert find_right(SECTIONS, QUESTIONS.questions[0].gold) == {"a.md#s1", "a.md#s2"}


def test_measures_overall_and_by_kind_and_what_is_in_none_of_them() -> None:
    assert {name: GOOD.overall[name].mean for name in ("hit@1", "MRR@10", "recall@10")} == {
        "hit@1": 0.5, "MRR@10": 0.75, "recall@10": 0.75,  # one of two right sections of q1, the one of q2
    }  # fmt: skip
    assert {kind: values["hit@1"].mean for kind, values in GOOD.by_kind.items()} == {"direct": 1.0, "overview": 0.0}
    assert GOOD.overall["hit@1"].questions == 2, "an unanswerable question is in none"
    assert (GOOD.abstention, POOR.abstention, GOOD.false_abstention) == (1.0, 0.0, 0.0)


def test_a_failed_stage_is_counted_and_named_and_no_zero() -> None:
    broken = measured("broken", ("a.md#s1", "a.md#s4"), failures=("semantic: the model cannot be loaded",))
    assert GOOD.failures == {}
    assert broken.failures == {"semantic: the model cannot be loaded": 1}
    assert (broken.overall["hit@1"].mean, broken.overall["hit@1"].questions) == (1.0, 1)
    pairs = compare(QUESTIONS, [GOOD, broken]).comparisons
    assert pairs[0].difference.ties == 1, "compared over the questions of both"


def test_every_pair_is_compared() -> None:
    pairs = {item.measure: item for item in compare(QUESTIONS, [GOOD, POOR]).comparisons}
    assert (pairs["hit@1"].first, pairs["hit@1"].second) == ("poor", "good")
    assert {name: pair.difference.losses for name, pair in pairs.items()} == {"nDCG@10": 2, "hit@1": 1, "hit@5": 2}


def test_questions_are_read_with_their_lines_and_other_fields_passed_over(tmp_path: Path) -> None:
    gold = '[{"file": "a.md", "start_line": 3, "end_line": 9}]'
    lines = (
        f'{{"id": "7", "question": "why?", "kind": "direct", "gold": {gold}, "style": "plain"}}\n'
        '\n{"id": "x", "question": "is it?", "gold": []}\n'
    )
    read = read_questions(write_pages(tmp_path, {"set.jsonl": lines}) / "set.jsonl")
    assert read.questions[0] == Question("7", "why?", (Gold("a.md", 3, 9),), "direct")
    assert (read.name, read.questions[1].gold) == ("set", ())
