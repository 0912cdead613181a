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


# What is right for a question: sections whose own lines overlap the gold, and files that hold it. Pure.

MAX_NAMED = 20

# Names of nodes, or of files: what is not in it is wrong.
Judgements: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class Section:
    """A section that can be found: a node with lines of its own."""

    node_id: str
    file: str  # relative to its folder
    span: Span


class Sections:
    def __init__(self, sections: Iterable[Section]) -> None:
        self._by_file: dict[str, list[Section]] = defaultdict(list)
        for section in sections:
            self._by_file[section.file].append(section)

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> "Sections":
        return cls(Section(node.id, node.path, node.span) for node in nodes if node.span)

    def __contains__(self, file: str) -> bool:
        return file in self._by_file

    def touched(self, gold: Gold) -> Sequence[Section]:
        """Return the sections whose own lines overlap the gold."""
        return [section for section in self._by_file.get(gold.file, []) if section.span.overlap(gold.span)]


def find_right_sections(question: Question, sections: Sections) -> Judgements:
    """Return the node ids of the sections that answer the question."""
    return frozenset(section.node_id for gold in question.gold for section in sections.touched(gold))


def find_excluded_sections(question: Question, sections: Sections) -> frozenset[str]:
    """Return the sections that are left out of what was found; a right one never is."""
    taken = frozenset(section.node_id for lines in question.excluded for section in sections.touched(lines))
    return taken - find_right_sections(question, sections)


def check_gold(questions: Sequence[Question], sections: Sections) -> None:
    """Raise UsageError for gold spans that touch no section: each would count as never found."""
    lost = [
        f"question {question.id}: {gold.file}:{gold.span} is not in the index"
        for question in questions
        for gold in question.gold
        if not sections.touched(gold)
    ]
    if lost:
        more = [f"and {len(lost) - MAX_NAMED:,} more"] if len(lost) > MAX_NAMED else []
        hint = "the documents changed since the questions were written, or are other ones"
        raise UsageError("\n".join([*lost[:MAX_NAMED], *more, hint]))
