"""Read files of questions and expansions, one JSON object a line.

Every reader reports all that is wrong with a file at once, each mistake with its line.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from pageindex.corpus import read_file
from pageindex.node import Span
from retriever.errors import UsageError
from retriever.evaluation.questions import NO_KIND, Gold, Question, QuestionSet
from retriever.query import Expansion

MAX_BYTES = 1_000_000_000  # ten times the largest public collections of questions
MAX_NAMED = 20  # mistakes that are named one by one

Value = TypeVar("Value")


@dataclass(slots=True)
class Mistakes:
    """Collected while a file is read; the end of the block names them all, as UsageError."""

    found: list[str] = field(default_factory=list)  # `file:line: what is wrong`, or `file: ...`

    def note(self, place: str, what: str) -> None:
        self.found.append(f"{place}: {what}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.found and kind is None:
            more = [f"and {len(self.found) - MAX_NAMED:,} mistakes more"] if len(self.found) > MAX_NAMED else []
            raise UsageError("\n".join([*self.found[:MAX_NAMED], *more]))


def read_text(path: Path) -> str:
    """Return a file in UTF-8, without a byte order mark. Raises UsageError when it cannot be read, or is not UTF-8."""
    try:
        return read_file(path, MAX_BYTES, follow_link=True).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def read_lines(path: Path, parse: Callable[[str], Value], mistakes: Mistakes) -> Iterator[tuple[str, Value]]:
    """Yield (`file:line`, value) of each line that is not blank; what `parse` raises as ValueError is noted."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            value = parse(line)
        except ValueError as error:
            mistakes.note(place, str(error))
        else:
            yield place, value


def map_ids(items: Iterable[tuple[str, tuple[Any, Value]]], mistakes: Mistakes) -> dict[Any, Value]:
    """Return the values of (place, (id, value)) by id; an id that stands twice is noted."""
    values: dict[Any, Value] = {}
    places: dict[Any, str] = {}
    for place, (key, value) in items:
        if key in values:
            mistakes.note(place, f"the id {key!r} stands in line {places[key].rpartition(':')[2]} already")
        else:
            values[key], places[key] = value, place
    return values


def json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def text_in(item: dict[str, Any], key: str, default: str | None = None) -> str:
    """Return a text that is not blank; where the key is missing, the default, if there is one. Else ValueError."""
    if default is not None and key not in item:
        return default
    value = item.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} must be a text that is not empty")
    return value


def id_in(item: dict[str, Any], key: str = "id") -> str:
    """Return an id; whole numbers become texts. Raises ValueError when it is neither a text nor a whole number."""
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ValueError(f"{key} must be a text or a whole number")
    return str(value)


def texts_in(item: dict[str, Any], key: str) -> tuple[str, ...]:
    """Return a list of texts, none blank; empty when the key is missing. Raises ValueError otherwise."""
    value = item.get(key, [])
    if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
        raise ValueError(f"{key} must be a list of texts that are not empty")
    return tuple(value)


def read_questions(path: Path) -> QuestionSet:
    """Read lines of `{"id", "question", "kind", "gold": [{"file", "start_line", "end_line"}], "exclude": [...]}`.

    `kind` and `exclude` may be missing; an empty `gold` is a question without an answer; lines are 1-based, inclusive.
    """

    def parse_gold(item: dict[str, Any], key: str) -> Iterator[Gold]:
        listed = item.get(key, [])
        if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
            raise ValueError(f'{key} must be a list of {{"file", "start_line", "end_line"}}')
        for entry in listed:
            first, last = entry.get("start_line"), entry.get("end_line")
            if not all(isinstance(line, int) and not isinstance(line, bool) for line in (first, last)):
                raise ValueError("start_line and end_line must be whole numbers")
            yield Gold(text_in(entry, "file"), Span(entry["start_line"], entry["end_line"]))

    def parse(line: str) -> tuple[str, Question]:
        item = json_object(line)
        if "gold" not in item:
            raise ValueError("gold is missing; [] stands for a question that the documents do not answer")
        question = Question(
            id=id_in(item),
            text=text_in(item, "question"),
            kind=text_in(item, "kind", NO_KIND),
            gold=tuple(parse_gold(item, "gold")),
            excluded=tuple(parse_gold(item, "exclude")),
        )
        return question.id, question

    with Mistakes() as mistakes:
        questions = map_ids(read_lines(path, parse, mistakes), mistakes)
        if not questions and not mistakes.found:
            mistakes.note(str(path), 'holds no question; a line is {"id": "1", "question": "...", "gold": [...]}')
    return QuestionSet(path.stem, tuple(questions.values()))


def read_expansions(path: Path) -> dict[str, Expansion]:
    """Read lines of `{"id", "queries", "hyde", "hyde_answer", "intent", "entities"}`, all but the id optional."""

    def parse(line: str) -> tuple[str, Expansion]:
        item = json_object(line)
        expansion = Expansion(
            rewordings=texts_in(item, "queries"),
            passages=texts_in(item, "hyde"),
            answer=text_in(item, "hyde_answer", ""),
            intent=text_in(item, "intent", ""),
            entities=texts_in(item, "entities"),
        )
        return id_in(item), expansion

    with Mistakes() as mistakes:
        return map_ids(read_lines(path, parse, mistakes), mistakes)


def check_expansions(expansions: dict[str, Expansion], questions: QuestionSet, path: Path) -> None:
    """Refuse expansions of some questions only: a mean over both kinds of question says nothing."""
    missing = [question.id for question in questions.questions if question.id not in expansions]
    if missing:
        raise UsageError(f"{path}: holds no expansion of {len(missing):,} questions: {', '.join(missing[:5])} ...")
