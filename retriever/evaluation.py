"""Questions with known answers -> how well a profile finds them: which sections are right, what a ranking is worth.

Every question goes through the real retriever, timed. Means come with intervals, overall and by kind of question; every
pair of systems is compared.

The measures are those of trec_eval. `hit@k` is 1 when something right is among the first k; `recall@k` the share of all
that is right which is. `MRR@10` is 1 / the rank of the first right one, 0 below 10. `nDCG@10` compares with the ideal
list, which begins with all that is right in the whole index.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import log2, sqrt
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import StrictInt, StringConstraints, TypeAdapter, ValidationError

from pageindex.node import Node, Span
from retriever.api import open_retriever
from retriever.errors import UsageError
from retriever.query import AskRequest, Expansion
from retriever.settings import merge
from retriever.trace import NoProgress
from retriever.types import Progress, StageName

MAX_NAMED = 20  # mistakes that are named one by one

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

    @property
    def is_answerable(self) -> bool:
        """Whether the documents hold an answer."""
        return bool(self.gold)


@dataclass(frozen=True)
class QuestionSet:
    """The questions of a file."""

    name: str
    questions: tuple[Question, ...]  # in the order of the file; every id once

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of the answerable questions, in the order in which they first come."""
        return tuple(dict.fromkeys(question.kind for question in self.questions if question.is_answerable))


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
    refuse(mistakes)
    if not questions:
        raise UsageError(f'{path}: holds no question; a line is {{"id": "1", "question": "...", "gold": [...]}}')
    return QuestionSet(path.stem, tuple(questions.values()))


def refuse(mistakes: Sequence[str], hint: str = "") -> None:
    """Raise UsageError with the mistakes, a line each, where there are any."""
    if mistakes:
        more = [f"and {len(mistakes) - MAX_NAMED:,} more"] if len(mistakes) > MAX_NAMED else []
        raise UsageError("\n".join([*mistakes[:MAX_NAMED], *more]), hint=hint)


# Node ids of the sections that answer a question; what is not in it is wrong.
Judgements: TypeAlias = frozenset[str]


class Sections:
    """The sections that can be found: nodes with lines of their own."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._by_file: dict[str, list[tuple[str, Span]]] = defaultdict(list)
        for node in nodes:
            if node.span:
                self._by_file[node.path].append((node.id, node.span))

    def find_right(self, gold: Iterable[Gold]) -> Judgements:
        """Return the sections whose own lines overlap one of the gold spans."""
        found = ((node_id, span.overlap(lines.span)) for lines in gold for node_id, span in self._by_file[lines.file])
        return frozenset(node_id for node_id, lines in found if lines)

    def check(self, questions: Iterable[Question]) -> None:
        """Raise UsageError for gold spans that touch no section: each would count as never found."""
        refuse(
            [
                f"question {question.id}: {gold.file}:{gold.span} is not in the index"
                for question in questions
                for gold in question.gold
                if not self.find_right([gold])
            ],
            "the documents changed since the questions were written, or are other ones",
        )


# What a ranking is worth

# Measures by name, for one question.
Values: TypeAlias = dict[str, float]

CUTS = (1, 5, 10, 30)


def measure_ranking(ranking: Sequence[str], right: Judgements) -> Values:
    """Return all measures of a ranking, best first, each name once; at least one name is right."""
    hits = [name in right for name in ranking]
    gain = sum(1 / log2(rank + 1) for rank, hit in enumerate(hits[:10], start=1) if hit)
    ideal = sum(1 / log2(rank + 1) for rank in range(1, min(10, len(right)) + 1))
    first = next((rank for rank, hit in enumerate(hits[:10], start=1) if hit), None)
    return {
        **{f"hit@{k}": float(any(hits[:k])) for k in CUTS},
        **{f"recall@{k}": sum(hits[:k]) / len(right) for k in CUTS[1:]},
        "MRR@10": 1 / first if first else 0.0,
        "nDCG@10": gain / ideal,
    }


DEVIATIONS = 1.96  # of a normal distribution, that hold 95 %
EQUAL = 1e-12  # sums of the same numbers in another order differ by less

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean, and how sure it is."""

    mean: float
    low: float  # the lower end of the 95 % interval
    high: float  # its upper end
    questions: int  # how many there were, at least 1


@dataclass(frozen=True)
class MeanDifference:
    """A measure of one system against another's, question by question."""

    mean: float  # the first one's mean minus the second one's
    low: float
    high: float  # the ends of the 95 % interval of that
    wins: int  # questions where the first one is better
    losses: int
    ties: int


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of the values and its interval."""
    array = np.asarray(values, np.float64)
    low, high = find_interval(array)
    return Estimate(float(array.mean()), low, high, len(array))


def difference(first: Sequence[float], second: Sequence[float]) -> MeanDifference:
    """Return the paired difference and its interval."""
    array = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    array[np.abs(array) < EQUAL] = 0.0
    low, high = find_interval(array)
    wins, losses = int((array > 0).sum()), int((array < 0).sum())
    return MeanDifference(float(array.mean()), low, high, wins, losses, len(array) - wins - losses)


def find_interval(array: FloatArray) -> tuple[float, float]:
    """Return the 95 % interval of the mean of some values, by the normal approximation; none is beyond their range."""
    margin = DEVIATIONS * float(array.std()) / sqrt(len(array))
    low, high = np.clip(array.mean() + np.array([-margin, margin]), array.min(), array.max())
    return float(low), float(high)


# The systems that are asked.

DEPTH = 30  # sections that are asked for: the largest k of any measure
# What an answer says of these is a remark: all stages ran. What else it names did not run, or failed.
REMARK_STAGES = frozenset({StageName.EMBED, StageName.QUESTION, StageName.REFRESH})
HEADLINES = ("nDCG@10", "hit@1", "hit@5", "hit@10", "hit@30", "MRR@10")
COMPARED = HEADLINES[:3]  # by these, systems are compared with one another

# The measures of every answerable question that was answered without a failure, by its id.
PerQuestion: TypeAlias = Mapping[str, Values]


@dataclass(frozen=True)
class System:
    """A profile, with settings over it, under a name."""

    name: str
    profile: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # nested, as in a profile file


@dataclass(frozen=True)
class EvaluationInput:
    """The documents and what is asked of them."""

    questions: QuestionSet
    # Folders that are indexed first, only what changed, by the settings of each system; empty for those of `index`.
    docs: Sequence[str] = ()
    index: str | None = None  # as for `open_retriever`
    expansions: Mapping[str, Expansion] = field(default_factory=dict)  # by question id; empty: nothing is expanded


@dataclass(frozen=True)
class Outcome:
    """The answer of a system to one question."""

    found: tuple[str, ...]  # node ids, best first, each once
    abstained: bool  # whether it said that the documents hold no answer
    milliseconds: float  # from the question to the answer, models and index open
    # Stages that failed: what was found then says nothing of the ranking, and is not measured.
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """The answers of a system to all questions."""

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


@dataclass(frozen=True)
class SystemSummary:
    """The measures of a run."""

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
