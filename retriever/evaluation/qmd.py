"""Fixtures of qmd's bench: one JSON object with `queries`, each with the files that should be found."""

from pathlib import Path
from typing import Any

from retriever.evaluation.mistakes import Mistakes, id_in, json_object, read_text, text_in, texts_in
from retriever.evaluation.questions import NO_KIND, Gold, Question, QuestionSet


def is_fixture(text: str) -> bool:
    """Whether a file of that content is one: an object with a list of `queries`."""
    try:
        return isinstance(json_object(text).get("queries"), list)
    except ValueError:
        return False


def read_questions(path: Path) -> QuestionSet:
    """The queries; `type` is the kind, and `expected_in_top_k` is not read: every measure has its own k.

    Raises:
        UsageError: with every malformed query.
    """
    mistakes = Mistakes()
    questions: dict[str, Question] = {}
    for number, item in enumerate(json_object(read_text(path))["queries"], start=1):
        try:
            question = _question(item)
        except ValueError as error:
            mistakes.note(f"{path}: query {number}", str(error))
            continue
        if question.id in questions:
            mistakes.note(f"{path}: query {number}", f"the id {question.id!r} stands before it too")
        questions[question.id] = question
    mistakes.raise_any()
    return QuestionSet(path.stem, tuple(questions.values()), has_lines=False)


def _question(item: Any) -> Question:  # noqa: ANN401 - what JSON holds
    if not isinstance(item, dict):
        raise ValueError("not an object")
    if "expected_files" not in item:
        raise ValueError("expected_files is missing")
    files = tuple(Gold(_relative(name)) for name in dict.fromkeys(texts_in(item, "expected_files")))
    kind = text_in(item, "type") if "type" in item else NO_KIND
    return Question(id_in(item), text_in(item, "query"), kind, files)


def _relative(name: str) -> str:
    """`qmd://collection/docs/a.md` -> `docs/a.md`."""
    if name.startswith("qmd://"):
        name = name.removeprefix("qmd://").partition("/")[2]
    return name.strip("/")
