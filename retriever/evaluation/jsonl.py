"""Our own files: questions with gold lines, and recorded expansions; one JSON object a line."""

from pathlib import Path
from typing import Any

from pageindex.node import Span
from retriever.errors import UsageError
from retriever.evaluation.mistakes import Mistakes, id_in, json_object, read_lines, text_in, texts_in
from retriever.evaluation.questions import NO_KIND, Gold, Question, QuestionSet
from retriever.query import Expansion


def read_questions(path: Path) -> QuestionSet:
    """Lines of `{"id", "question", "kind", "gold": [{"file", "start_line", "end_line"}], "exclude": [...]}`.

    `kind` and `exclude` may be missing; an empty `gold` is a question without an answer; lines are 1-based, inclusive.

    Raises:
        UsageError: with every malformed line.
    """
    mistakes = Mistakes()
    questions = read_lines(path, _question, mistakes)
    places: dict[str, str] = {}
    for place, question in questions:
        if places.setdefault(question.id, place) != place:
            mistakes.note(place, f"the id {question.id!r} stands in line {places[question.id].rpartition(':')[2]} too")
    if not questions and not mistakes.found:
        mistakes.note(str(path), 'holds no question; a line is {"id": "1", "question": "...", "gold": [...]}')
    mistakes.raise_any()
    return QuestionSet(path.stem, tuple(question for _, question in questions), has_lines=True)


def _question(line: str) -> Question:
    item = json_object(line)
    if "gold" not in item:
        raise ValueError("gold is missing; [] stands for a question that the documents do not answer")
    kind = text_in(item, "kind") if "kind" in item else NO_KIND
    return Question(
        id_in(item), text_in(item, "question"), kind, _lines(item, "gold"), _lines(item, "exclude", optional=True)
    )


def _lines(item: dict[str, Any], key: str, *, optional: bool = False) -> tuple[Gold, ...]:
    listed = item.get(key, []) if optional else item[key]
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise ValueError(f'{key} must be a list of {{"file", "start_line", "end_line"}}')
    return tuple(_gold(entry) for entry in listed)


def _gold(entry: dict[str, Any]) -> Gold:
    first, last = entry.get("start_line"), entry.get("end_line")
    if not all(isinstance(line, int) and not isinstance(line, bool) for line in (first, last)):
        raise ValueError("start_line and end_line must be whole numbers")
    return Gold(text_in(entry, "file"), Span(entry["start_line"], entry["end_line"]))


def read_expansions(path: Path) -> dict[str, Expansion]:
    """Lines of `{"id", "queries", "hyde", "hyde_answer", "intent", "entities"}`: what a model made of a question.

    All but the id may be missing.

    Raises:
        UsageError: with every malformed line.
    """
    mistakes = Mistakes()
    expansions: dict[str, Expansion] = {}
    for place, (key, expansion) in read_lines(path, _expansion, mistakes):
        if key in expansions:
            mistakes.note(place, f"the id {key!r} stands in an earlier line too")
        expansions[key] = expansion
    mistakes.raise_any()
    return expansions


def _expansion(line: str) -> tuple[str, Expansion]:
    item = json_object(line)
    expansion = Expansion(
        rewordings=texts_in(item, "queries"),
        passages=texts_in(item, "hyde"),
        answer=text_in(item, "hyde_answer") if "hyde_answer" in item else "",
        intent=text_in(item, "intent") if "intent" in item else "",
        entities=texts_in(item, "entities"),
    )
    return id_in(item), expansion


def check_expansions(expansions: dict[str, Expansion], questions: QuestionSet, path: Path) -> None:
    """Every question has its expansion: a mean over some that have one and some that have none says nothing.

    Raises:
        UsageError: with every question that has none.
    """
    missing = [question.id for question in questions.questions if question.id not in expansions]
    if missing:
        raise UsageError(f"{path}: holds no expansion of {len(missing):,} questions: {', '.join(missing[:5])} ...")
