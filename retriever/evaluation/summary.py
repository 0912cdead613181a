"""The runs of some systems become one table: means with intervals, overall and by kind, and every pair compared."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from retriever.errors import UsageError
from retriever.evaluation.formats import json_object, read_text
from retriever.evaluation.measures import (
    BUDGET_NAMES,
    FILE_NAMES,
    SECTION_NAMES,
    Values,
    budget_measures,
    file_measures,
    section_measures,
    tokens_needed,
)
from retriever.evaluation.questions import Question, QuestionSet, Sections, distinct, right_files, right_sections
from retriever.evaluation.runs import Outcome, Run, Stage, counts
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

SECTION_HEADLINES = ("nDCG@10", "hit@1", "hit@5", "hit@10", "hit@30", "MRR@10")
FILE_HEADLINES = ("file nDCG@10", "file hit@1", "file hit@5", "file hit@10", "file recall@10", "file MRR@10")
COMPARED = 3
"""So many of the headline measures are compared for each pair of systems, and kept in a baseline."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from a question to its answer, models and index open."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class SystemSummary:
    """One system on one set of questions."""

    system: str
    base: str
    """As in `Run`."""
    settings: Mapping[str, object]
    per_question: Mapping[str, Values]
    """The measures of every answerable question that was answered without a failure, by id."""
    overall: Mapping[str, Estimate]
    """Measures by name; without those that no question has."""
    by_kind: Mapping[str, Mapping[str, Estimate]]
    failures: Mapping[str, int]
    """Sentences on stages that failed, with the number of questions: they are in no measure."""
    remarks: Mapping[str, int]
    failed: int
    """Questions with a failure."""
    latency: Latency | None
    tokens_to_answer: float | None
    """The median, over all answerable questions, of the tokens that are read until the answer is; None when it is not
    found for most of them."""
    abstention: float | None
    """The share of the unanswerable questions for which nothing was claimed; None without such questions."""
    false_abstention: float | None
    """The same of the answerable ones, where it is wrong."""
    auroc: float | None
    """How well its confidence tells answerable questions from the others; None without both kinds, or without one."""
    llm_calls: int
    llm_tokens: int
    losses: Mapping[Stage, int]
    """How many answerable questions ended at each stage; empty where no trace is known."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems by one measure, over the questions that both answered without a failure."""

    first: str
    second: str
    measure: str
    difference: Difference
    won: tuple[str, ...]
    """The ids where the first one is better."""
    lost: tuple[str, ...]
    """Where the second one is."""


@dataclass(frozen=True, slots=True)
class Summary:
    """All systems on one set of questions."""

    questions: QuestionSet
    sections: Sections
    """What could be found."""
    runs: tuple[Run, ...]
    systems: tuple[SystemSummary, ...]
    """In the order of the runs."""
    comparisons: tuple[Comparison, ...]

    @property
    def headlines(self) -> tuple[str, ...]:
        """The measures that stand first."""
        return headlines(self.questions)


def headlines(questions: QuestionSet) -> tuple[str, ...]:
    """The measures of most interest: of sections, or of files where no lines are known."""
    return SECTION_HEADLINES if questions.has_lines else FILE_HEADLINES


def measure_names(questions: QuestionSet) -> tuple[str, ...]:
    """Every measure that such questions have, in the order of a table."""
    return (*SECTION_NAMES, *BUDGET_NAMES, *FILE_NAMES) if questions.has_lines else FILE_NAMES


def summarize(questions: QuestionSet, runs: Sequence[Run], sections: Sections) -> Summary:
    """Measures every run, and compares every pair; `sections` are not read where the questions have no lines."""
    systems = tuple(_system(questions, run, sections) for run in runs)
    return Summary(questions, sections, tuple(runs), systems, tuple(compare(systems, headlines(questions)[:COMPARED])))


def compare(systems: Sequence[SystemSummary], measures: Sequence[str]) -> Iterable[Comparison]:
    """Every pair, the later system against the earlier one, by each measure; a change against its base alone."""
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


def _system(questions: QuestionSet, run: Run, sections: Sections) -> SystemSummary:
    outcomes = [run.outcomes[question.id] for question in questions.questions]
    whole = [question for question in questions.questions if not run.outcomes[question.id].failures]
    answerable = [question for question in whole if question.is_answerable]
    values = per_question(questions, run, answerable, sections)
    times = [item.milliseconds for item in outcomes if item.milliseconds is not None]
    return SystemSummary(
        system=run.system,
        base=run.base,
        settings=run.settings,
        per_question=values,
        overall=_estimates(values.values()),
        by_kind={
            kind: _estimates(values[item.id] for item in answerable if item.kind == kind) for kind in questions.kinds
        },
        failures=_counted(sentence for item in outcomes for sentence in item.failures),
        remarks=_counted(sentence for item in outcomes for sentence in item.remarks),
        failed=len(outcomes) - len(whole),
        latency=Latency(percentile(times, 50), percentile(times, 95)) if times else None,
        tokens_to_answer=_tokens_to_answer(run, answerable, sections) if questions.has_lines else None,
        abstention=_abstained([run.outcomes[item.id] for item in whole if not item.is_answerable]),
        false_abstention=_abstained([run.outcomes[item.id] for item in answerable]),
        auroc=_auroc(run, whole),
        llm_calls=sum(item.llm_calls for item in outcomes),
        llm_tokens=sum(item.llm_tokens for item in outcomes),
        losses=_losses([run.outcomes[item.id] for item in answerable]),
    )


def per_question(
    questions: QuestionSet, run: Run, answerable: Sequence[Question], sections: Sections
) -> dict[str, Values]:
    """All measures of these questions, by id."""
    files = {item.id: distinct(found.file for found in run.outcomes[item.id].found) for item in answerable}
    values = file_measures(files, {item.id: right_files(item) for item in answerable})
    if not questions.has_lines:
        return values
    right = {item.id: right_sections(item, sections) for item in answerable}
    nodes = {item.id: [found.node_id for found in run.outcomes[item.id].found] for item in answerable}
    for key, measured in section_measures(nodes, right).items():
        values[key] = {**measured, **_budget(run.outcomes[key], right[key]), **values[key]}
    return values


def _budget(outcome: Outcome, right: Mapping[str, int]) -> Values:
    """Empty where the run does not say how long the sections are."""
    if outcome.found and not any(found.tokens for found in outcome.found):
        return {}
    return budget_measures(*_read(outcome, right))


def _read(outcome: Outcome, right: Mapping[str, int]) -> tuple[list[int], list[bool]]:
    return [item.tokens for item in outcome.found], [item.node_id in right for item in outcome.found]


def _tokens_to_answer(run: Run, answerable: Sequence[Question], sections: Sections) -> float | None:
    needed = [tokens_needed(*_read(run.outcomes[item.id], right_sections(item, sections))) for item in answerable]
    middle = median([float("inf") if tokens is None else float(tokens) for tokens in needed] or [float("inf")])
    return None if middle in (0.0, float("inf")) else middle


def _estimates(values: Iterable[Values]) -> dict[str, Estimate]:
    listed = list(values)
    names = dict.fromkeys(name for measured in listed for name in measured)
    return {name: estimate([measured[name] for measured in listed if name in measured]) for name in names}


def _abstained(outcomes: Sequence[Outcome]) -> float | None:
    return sum(item.abstained for item in outcomes) / len(outcomes) if outcomes else None


def _auroc(run: Run, questions: Sequence[Question]) -> float | None:
    sure: dict[bool, list[float]] = {True: [], False: []}
    for question in questions:
        confidence = run.outcomes[question.id].confidence
        if confidence is not None:
            sure[question.is_answerable].append(confidence)
    return auroc(sure[True], sure[False]) if sure[True] and sure[False] else None


def _losses(outcomes: Sequence[Outcome]) -> Mapping[Stage, int]:
    losses = [item.loss for item in outcomes if item.loss is not None]
    return counts(losses) if losses else {}


def _counted(sentences: Iterable[str]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for sentence in sentences:
        counted[sentence] = counted.get(sentence, 0) + 1
    return counted


# A summary as one JSON object, for programs: exact, keys in a fixed order.


def summary_object(summary: Summary) -> dict[str, Any]:
    """All of it but the hits, which `--run` writes."""
    questions = summary.questions.questions
    return {
        "questions": {
            "name": summary.questions.name,
            "count": len(questions),
            "unanswerable": sum(not item.is_answerable for item in questions),
            "kinds": {
                kind: sum(item.kind == kind and item.is_answerable for item in questions)
                for kind in summary.questions.kinds
            },
        },
        "statistics": {"confidence": CONFIDENCE, "resamples": RESAMPLES, "permutations": PERMUTATIONS},
        "systems": [system_object(system) for system in summary.systems],
        "comparisons": [comparison_object(item) for item in summary.comparisons],
    }


def system_object(system: SystemSummary) -> dict[str, Any]:
    """One system."""
    return {
        "name": system.system,
        **system.settings,
        "measures": {name: asdict(value) for name, value in system.overall.items()},
        "kinds": {
            kind: {name: asdict(value) for name, value in measures.items()} for kind, measures in system.by_kind.items()
        },
        "failed_questions": system.failed,
        "failures": dict(system.failures),
        "remarks": dict(system.remarks),
        "latency_ms": asdict(system.latency) if system.latency else None,
        "tokens_to_answer": system.tokens_to_answer,
        "abstention": {"unanswerable": system.abstention, "answerable": system.false_abstention},
        "confidence_auroc": system.auroc,
        "llm": {"calls": system.llm_calls, "tokens": system.llm_tokens},
        "lost": {str(stage): count for stage, count in system.losses.items()},
        "per_question": {key: dict(values) for key, values in system.per_question.items()},
    }


def comparison_object(item: Comparison) -> dict[str, Any]:
    """One pair by one measure."""
    return {
        "first": item.first,
        "second": item.second,
        "measure": item.measure,
        **asdict(item.difference),
        "significant": item.difference.is_significant,
        "won": list(item.won),
        "lost": list(item.lost),
    }


def estimate_text(value: Estimate) -> str:
    """`0.617 [0.562, 0.671]`."""
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"


# Today's values against those of an earlier day, question by question.

FORMAT = 1
"""Rises when the file changes."""


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
        """Whether it fell, significantly."""
        return self.difference.mean < 0 and self.difference.is_significant


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of everything that the baseline holds."""

    changes: tuple[Change, ...]
    problems: tuple[str, ...]
    """What keeps the two from being compared in full; each is as bad as a fall."""

    @property
    def is_worse(self) -> bool:
        """Whether something fell significantly, or could not be compared."""
        return bool(self.problems) or any(change.is_fall for change in self.changes)


def baseline_text(summary: Summary) -> str:
    """The file of a baseline: the compared measures of every question, with the text that was asked."""
    kept = summary.headlines[:COMPARED]
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
    """A baseline.

    Raises:
        UsageError: it is none.
    """
    try:
        content = json_object(read_text(path))
        if content.get("format") != FORMAT:
            raise ValueError(f"its format is {content.get('format')!r}, not {FORMAT}")
        _check(content)
    except ValueError as error:
        raise UsageError(f"{path}: no baseline that can be read: {error}; write one with --save-baseline") from error
    return content


def _check(content: Mapping[str, Any]) -> None:
    systems = content.get("systems")
    if not isinstance(systems, dict) or not isinstance(content.get("questions"), dict):
        raise ValueError("questions and systems must be objects")
    for values in systems.values():
        numbers = [number for measures in values.values() for number in measures.values()]
        if not all(isinstance(number, int | float) for number in numbers):
            raise ValueError("a measure is no number")


def against(summary: Summary, baseline: Mapping[str, Any]) -> Verdict:
    """Every system of the baseline against the one of that name today."""
    today = {system.system: system for system in summary.systems}
    problems = list(_changed_questions(summary.questions, baseline["questions"]))
    changes: list[Change] = []
    for name, values in baseline["systems"].items():
        if name not in today:
            problems.append(f"{name}: is in the baseline, and was not measured")
            continue
        if today[name].failed:
            problems.append(f"{name}: {today[name].failed} questions met a stage that failed")
        changes += _changes(name, values, today[name].per_question)
    return Verdict(tuple(changes), tuple(problems))


def _changed_questions(questions: QuestionSet, known: Mapping[str, str]) -> Iterator[str]:
    texts = {item.id: item.text for item in questions.questions if item.is_answerable}
    for key in sorted({*texts, *known}):
        if key not in texts or key not in known:
            yield f"question {key}: is in {'the baseline' if key in known else 'the questions'} alone"
        elif texts[key] != known[key]:
            yield f"question {key}: has another text than in the baseline"


def _changes(
    system: str, before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]]
) -> Iterator[Change]:
    shared = [key for key in before if key in after]
    for name in dict.fromkeys(name for key in shared for name in before[key] if name in after[key]):
        old = [before[key][name] for key in shared]
        new = [round(after[key][name], 6) for key in shared]
        yield Change(system, name, sum(old) / len(old), sum(new) / len(new), difference(new, old))
