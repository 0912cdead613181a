"""The harness on the real thing: the bundled model, a real index, our own small set of questions and its baseline."""

import json
from pathlib import Path

import pytest

from hybrid_retrieve import main
from retriever.api import open_retriever
from retriever.embedding.onnx import OnnxEncoder
from retriever.evaluation.measures import read_questions
from retriever.evaluation.results import (
    EvaluationInput,
    Summary,
    System,
    ask_all,
    compare_to_baseline,
    read_baseline,
    summarize,
)
from retriever.types import Answer
from tests.fake_encoder import CrowdedEncoder
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


def test_vectors_that_all_point_one_way_are_ranked_alike(index: str, tmp_path: Path) -> None:
    """Of many models all cosines lie between .7 and 1."""

    def describe(answer: Answer) -> tuple[object, ...]:
        return answer.verdict, [(hit.node_id, hit.passage, hit.sentence) for hit in answer.hits]

    crowded = CrowdedEncoder(OnnxEncoder())
    with (
        open_retriever((), index) as plain,
        open_retriever([DOCS], tmp_path / "index", encoder=crowded) as other,
    ):
        asked = [item.question for item in QUESTIONS.questions]
        changed = [each for each in asked if describe(plain.search(each)) != describe(other.search(each))]
    assert len(changed) <= len(asked) / 10, changed  # vectors are rounded: equal sections may change places


def test_the_command_measures_and_compares_with_what_it_measured_before(index: str, tmp_path: Path, cli: Cli) -> None:
    baseline = tmp_path / "baseline.json"
    questions = tmp_path / "some.jsonl"
    questions.write_text("\n".join((SET / "larder.jsonl").read_text("utf-8").splitlines()[::4]), "utf-8")
    ask = ["eval", str(questions), "--index", index, "--profiles", "fast"]
    baseline.write_text(cli(*ask, "--json").out, encoding="utf-8")
    (asked,) = json.loads(baseline.read_text(encoding="utf-8"))["systems"]
    assert asked["p50_ms"] > 0
    assert "means with 95 % intervals" in cli(*ask, "--baseline", baseline).out
    error = cli(*ask, "--keyword-weight", "0", "--semantic-weight", "0", "--baseline", baseline, code=1).err
    assert "error: fast: nDCG@10 fell by" in error
