"""Read files of questions and expansions, one JSON object a line; all malformed lines are reported at once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, StrictInt, StringConstraints, ValidationError, model_validator

from pageindex.corpus import read_file
from pageindex.node import Span
from retriever.errors import UsageError
from retriever.evaluation.questions import NO_KIND, Gold, Question, QuestionSet
from retriever.query import Expansion

MAX_BYTES = 1_000_000_000  # ten times the largest public collections of questions
MAX_NAMED = 20  # mistakes that are named one by one

Text = Annotated[str, StringConstraints(pattern=r"\S")]


class Line(BaseModel):
    """What every line has."""

    id: Text | StrictInt


class GoldLines(BaseModel):
    """Lines of a document, 1-based and inclusive."""

    file: Text
    start_line: StrictInt
    end_line: StrictInt

    @model_validator(mode="after")
    def _check(self) -> "GoldLines":
        self.gold()
        return self

    def gold(self) -> Gold:
        """Return them as the measures have them; ValueError where they are no span."""
        return Gold(self.file, Span(self.start_line, self.end_line))


class QuestionLine(Line):
    """A question with the lines that answer it; none where the documents hold no answer."""

    question: Text
    kind: Text = NO_KIND
    gold: list[GoldLines]
    exclude: list[GoldLines] = []


class ExpansionLine(Line):
    """What a language model wrote for the question of this id."""

    queries: list[Text] = []
    hyde: list[Text] = []
    intent: str = ""


AnyLine = TypeVar("AnyLine", bound=Line)


def read_lines(path: Path, kind: type[AnyLine]) -> list[AnyLine]:
    """Return the lines of a file of JSON lines in UTF-8, blank ones left out.

    Raises:
        UsageError: the file cannot be read; or names every line that is malformed or repeats an id.
    """
    lines: dict[str | int, AnyLine] = {}
    places: dict[str | int, int] = {}
    mistakes = []
    for number, text in enumerate(read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            line = kind.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            mistakes.append(f"{path}:{number}: {f'{where}: ' if where else ''}{first['msg']}")
            continue
        if line.id in lines:
            mistakes.append(f"{path}:{number}: the id {line.id!r} stands in line {places[line.id]} already")
        lines[line.id], places[line.id] = line, number
    if mistakes:
        more = [f"and {len(mistakes) - MAX_NAMED:,} mistakes more"] if len(mistakes) > MAX_NAMED else []
        raise UsageError("\n".join([*mistakes[:MAX_NAMED], *more]))
    return list(lines.values())


def read_bytes(path: Path) -> bytes:
    """Return a file's content; UsageError where it cannot be read."""
    try:
        return read_file(path, MAX_BYTES, follow_link=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def read_questions(path: Path) -> QuestionSet:
    """Read lines of `{"id", "question", "kind", "gold": [{"file", "start_line", "end_line"}], "exclude": [...]}`.

    `kind` and `exclude` may be missing; an empty `gold` is a question without an answer; lines are 1-based, inclusive.
    """
    lines = read_lines(path, QuestionLine)
    if not lines:
        raise UsageError(f'{path}: holds no question; a line is {{"id": "1", "question": "...", "gold": [...]}}')
    questions = (
        Question(
            id=str(line.id),
            text=line.question,
            kind=line.kind,
            gold=tuple(item.gold() for item in line.gold),
            excluded=tuple(item.gold() for item in line.exclude),
        )
        for line in lines
    )
    return QuestionSet(path.stem, tuple(questions))


def read_expansions(path: Path, questions: Sequence[Question]) -> dict[str, Expansion]:
    """Read lines of `{"id", "queries", "hyde", "intent"}`, all but the id optional.

    Raises:
        UsageError: a line is malformed, or a question has none: a mean over both kinds of question says nothing.
    """
    expansions = {
        str(line.id): Expansion(
            rewordings=tuple(line.queries),
            passages=tuple(line.hyde),
            intent=line.intent,
        )
        for line in read_lines(path, ExpansionLine)
    }
    missing = [question.id for question in questions if question.id not in expansions]
    if missing:
        raise UsageError(f"{path}: holds no expansion of {len(missing):,} questions: {', '.join(missing[:5])} ...")
    return expansions
