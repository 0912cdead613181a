"""The harness on the real thing: the bundled model, a real index, our own small set of questions and its baseline."""

import json
from pathlib import Path

import pytest

from hybrid_retrieve import main
from retriever import open_retriever
from retriever.evaluation.questions import read_questions
from retriever.evaluation.results import (
    EvaluationInput,
    Summary,
    System,
    ask_all,
    compare_to_baseline,
    read_baseline,
    summarize,
)
from retriever.query import AskRequest, Expansion
from retriever.types import Source
from tests.program import Cli

SET = Path(__file__).parents[1] / "eval_corpus"
DOCS = SET / "larder"
QUESTIONS = read_questions(SET / "larder.jsonl")
BASELINE = SET / "larder.baseline.json"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("evaluation") / "index")
    assert main(["index", str(DOCS), "--index", folder]) == 0
    return folder


def measured(index: str, system: System) -> Summary:
    return summarize(QUESTIONS, [ask_all(system, EvaluationInput(QUESTIONS, index=index))])


def test_the_ranking_is_no_worse_than_it_was(index: str) -> None:
    """When a change is meant: hybrid_retrieve.py eval ... --json > tests/eval_corpus/larder.baseline.json."""
    summary = measured(index, System("balanced", "balanced"))
    falls = [change for change in compare_to_baseline(summary, read_baseline(BASELINE)) if change.difference.is_fall]
    assert falls == []
    (balanced,) = summary.systems
    assert balanced.overall["hit@5"].mean >= 0.85
    assert balanced.by_kind["identifier"]["hit@5"].mean == 1.0
    assert balanced.failures == {}


def test_a_ranking_that_is_broken_falls_below_the_baseline(index: str) -> None:
    broken = System("balanced", "balanced", {"keyword_weight": 0.0, "semantic_weight": 0.0})
    changes = compare_to_baseline(measured(index, broken), read_baseline(BASELINE))
    assert any(change.difference.is_fall for change in changes)


def test_expansions_reach_both_searches(index: str) -> None:
    question = QUESTIONS.questions[0]
    helpful = Expansion(("missed run catch_up laptop asleep waking up",), ("A missed run starts after waking up.",))
    unlike = Expansion(("banana bread",), ("Bake the banana bread for an hour.",))
    with open_retriever(index=index) as retriever:
        alone = retriever.search(question.question)
        same, better, spared = (
            retriever.search(AskRequest(question.question, expansion=item)) for item in (Expansion(), helpful, unlike)
        )
    assert [hit.node_id for hit in same.hits] == [hit.node_id for hit in alone.hits]
    assert [hit.node_id for hit in spared.hits] == [hit.node_id for hit in alone.hits], "it is not about the question"
    assert better.hits[0].node_id == "schedules.md#schedules/missed-runs"
    scores = [{ranking.source: ranking.items[0].score for ranking in item.trace.rankings} for item in (better, alone)]
    assert scores[0][Source.SEMANTIC] > scores[1][Source.SEMANTIC]
    assert scores[0][Source.KEYWORD] > scores[1][Source.KEYWORD]
    assert better.matched_words == alone.matched_words, "marks stay those of the question"


def test_the_command_measures_and_compares_with_what_it_measured_before(index: str, tmp_path: Path, cli: Cli) -> None:
    baseline = tmp_path / "baseline.json"
    questions = SET / "larder.jsonl"
    ask = ["eval", str(questions), "--index", index, "--profiles", "fast"]
    baseline.write_text(cli(*ask, "--json").out, encoding="utf-8")
    (asked,) = json.loads(baseline.read_text(encoding="utf-8"))["systems"]
    assert asked["p50_ms"] > 0
    assert "means with 95 % intervals" in cli(*ask, "--baseline", baseline).out
    error = cli(*ask, "--keyword-weight", "0", "--semantic-weight", "0", "--baseline", baseline, code=1).err
    assert "error: fast: nDCG@10 fell by" in error
