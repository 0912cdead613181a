"""The runs of some systems become one table: means with intervals, overall and by kind, and every pair compared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from retriever.evaluation.losses import Stage, counts
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
from retriever.evaluation.questions import Question, QuestionSet
from retriever.evaluation.relevance import Sections, distinct, right_files, right_sections
from retriever.evaluation.runs import Outcome, Run
from retriever.evaluation.statistics import Difference, Estimate, auroc, difference, estimate, percentile

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
