"""The runs of some systems become one table: means with intervals, overall and by kind, and every pair compared."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Any

from retriever.display.json import dump
from retriever.errors import UsageError
from retriever.evaluation.formats import json_object, read_text
from retriever.evaluation.measures import (
    BUDGET_NAMES,
    FILE_NAMES,
    SECTION_NAMES,
    Values,
    count_tokens_needed,
    measure,
    measure_budgets,
    measure_files,
)
from retriever.evaluation.questions import (
    Judgements,
    Question,
    QuestionSet,
    Sections,
    find_right_files,
    find_right_sections,
)
from retriever.evaluation.runs import Outcome, Run, Stage
from retriever.evaluation.statistics import (
    CONFIDENCE,
    PERMUTATIONS,
    RESAMPLES,
    Difference,
    Estimate,
    auroc,
    difference,
    estimate,
    percentile,
)

MEASURES = (*SECTION_NAMES, *BUDGET_NAMES, *FILE_NAMES)
HEADLINES = ("nDCG@10", "hit@1", "hit@5", "hit@10", "hit@30", "MRR@10")
COMPARED = 3  # of the headline measures: these are compared for each pair of systems, and kept in a baseline


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from a question to its answer, models and index open."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class SystemSummary:
    system: str
    base: str  # as in `Run`
    settings: Mapping[str, object]
    # The measures of every answerable question that was answered without a failure, by id.
    per_question: Mapping[str, Values]
    overall: Mapping[str, Estimate]  # measures by name; without those that no question has
    by_kind: Mapping[str, Mapping[str, Estimate]]
    failures: Mapping[str, int]  # sentences on stages that failed, with the number of questions: they are in no measure
    remarks: Mapping[str, int]
    failed: int  # questions with a failure
    latency: Latency | None
    # The median, over all answerable questions, of the tokens that are read until the answer is; None when it is not
    # found for most of them.
    tokens_to_answer: float | None
    # The share of the unanswerable questions for which nothing was claimed; None without such questions.
    abstention: float | None
    false_abstention: float | None  # the same of the answerable ones, where it is wrong
    # How well its confidence tells answerable questions from the others; None without both kinds, or without one.
    auroc: float | None
    llm_calls: int
    losses: Mapping[Stage, int]  # how many answerable questions ended at each stage; empty where no trace is known


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems by one measure, over the questions that both answered without a failure."""

    first: str
    second: str
    measure: str
    difference: Difference
    won: tuple[str, ...]  # the ids where the first one is better
    lost: tuple[str, ...]  # where the second one is


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
    times = [item.milliseconds for item in outcomes if item.milliseconds is not None]
    losses = [loss for item in answerable if (loss := run.outcomes[item.id].loss)]
    abstained: dict[bool, list[bool]] = {True: [], False: []}  # by whether the documents hold an answer
    confidence: dict[bool, list[float]] = {True: [], False: []}
    for question in whole:
        outcome = run.outcomes[question.id]
        abstained[question.is_answerable].append(outcome.abstained)
        if outcome.confidence is not None:
            confidence[question.is_answerable].append(outcome.confidence)
    return SystemSummary(
        system=run.system,
        base=run.base,
        settings=run.settings,
        per_question=values,
        overall=estimate_measures(values.values()),
        by_kind={
            kind: estimate_measures(values[item.id] for item in answerable if item.kind == kind)
            for kind in questions.kinds
        },
        failures=Counter(sentence for item in outcomes for sentence in item.failures),
        remarks=Counter(sentence for item in outcomes for sentence in item.remarks),
        failed=len(outcomes) - len(whole),
        latency=Latency(percentile(times, 50), percentile(times, 95)) if times else None,
        tokens_to_answer=measure_reading(run, answerable, sections),
        abstention=fmean(abstained[False]) if abstained[False] else None,
        false_abstention=fmean(abstained[True]) if abstained[True] else None,
        auroc=auroc(confidence[True], confidence[False]) if all(confidence.values()) else None,
        llm_calls=sum(item.llm_calls for item in outcomes),
        losses={stage: sum(loss.stage is stage for loss in losses) for stage in Stage} if losses else {},
    )


def measure_questions(run: Run, answerable: Sequence[Question], sections: Sections) -> dict[str, Values]:
    """Return all measures of these questions, by id."""
    # Each file once, where it first stands.
    files = {item.id: list(dict.fromkeys(found.file for found in run.outcomes[item.id].found)) for item in answerable}
    values = measure_files(files, {item.id: find_right_files(item) for item in answerable})
    right = {item.id: find_right_sections(item, sections) for item in answerable}
    nodes = {item.id: [found.node_id for found in run.outcomes[item.id].found] for item in answerable}
    for key, by_section in measure(nodes, right, SECTION_NAMES).items():
        within = measure_budgets(*read_tokens(run.outcomes[key], right[key]))
        values[key] = {**by_section, **within, **values[key]}
    return values


def measure_reading(run: Run, answerable: Sequence[Question], sections: Sections) -> float | None:
    """Return the median of the tokens that are read until the answer is; None where most questions have none."""
    needed = [
        count_tokens_needed(*read_tokens(run.outcomes[item.id], find_right_sections(item, sections)))
        for item in answerable
    ]
    middle = median([float("inf") if tokens is None else float(tokens) for tokens in needed] or [float("inf")])
    return None if middle in (0.0, float("inf")) else middle


def read_tokens(outcome: Outcome, right: Judgements) -> tuple[list[int], list[bool]]:
    return [item.tokens for item in outcome.found], [item.node_id in right for item in outcome.found]


def estimate_measures(values: Iterable[Values]) -> dict[str, Estimate]:
    listed = list(values)
    names = dict.fromkeys(name for measures in listed for name in measures)
    return {name: estimate([measures[name] for measures in listed if name in measures]) for name in names}


def compare(systems: Sequence[SystemSummary], measures: Sequence[str]) -> Iterable[Comparison]:
    """Compare the later system of each pair with the earlier one; a change with its base alone."""
    for before, after in combinations(systems, 2):
        if before.base or after.base not in ("", before.system):
            continue
        shared = [key for key in after.per_question if key in before.per_question]
        for name in measures if shared else ():
            ours = [after.per_question[key][name] for key in shared]
            theirs = [before.per_question[key][name] for key in shared]
            won = tuple(key for key, a, b in zip(shared, ours, theirs, strict=True) if a > b)
            lost = tuple(key for key, a, b in zip(shared, ours, theirs, strict=True) if a < b)
            yield Comparison(after.system, before.system, name, difference(ours, theirs), won, lost)


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

FORMAT = 1  # of a baseline; rises when the file changes


@dataclass(frozen=True, slots=True)
class Change:
    """One measure of one system, today against the baseline, over the questions of both."""

    system: str
    measure: str
    before: float
    after: float
    difference: Difference

    @property
    def is_fall(self) -> bool:
        return self.difference.mean < 0 and self.difference.is_significant


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of everything that the baseline holds."""

    changes: tuple[Change, ...]
    problems: tuple[str, ...]  # what keeps the two from being compared in full; each is as bad as a fall

    @property
    def is_worse(self) -> bool:
        return bool(self.problems) or any(change.is_fall for change in self.changes)


def format_baseline(summary: Summary) -> str:
    """Return the file of a baseline: the compared measures of every question, with the text that was asked."""
    kept = HEADLINES[:COMPARED]
    content = {
        "format": FORMAT,
        "questions": {item.id: item.text for item in summary.questions.questions if item.is_answerable},
        "systems": {
            system.system: {
                key: {name: round(values[name], 6) for name in kept} for key, values in system.per_question.items()
            }
            for system in summary.systems
        },
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read_baseline(path: Path) -> Mapping[str, Any]:
    try:
        content = json_object(read_text(path))
        if content.get("format") != FORMAT:
            raise ValueError(f"its format is {content.get('format')!r}, not {FORMAT}")
        systems = content.get("systems")
        if not isinstance(systems, dict) or not isinstance(content.get("questions"), dict):
            raise ValueError("questions and systems must be objects")
        for values in systems.values():
            numbers = [number for measures in values.values() for number in measures.values()]
            if not all(isinstance(number, int | float) for number in numbers):
                raise ValueError("a measure is no number")
    except ValueError as error:
        raise UsageError(f"{path}: no baseline that can be read: {error}; write one with --save-baseline") from error
    return content


def compare_to_baseline(summary: Summary, baseline: Mapping[str, Any]) -> Verdict:
    problems: list[str] = []
    known = baseline["questions"]
    texts = {item.id: item.text for item in summary.questions.questions if item.is_answerable}
    for key in sorted({*texts, *known}):
        if key not in texts or key not in known:
            problems.append(f"question {key}: is in {'the baseline' if key in known else 'the questions'} alone")
        elif texts[key] != known[key]:
            problems.append(f"question {key}: has another text than in the baseline")
    today = {system.system: system for system in summary.systems}
    changes: list[Change] = []
    for name, before in baseline["systems"].items():
        if name not in today:
            problems.append(f"{name}: is in the baseline, and was not measured")
            continue
        if today[name].failed:
            problems.append(f"{name}: {today[name].failed} questions met a stage that failed")
        after = today[name].per_question
        shared = [key for key in before if key in after]
        for figure in dict.fromkeys(item for key in shared for item in before[key] if item in after[key]):
            old = [before[key][figure] for key in shared]
            new = [round(after[key][figure], 6) for key in shared]
            changes.append(Change(name, figure, sum(old) / len(old), sum(new) / len(new), difference(new, old)))
    return Verdict(tuple(changes), tuple(problems))
