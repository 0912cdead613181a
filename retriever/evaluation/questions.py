"""What is asked, and what answers it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pageindex.node import Node, Span
from retriever.errors import UsageError

# The kind of questions of which no kind is known.
NO_KIND = "all"


@dataclass(frozen=True, slots=True)
class Gold:
    """Lines that answer a question, each on its own."""

    file: str  # relative to the folder of documents, with `/` on every system
    span: Span


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    text: str
    kind: str = NO_KIND
    gold: tuple[Gold, ...] = ()  # empty: the documents hold no answer, and the best thing to find is nothing
    # Lines that the question was taken from: their sections are left out of what was found.
    excluded: tuple[Gold, ...] = ()

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


# What is right for a question: sections whose own lines overlap the gold.

MAX_NAMED = 20  # gold spans that touch no section

# Node ids; what is not in it is wrong.
Judgements: TypeAlias = frozenset[str]


class Sections:
    """The sections that can be found: nodes with lines of their own, as (node id, file, span)."""

    def __init__(self, sections: Iterable[tuple[str, str, Span]]) -> None:
        self._by_file: dict[str, list[tuple[str, Span]]] = defaultdict(list)
        for node_id, file, span in sections:
            self._by_file[file].append((node_id, span))

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> "Sections":
        return cls((node.id, node.path, node.span) for node in nodes if node.span)

    def at(self, gold: Iterable[Gold]) -> Judgements:
        """Return the node ids of the sections whose own lines overlap one of the gold spans."""
        found = ((node_id, span.overlap(lines.span)) for lines in gold for node_id, span in self._by_file[lines.file])
        return frozenset(node_id for node_id, is_at in found if is_at)


def find_right_sections(question: Question, sections: Sections) -> Judgements:
    """Return the node ids of the sections that answer the question."""
    return sections.at(question.gold)


def find_excluded_sections(question: Question, sections: Sections) -> frozenset[str]:
    """Return the sections that are left out of what was found; a right one never is."""
    return sections.at(question.excluded) - sections.at(question.gold)


def check_gold(questions: Sequence[Question], sections: Sections) -> None:
    """Raise UsageError for gold spans that touch no section: each would count as never found."""
    lost = [
        f"question {question.id}: {gold.file}:{gold.span} is not in the index"
        for question in questions
        for gold in question.gold
        if not sections.at([gold])
    ]
    if lost:
        more = [f"and {len(lost) - MAX_NAMED:,} more"] if len(lost) > MAX_NAMED else []
        hint = "the documents changed since the questions were written, or are other ones"
        raise UsageError("\n".join([*lost[:MAX_NAMED], *more, hint]))
