"""Files of questions, which lines answer each, and which sections are therefore right."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

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
    adapter = TypeAdapter(Question)
    questions: dict[str, Question] = {}
    mistakes = []
    for number, text in enumerate(read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
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


def read_bytes(path: Path) -> bytes:
    """Return a file's content; UsageError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


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
