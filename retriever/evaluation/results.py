"""Every question through the real retriever, timed, and what the answers are worth.

Means with intervals, overall and by kind of question; every pair of systems compared.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np

from retriever.api import open_retriever
from retriever.evaluation.measures import (
    Estimate,
    MeanDifference,
    QuestionSet,
    Sections,
    Values,
    difference,
    estimate,
    measure_ranking,
)
from retriever.protocols import Progress
from retriever.query import AskRequest, Expansion
from retriever.settings.schema import merge
from retriever.trace import NoProgress
from retriever.types import StageName

DEPTH = 30  # sections that are asked for: the largest k of any measure
# What an answer says of these is a remark: all stages ran. What else it names did not run, or failed.
REMARK_STAGES = frozenset({StageName.EMBED, StageName.QUESTION, StageName.REFRESH})
HEADLINES = ("nDCG@10", "hit@1", "hit@5", "hit@10", "hit@30", "MRR@10")
COMPARED = HEADLINES[:3]  # by these, systems are compared with one another

# The measures of every answerable question that was answered without a failure, by its id.
PerQuestion: TypeAlias = Mapping[str, Values]


@dataclass(frozen=True, slots=True)
class System:
    """A profile, with settings over it, under a name."""

    name: str
    profile: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # nested, as in a profile file


@dataclass(frozen=True, slots=True)
class EvaluationInput:
    """The documents and what is asked of them."""

    questions: QuestionSet
    # Folders that are indexed first, only what changed, by the settings of each system; empty for those of `index`.
    docs: Sequence[str] = ()
    index: str | None = None  # as for `open_retriever`
    expansions: Mapping[str, Expansion] = field(default_factory=dict)  # by question id; empty: nothing is expanded


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer of a system to one question."""

    found: tuple[str, ...]  # node ids, best first, each once
    abstained: bool  # whether it said that the documents hold no answer
    milliseconds: float  # from the question to the answer, models and index open
    # Stages that failed: what was found then says nothing of the ranking, and is not measured.
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    system: System
    outcomes: Mapping[str, Outcome]  # by question id
    sections: Sections  # what could be found


def ask_all(system: System, asked: EvaluationInput, progress: Progress | None = None) -> Run:
    """Return the answers of one system to all questions; raises as `Retriever.search`."""
    questions = asked.questions.questions
    settings = merge(system.settings, {"top_k": DEPTH})
    with open_retriever(asked.docs, asked.index, system.profile, settings, progress) as retriever:
        sections = Sections(retriever.nodes())
        sections.check(questions)
        retriever.search(questions[0].question)  # before the clock runs: the first one opens the model and the index
        progress = progress or NoProgress()
        progress.start(system.name, len(questions), "questions")
        outcomes = {}
        for number, question in enumerate(questions, start=1):
            begun = time.perf_counter()
            answer = retriever.search(AskRequest(question.question, expansion=asked.expansions.get(question.id)))
            outcomes[question.id] = Outcome(
                found=tuple(hit.node_id for hit in answer.hits),
                abstained=answer.verdict == "none" or not answer.hits,
                milliseconds=1000 * (time.perf_counter() - begun),
                failures=tuple(str(item) for item in answer.degraded if item.stage not in REMARK_STAGES),
            )
            progress.advance(system.name, number)
        progress.finish(system.name)
    return Run(system, outcomes, sections)


# The runs of some systems become one table.


@dataclass(frozen=True, slots=True)
class SystemSummary:
    system: str
    profile: str
    settings: Mapping[str, object]
    per_question: PerQuestion
    overall: Mapping[str, Estimate]  # measures by name
    by_kind: Mapping[str, Mapping[str, Estimate]]
    failures: Mapping[str, int]  # sentences on stages that failed, with the number of questions: they are in no measure
    p50_ms: float
    p95_ms: float
    # The share of the unanswerable questions for which nothing was claimed; None without such questions.
    abstention: float | None
    false_abstention: float | None  # the same of the answerable ones, where it is wrong


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
    systems: tuple[SystemSummary, ...]
    comparisons: tuple[Comparison, ...]  # of each pair, the later one with the earlier one


def summarize(questions: QuestionSet, runs: Sequence[Run]) -> Summary:
    """Measure every run, and compare every pair."""
    systems = tuple(summarize_run(questions, run) for run in runs)
    comparisons = (pair for before, after in combinations(systems, 2) for pair in compare(after, before))
    return Summary(questions, systems, tuple(comparisons))


def summarize_run(questions: QuestionSet, run: Run) -> SystemSummary:
    """Return all measures of one run; a question with a failed stage is in none of them."""
    whole = [question for question in questions.questions if not run.outcomes[question.id].failures]
    answerable = [question for question in whole if question.is_answerable]
    values = {
        item.id: measure_ranking(run.outcomes[item.id].found, run.sections.find_right(item.gold)) for item in answerable
    }
    times = [item.milliseconds for item in run.outcomes.values()]
    abstained: dict[bool, list[bool]] = {True: [], False: []}  # by whether the documents hold an answer
    for question in whole:
        abstained[question.is_answerable].append(run.outcomes[question.id].abstained)
    return SystemSummary(
        system=run.system.name,
        profile=run.system.profile,
        settings=run.system.settings,
        per_question=values,
        overall=estimate_measures(values.values()),
        by_kind={
            kind: estimate_measures(values[item.id] for item in answerable if item.kind == kind)
            for kind in questions.kinds
        },
        failures=Counter(sentence for item in run.outcomes.values() for sentence in item.failures),
        p50_ms=float(np.percentile(times, 50)),
        p95_ms=float(np.percentile(times, 95)),
        abstention=fmean(abstained[False]) if abstained[False] else None,
        false_abstention=fmean(abstained[True]) if abstained[True] else None,
    )


def estimate_measures(values: Iterable[Values]) -> dict[str, Estimate]:
    """Return the mean of each measure over some questions; nothing without questions."""
    listed = list(values)
    return {name: estimate([measures[name] for measures in listed]) for name in (listed[0] if listed else ())}


def compare(first: SystemSummary, second: SystemSummary) -> Iterator[Comparison]:
    """Yield the difference of two systems by each of the compared measures."""
    shared = first.per_question.keys() & second.per_question.keys()
    for name in COMPARED if shared else ():
        values = ([system.per_question[key][name] for key in sorted(shared)] for system in (first, second))
        yield Comparison(first.system, second.system, name, difference(*values))
