r"""Ranking quality on questions with gold lines: each profile, each search alone, and expansions; overall and by kind.

    uv run python benchmarks/quality.py ../shared/eval/fastapi.jsonl:../shared/eval/corpora/fastapi \
        ../shared/eval/rustbook.jsonl:../shared/eval/corpora/rustbook

QUESTIONS:DOCS for each set. Where a file QUESTIONS.expansions.jsonl lies beside QUESTIONS.jsonl, the default profile is
measured with it as well. After the sets comes the mean over them. docs/internals/evaluation.md explains the measures.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever.command_line.evaluate import show_summary
from retriever.command_line.render import Page
from retriever.evaluation import (
    DEVIATIONS,
    HEADLINES,
    Estimate,
    Summary,
    System,
    ask_all,
    compare,
    read_questions,
)
from retriever.query import Expansion

SYSTEMS = (
    System("balanced", "balanced", {}),
    System("fast", "fast", {}),
    System("recall", "recall", {}),
    System("classic", "classic", {}),
    System("semantic alone", "fast", {"keyword_weight": 0.0}),
    System("BM25 alone", "fast", {"semantic_weight": 0.0, "ranking": "classic", "page_prior": 0.0}),
)
EXPANDED = System("balanced, expanded", "balanced", {})


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Questions, and the folder that answers them."""

    questions: Path
    docs: Path

    @classmethod
    def named(cls, argument: str) -> "Benchmark":
        """Return the benchmark of an argument QUESTIONS:DOCS."""
        return cls(*map(Path, argument.rsplit(":", 1)))

    def read_expansions(self) -> dict[str, Expansion]:
        """Read what a language model wrote for each question, by its id; empty where nothing is recorded."""
        path = self.questions.with_suffix(".expansions.jsonl")
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines() if path.is_file() else ())
        return {
            row["id"]: Expansion(tuple(row.get("queries", ())), tuple(row.get("hyde", ())), row.get("intent", ""))
            for row in rows
        }


def measured(benchmark: Benchmark, index: str) -> Summary:
    """Measure every system on one set."""
    questions = read_questions(benchmark.questions)
    given = questions.questions, (str(benchmark.docs),), index
    systems = [ask_all(system, *given) for system in SYSTEMS]
    if expansions := benchmark.read_expansions():
        systems.append(ask_all(EXPANDED, *given, expansions))
    return compare(questions, systems)


def mean_rows(summaries: Sequence[Summary]) -> Iterator[str]:
    """Yield the mean over the sets of each headline measure, for the systems that every set has."""
    names = [system.system for system in summaries[0].systems]
    measures = HEADLINES
    yield " " * 20 + "".join(f"{name:>22}" for name in measures)
    for name in names:
        found = [system for summary in summaries for system in summary.systems if system.system == name]
        if len(found) == len(summaries):
            values = [[[item[measure] for item in one.per_question.values()] for one in found] for measure in measures]
            yield f"{name:<20}" + "".join(f"{estimate_text(estimate_over_sets(sets)):>22}" for sets in values)


def estimate_over_sets(sets: Sequence[Sequence[float]]) -> Estimate:
    """Return the mean of the means of several sets of questions, and its interval by their own deviations."""
    arrays = [np.asarray(values, np.float64) for values in sets]
    mean = float(np.mean([array.mean() for array in arrays]))
    margin = DEVIATIONS * sqrt(sum(array.var() / len(array) for array in arrays)) / len(arrays)
    return Estimate(mean, mean - margin, mean + margin, sum(map(len, arrays)))


def estimate_text(value: Estimate) -> str:
    """Format an estimate as `0.617 [0.562, 0.671]`."""
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"


def main(arguments: Sequence[str]) -> None:
    """Print the tables."""
    benchmarks = [Benchmark.named(argument) for argument in arguments]
    if not benchmarks:
        raise SystemExit(__doc__)
    page = Page()
    summaries = []
    for benchmark in benchmarks:
        with TemporaryDirectory() as index:
            summaries.append(measured(benchmark, index))
        show_summary(page, summaries[-1])
        page.line()
    print("mean of the sets, with 95 % intervals")
    print("\n".join(mean_rows(summaries)))


if __name__ == "__main__":
    main(sys.argv[1:])
