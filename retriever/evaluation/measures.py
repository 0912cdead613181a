"""Questions with known answers, which sections are right, what a ranking is worth, and how sure a mean of it is.

The measures are those of trec_eval. `hit@k` is 1 when something right is among the first k; `recall@k` the share of all
that is right which is. `MRR@10` is 1 / the rank of the first right one, 0 below 10. `nDCG@10` compares with the ideal
list, which begins with all that is right in the whole index.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log2, sqrt
from pathlib import Path
from typing import Annotated, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import StrictInt, StringConstraints, TypeAdapter, ValidationError

from pageindex.node import Node, Span
from retriever.errors import UsageError

MAX_NAMED = 20  # mistakes that are named one by one

Text = Annotated[str, StringConstraints(pattern=r"\S")]


@dataclass(frozen=True, slots=True)
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
        return Span(self.start_line, self.end_line)


@dataclass(frozen=True, slots=True)
class Question:
    """A line of a file of questions; the keys of its JSON are the fields."""

    id: Text
    question: Text
    gold: tuple[Gold, ...]  # empty: the documents hold no answer, and the best thing to find is nothing
    kind: Text = "all"

    @property
    def is_answerable(self) -> bool:
        return bool(self.gold)


@dataclass(frozen=True, slots=True)
class QuestionSet:
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


PERMUTATIONS = 10_000
DEVIATIONS = 1.96  # of a normal distribution, that hold 95 %
SIGNIFICANT = 0.05  # a p-value below it is called significant
SEED = 20_240_601  # any number, but always the same, so that the same values give the same p
EQUAL = 1e-12  # sums of the same numbers in another order differ by less

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    mean: float
    low: float  # the lower end of the 95 % interval
    high: float  # its upper end
    questions: int  # how many there were, at least 1


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """A measure of one system against another's, question by question."""

    mean: float  # the first one's mean minus the second one's
    low: float
    high: float  # the ends of the 95 % interval of that
    p: float  # how often chance alone makes as large a difference, in either direction; above 0, at most 1
    wins: int  # questions where the first one is better
    losses: int
    ties: int

    @property
    def is_significant(self) -> bool:
        """Return whether chance makes it in fewer than 5 of 100 cases; for one comparison, not the best of many."""
        return self.p < SIGNIFICANT


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of the values and its interval."""
    array = np.asarray(values, np.float64)
    low, high = find_interval(array)
    return Estimate(float(array.mean()), low, high, len(array))


def difference(first: Sequence[float], second: Sequence[float]) -> MeanDifference:
    """Return the paired difference, its interval, and the p-value of Fisher's randomisation test."""
    # Under the null hypothesis the two systems are one, so that the sign of each question's difference is a coin's.
    # Smucker, Allan and Carterette, "A Comparison of Statistical Significance Tests for Information Retrieval
    # Evaluation", CIKM 2007. Two-sided, over 10,000 random assignments of signs, the observed one counted among them.
    array = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    array[np.abs(array) < EQUAL] = 0.0
    low, high = find_interval(array)
    extreme = int(np.count_nonzero(np.abs(draw_signs(len(array)) @ array) >= abs(array.sum()) - EQUAL))
    wins, losses = int((array > 0).sum()), int((array < 0).sum())
    p = (1 + extreme) / (1 + PERMUTATIONS)
    return MeanDifference(float(array.mean()), low, high, p, wins, losses, len(array) - wins - losses)


def find_interval(array: FloatArray) -> tuple[float, float]:
    """Return the 95 % interval of the mean of some values, by the normal approximation; none is beyond their range."""
    margin = DEVIATIONS * float(array.std()) / sqrt(len(array))
    low, high = np.clip(array.mean() + np.array([-margin, margin]), array.min(), array.max())
    return float(low), float(high)


@lru_cache(maxsize=8)
def draw_signs(count: int) -> FloatArray:
    generator = np.random.default_rng(SEED)
    return generator.choice(np.array([-1.0, 1.0]), (PERMUTATIONS, count))
