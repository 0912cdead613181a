"""Questions with known answers -> how well a profile finds them: which sections are right, what a ranking is worth.

Every question goes through the real retriever, timed. Means come with intervals, overall and by kind of question; every
pair of systems is compared.

The measures are those of trec_eval. `hit@k` is 1 when something right is among the first k; `recall@k` the share of all
that is right which is. `MRR@10` is 1 / the rank of the first right one, 0 below 10. `nDCG@10` compares with the ideal
list, which begins with all that is right in the whole index.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import log2, sqrt
from pathlib import Path
from statistics import fmean, pstdev
from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import StrictInt, StringConstraints, TypeAdapter, ValidationError

from pageindex.node import Node, Span
from retriever.api import open_retriever
from retriever.errors import UsageError
from retriever.query import AskRequest, Expansion
from retriever.settings import merge
from retriever.trace import NO_PROGRESS, milliseconds_since
from retriever.types import Progress, StageName

Text = Annotated[str, StringConstraints(pattern=r"\S")]


@dataclass(frozen=True)
class Gold:
    """Lines that answer a question, each on its own; 1-based, inclusive."""

    file: Text  # relative to the folder of documents, with `/` on every system
    start_line: StrictInt
    end_line: StrictInt

    def __post_init__(self) -> None:
        """Refuse what is no span with ValueError."""
        _ = self.span

    @property
    def span(self) -> Span:
        """The lines."""
        return Span(self.start_line, self.end_line)


@dataclass(frozen=True)
class Question:
    """A line of a file of questions; the keys of its JSON are the fields."""

    id: Text
    question: Text
    gold: tuple[Gold, ...]  # empty: the documents hold no answer, and the best thing to find is nothing
    kind: Text = "all"


@dataclass(frozen=True)
class QuestionSet:
    """The questions of a file."""

    name: str
    questions: tuple[Question, ...]  # in the order of the file; every id once


def read_questions(path: Path) -> QuestionSet:
    """Read lines of `{"id", "question", "kind", "gold": [{"file", "start_line", "end_line"}]}`; `kind` may be missing.

    Raises:
        UsageError: the file cannot be read, or holds none; or names every line that is malformed or repeats an id.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    adapter = TypeAdapter(Question)
    questions: dict[str, Question] = {}
    mistakes = []
    for number, text in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            question = adapter.validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            mistakes.append(f"{path}:{number}: {f'{where}: ' if where else ''}{first['msg']}")
            continue
        if question.id in questions:
            mistakes.append(f"{path}:{number}: the id {question.id!r} stands in a line above already")
        questions[question.id] = question
    if mistakes:
        raise UsageError("\n".join(mistakes))
    if not questions:
        raise UsageError(f'{path}: holds no question; a line is {{"id": "1", "question": "...", "gold": [...]}}')
    return QuestionSet(path.stem, tuple(questions.values()))


def find_right(nodes: Iterable[Node], gold: Sequence[Gold]) -> set[str]:
    """Return the sections whose own lines overlap one of the gold spans, by their node ids."""
    return {
        node.id
        for node in nodes
        for lines in gold
        if lines.file == node.path and node.span and node.span.overlap(lines.span)
    }


# What a ranking is worth

# Measures by name, for one question.
Values: TypeAlias = dict[str, float]

CUTS = (1, 5, 10, 30)


def measure_ranking(ranking: Sequence[str], right: Collection[str]) -> Values:
    """Return all measures of a ranking, best first, each name once; none where nothing is right."""
    if not right:
        return {}
    hits = [name in right for name in ranking]
    gain = sum(1 / log2(rank + 1) for rank, hit in enumerate(hits[:10], start=1) if hit)
    ideal = sum(1 / log2(rank + 1) for rank in range(1, min(10, len(right)) + 1))
    return {
        **{f"hit@{k}": float(any(hits[:k])) for k in CUTS},
        **{f"recall@{k}": sum(hits[:k]) / len(right) for k in CUTS[1:]},
        "MRR@10": 1 / (hits.index(True) + 1) if any(hits[:10]) else 0.0,
        "nDCG@10": gain / ideal,
    }


DEVIATIONS = 1.96  # of a normal distribution, that hold 95 %


@dataclass(frozen=True)
class Estimate:
    """A mean, and how sure it is."""

    mean: float
    low: float  # the lower end of the 95 % interval
    high: float  # its upper end
    questions: int  # how many there were, at least 1


@dataclass(frozen=True)
class MeanDifference(Estimate):
    """A measure of one system minus another's, question by question."""

    wins: int  # questions where the first one is better
    losses: int
    ties: int


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of the values and its interval, by the normal approximation; no end is beyond their range."""
    mean = fmean(values)
    margin = DEVIATIONS * pstdev(values) / sqrt(len(values))
    return Estimate(mean, max(mean - margin, min(values)), min(mean + margin, max(values)), len(values))


def difference(first: Sequence[float], second: Sequence[float]) -> MeanDifference:
    """Return the paired difference and its interval."""
    values = [one - other for one, other in zip(first, second, strict=True)]
    wins, losses = sum(value > 0 for value in values), sum(value < 0 for value in values)
    return MeanDifference(**vars(estimate(values)), wins=wins, losses=losses, ties=values.count(0.0))


# The systems that are asked.

DEPTH = 30  # sections that are asked for: the largest k of any measure
# What an answer says of these is a remark: all stages ran. What else it names did not run, or failed.
REMARK_STAGES = frozenset({StageName.EMBED, StageName.QUESTION, StageName.REFRESH})
HEADLINES = ("nDCG@10", "hit@1", "hit@5", "hit@10", "hit@30", "MRR@10")
COMPARED = HEADLINES[:3]  # by these, systems are compared with one another


@dataclass(frozen=True)
class System:
    """A profile, with settings over it, under a name."""

    name: str
    profile: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # nested, as in a profile file


@dataclass(frozen=True)
class Outcome:
    """The answer of a system to one question."""

    question: Question
    values: Values  # empty where the documents hold no answer
    abstained: bool  # whether it said that the documents hold no answer
    milliseconds: float  # from the question to the answer, models and index open
    # Stages that failed: what was found then says nothing of the ranking, and is not measured.
    failures: tuple[str, ...] = ()


def ask_all(
    system: System,
    questions: Sequence[Question],
    docs: Sequence[str] = (),
    index: str | None = None,
    expansions: Mapping[str, Expansion] = {},
    progress: Progress = NO_PROGRESS,
) -> "SystemSummary":
    """Ask one system all questions, and measure its answers.

    Args:
        system: to ask.
        questions: at least one.
        docs: folders that are indexed first, only what changed, by the settings of the system; empty for those of
            `index`.
        index: as for `open_retriever`.
        expansions: what a language model wrote for a question, by its id; without them nothing is expanded.
        progress: told how far it is.

    Raises:
        RetrieverError: as `Retriever.search`; UsageError where a question is not of these documents.
    """
    settings = merge(system.settings, {"top_k": DEPTH})
    with open_retriever(docs, index, system.profile, settings, progress) as retriever:
        nodes = retriever.nodes()
        # Gold lines that touch no section would count as never found.
        strange = [(item.id, gold) for item in questions for gold in item.gold if not find_right(nodes, [gold])]
        if strange:
            says = [f"question {name}: {gold.file}:{gold.span} is not in the index" for name, gold in strange]
            hint = "the documents changed since the questions were written, or are other ones"
            raise UsageError("\n".join(says), hint=hint)
        retriever.search(questions[0].question)  # before the clock runs: the first one opens the model and the index
        progress.start(system.name, len(questions), "questions")
        outcomes = []
        for number, question in enumerate(questions, start=1):
            begun = time.perf_counter()
            answer = retriever.search(AskRequest(question.question, expansion=expansions.get(question.id)))
            outcome = Outcome(
                question,
                milliseconds=milliseconds_since(begun),
                values=measure_ranking([hit.node_id for hit in answer.hits], find_right(nodes, question.gold)),
                abstained=answer.verdict == "none",
                failures=tuple(str(item) for item in answer.degraded if item.stage not in REMARK_STAGES),
            )
            outcomes.append(outcome)
            progress.advance(system.name, number)
        progress.finish(system.name)
    return summarize(system, outcomes)


# What systems found becomes one table.


@dataclass(frozen=True)
class SystemSummary:
    """The measures of a system."""

    system: str
    profile: str
    settings: Mapping[str, object]
    per_question: Mapping[str, Values]  # of the answerable ones that were answered without a failure, by their ids
    overall: Mapping[str, Estimate]  # measures by name
    by_kind: Mapping[str, Mapping[str, Estimate]]
    failures: Mapping[str, int]  # sentences on stages that failed, with the number of questions: they are in no measure
    p50_ms: float
    p95_ms: float
    # The share of the unanswerable questions for which nothing was claimed; None without such questions.
    abstention: float | None
    false_abstention: float | None  # the same of the answerable ones, where it is wrong


@dataclass(frozen=True)
class Comparison:
    """Two systems by one measure, over the questions that both answered without a failure."""

    first: str
    second: str
    measure: str
    difference: MeanDifference


@dataclass(frozen=True)
class Summary:
    """The measures of some systems, and how these compare."""

    questions: QuestionSet
    systems: tuple[SystemSummary, ...]
    comparisons: tuple[Comparison, ...]  # of each pair, the later one with the earlier one


def summarize(system: System, outcomes: Sequence[Outcome]) -> SystemSummary:
    """Return all measures of one system; a question with a failed stage is in none of them.

    >>> with_gold, without = Question("1", "how?", (Gold("a.md", 1, 2),)), Question("2", "why?", ())
    >>> failed = Outcome(with_gold, {}, True, 3.0, ("semantic: the model cannot be loaded",))
    >>> others = Outcome(with_gold, {}, False, 1.0), Outcome(without, {}, True, 2.0)
    >>> found = summarize(System("mine", "balanced"), [*others, failed])
    >>> found.abstention, found.false_abstention, found.p50_ms, found.p95_ms
    (1.0, 0.0, 2.0, 2.9)
    """
    whole = [item for item in outcomes if not item.failures]
    answerable = [item for item in whole if item.question.gold]
    without = [item for item in whole if not item.question.gold]
    kinds = dict.fromkeys(item.question.kind for item in answerable)
    p50, p95 = np.percentile([item.milliseconds for item in outcomes], [50, 95]).tolist()
    return SystemSummary(
        system=system.name,
        profile=system.profile,
        settings=system.settings,
        per_question={item.question.id: item.values for item in answerable},
        overall=estimate_measures([item.values for item in answerable]),
        by_kind={
            kind: estimate_measures([item.values for item in answerable if item.question.kind == kind])
            for kind in kinds
        },
        failures=Counter(sentence for item in outcomes for sentence in item.failures),
        p50_ms=p50,
        p95_ms=p95,
        abstention=fmean(item.abstained for item in without) if without else None,
        false_abstention=fmean(item.abstained for item in answerable) if answerable else None,
    )


def estimate_measures(values: Sequence[Values]) -> dict[str, Estimate]:
    """Return the mean of each measure over some questions; nothing without questions."""
    return {name: estimate([measures[name] for measures in values]) for name in (values[0] if values else ())}


def compare(questions: QuestionSet, systems: Sequence[SystemSummary]) -> Summary:
    """Compare every pair of systems by each of the compared measures."""
    comparisons = []
    for before, after in combinations(systems, 2):
        shared = sorted(before.per_question.keys() & after.per_question.keys())
        for name in COMPARED if shared else ():
            values = ([system.per_question[key][name] for key in shared] for system in (after, before))
            comparisons.append(Comparison(after.system, before.system, name, difference(*values)))
    return Summary(questions, tuple(systems), tuple(comparisons))
