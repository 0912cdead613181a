"""The runs of some systems become one table: means with intervals, overall and by kind, and every pair compared."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from retriever.display.json import dump
from retriever.errors import UsageError
from retriever.evaluation.measures import (
    CONFIDENCE,
    PERMUTATIONS,
    RESAMPLES,
    Estimate,
    MeanDifference,
    Values,
    auroc,
    difference,
    estimate,
    measure,
    percentile,
)
from retriever.evaluation.question_files import read_bytes
from retriever.evaluation.questions import Question, QuestionSet, Sections, find_right_sections
from retriever.evaluation.runs import Run

HEADLINES = ("nDCG@10", "hit@1", "hit@5", "hit@10", "hit@30", "MRR@10")
COMPARED = 3  # of the headline measures: these are compared for each pair of systems, and with a baseline


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from a question to its answer."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class SystemSummary:
    system: str
    settings: Mapping[str, object]
    # The measures of every answerable question that was answered without a failure, by id.
    per_question: Mapping[str, Values]
    overall: Mapping[str, Estimate]  # measures by name; without those that no question has
    by_kind: Mapping[str, Mapping[str, Estimate]]
    failures: Mapping[str, int]  # sentences on stages that failed, with the number of questions: they are in no measure
    failed: int  # questions with a failure
    latency: Latency
    # The share of the unanswerable questions for which nothing was claimed; None without such questions.
    abstention: float | None
    false_abstention: float | None  # the same of the answerable ones, where it is wrong
    auroc: float | None  # how well its confidence tells answerable questions from the others; None without both kinds


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems by one measure, over the questions that both answered without a failure."""

    first: str
    second: str
    measure: str
    difference: MeanDifference


@dataclass(frozen=True, slots=True)
class Summary:
    questions: QuestionSet
    sections: Sections  # what could be found
    runs: tuple[Run, ...]
    systems: tuple[SystemSummary, ...]  # in the order of the runs
    comparisons: tuple[Comparison, ...]


def summarize(questions: QuestionSet, runs: Sequence[Run], sections: Sections) -> Summary:
    """Measure every run, and compare every pair."""
    systems = tuple(summarize_run(questions, run, sections) for run in runs)
    return Summary(questions, sections, tuple(runs), systems, tuple(compare(systems, HEADLINES[:COMPARED])))


def summarize_run(questions: QuestionSet, run: Run, sections: Sections) -> SystemSummary:
    """Return all measures of one run; a question with a failed stage is in none of them."""
    outcomes = [run.outcomes[question.id] for question in questions.questions]
    whole = [question for question in questions.questions if not run.outcomes[question.id].failures]
    answerable = [question for question in whole if question.is_answerable]
    values = measure_questions(run, answerable, sections)
    times = [item.milliseconds for item in outcomes]
    abstained: dict[bool, list[bool]] = {True: [], False: []}  # by whether the documents hold an answer
    confidence: dict[bool, list[float]] = {True: [], False: []}
    for question in whole:
        outcome = run.outcomes[question.id]
        abstained[question.is_answerable].append(outcome.abstained)
        confidence[question.is_answerable].append(outcome.confidence)
    return SystemSummary(
        system=run.system,
        settings=run.settings,
        per_question=values,
        overall=estimate_measures(values.values()),
        by_kind={
            kind: estimate_measures(values[item.id] for item in answerable if item.kind == kind)
            for kind in questions.kinds
        },
        failures=Counter(sentence for item in outcomes for sentence in item.failures),
        failed=len(outcomes) - len(whole),
        latency=Latency(percentile(times, 50), percentile(times, 95)),
        abstention=fmean(abstained[False]) if abstained[False] else None,
        false_abstention=fmean(abstained[True]) if abstained[True] else None,
        auroc=auroc(confidence[True], confidence[False]) if all(confidence.values()) else None,
    )


def measure_questions(run: Run, answerable: Sequence[Question], sections: Sections) -> dict[str, Values]:
    """Return all measures of these questions, by id."""
    nodes = {item.id: [found.node_id for found in run.outcomes[item.id].found] for item in answerable}
    return measure(nodes, {item.id: find_right_sections(item, sections) for item in answerable})


def estimate_measures(values: Iterable[Values]) -> dict[str, Estimate]:
    listed = list(values)
    names = dict.fromkeys(name for measures in listed for name in measures)
    return {name: estimate([measures[name] for measures in listed if name in measures]) for name in names}


def compare(systems: Sequence[SystemSummary], measures: Sequence[str]) -> Iterable[Comparison]:
    """Compare the later system of each pair with the earlier one."""
    for before, after in combinations(systems, 2):
        shared = [key for key in after.per_question if key in before.per_question]
        for name in measures if shared else ():
            ours = [after.per_question[key][name] for key in shared]
            theirs = [before.per_question[key][name] for key in shared]
            yield Comparison(after.system, before.system, name, difference(ours, theirs))


def dump_summary(summary: Summary) -> dict[str, Any]:
    """Return a summary as one JSON object, for programs: exact, keys in a fixed order."""
    questions = summary.questions.questions
    answerable = [item for item in questions if item.is_answerable]
    return {
        "questions": {
            "name": summary.questions.name,
            "count": len(questions),
            "unanswerable": len(questions) - len(answerable),
            "kinds": {kind: sum(item.kind == kind for item in answerable) for kind in summary.questions.kinds},
        },
        "statistics": {"confidence": CONFIDENCE, "resamples": RESAMPLES, "permutations": PERMUTATIONS},
        "systems": dump(summary.systems),
        "comparisons": dump(summary.comparisons),
    }


# Today's values against those of an earlier day, question by question.


@dataclass(frozen=True, slots=True)
class Change:
    """One measure of one system, today against the baseline, over the questions of both."""

    system: str
    measure: str
    before: float
    after: float
    difference: MeanDifference

    @property
    def is_fall(self) -> bool:
        return self.difference.mean < 0 and self.difference.is_significant


def read_baseline(path: Path) -> dict[str, dict[str, Values]]:
    """Return the values of each question of each system, of what `eval --json` printed."""
    try:
        systems = {item["system"]: item["per_question"] for item in json.loads(read_bytes(path))["systems"]}
        for values in systems.values():
            float(sum(values[key][name] for key in values for name in HEADLINES[:COMPARED]))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path}: no baseline; write one with eval --json > FILE") from error
    return systems


def compare_to_baseline(summary: Summary, baseline: Mapping[str, Mapping[str, Values]]) -> Iterator[Change]:
    """Yield how each compared measure of each system changed.

    Raises:
        UsageError: the two are not of the same systems and questions.
    """
    today = {system.system: system.per_question for system in summary.systems}
    for name, before in baseline.items():
        after = today.get(name, {})
        if odd := sorted(before.keys() ^ after.keys()):
            raise UsageError(f"{name}: only the baseline or only this run measured {', '.join(odd[:5])}")
        for figure in HEADLINES[:COMPARED]:
            old, new = ([values[key][figure] for key in before] for values in (before, after))
            yield Change(name, figure, fmean(old), fmean(new), difference(new, old))
