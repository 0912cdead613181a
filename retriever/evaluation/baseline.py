"""Today's values against those of an earlier day, question by question."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retriever.errors import UsageError
from retriever.evaluation.mistakes import json_object, read_text
from retriever.evaluation.questions import QuestionSet
from retriever.evaluation.statistics import Difference, difference
from retriever.evaluation.summary import COMPARED, Summary

FORMAT = 1
"""Rises when the file changes."""


@dataclass(frozen=True, slots=True)
class Change:
    """One measure of one system, today against the baseline, over the questions of both."""

    system: str
    measure: str
    before: float
    after: float
    difference: Difference

    @property
    def is_fall(self) -> bool:
        """Whether it fell, significantly."""
        return self.difference.mean < 0 and self.difference.is_significant


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of everything that the baseline holds."""

    changes: tuple[Change, ...]
    problems: tuple[str, ...]
    """What keeps the two from being compared in full; each is as bad as a fall."""

    @property
    def is_worse(self) -> bool:
        """Whether something fell significantly, or could not be compared."""
        return bool(self.problems) or any(change.is_fall for change in self.changes)


def baseline_text(summary: Summary) -> str:
    """The file of a baseline: the compared measures of every question, with the text that was asked."""
    kept = summary.headlines[:COMPARED]
    content = {
        "format": FORMAT,
        "questions": {item.id: item.text for item in summary.questions.questions if item.is_answerable},
        "systems": {
            system.system: {
                key: {name: round(values[name], 6) for name in kept} for key, values in system.per_question.items()
            }
            for system in summary.systems
        },
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read_baseline(path: Path) -> Mapping[str, Any]:
    """A baseline.

    Raises:
        UsageError: it is none.
    """
    try:
        content = json_object(read_text(path))
        if content.get("format") != FORMAT:
            raise ValueError(f"its format is {content.get('format')!r}, not {FORMAT}")
        _check(content)
    except ValueError as error:
        raise UsageError(f"{path}: no baseline that can be read: {error}; write one with --save-baseline") from error
    return content


def _check(content: Mapping[str, Any]) -> None:
    systems = content.get("systems")
    if not isinstance(systems, dict) or not isinstance(content.get("questions"), dict):
        raise ValueError("questions and systems must be objects")
    for values in systems.values():
        numbers = [number for measures in values.values() for number in measures.values()]
        if not all(isinstance(number, int | float) for number in numbers):
            raise ValueError("a measure is no number")


def against(summary: Summary, baseline: Mapping[str, Any]) -> Verdict:
    """Every system of the baseline against the one of that name today."""
    today = {system.system: system for system in summary.systems}
    problems = list(_changed_questions(summary.questions, baseline["questions"]))
    changes: list[Change] = []
    for name, values in baseline["systems"].items():
        if name not in today:
            problems.append(f"{name}: is in the baseline, and was not measured")
            continue
        if today[name].failed:
            problems.append(f"{name}: {today[name].failed} questions met a stage that failed")
        changes += _changes(name, values, today[name].per_question)
    return Verdict(tuple(changes), tuple(problems))


def _changed_questions(questions: QuestionSet, known: Mapping[str, str]) -> Iterator[str]:
    texts = {item.id: item.text for item in questions.questions if item.is_answerable}
    for key in sorted({*texts, *known}):
        if key not in texts or key not in known:
            yield f"question {key}: is in {'the baseline' if key in known else 'the questions'} alone"
        elif texts[key] != known[key]:
            yield f"question {key}: has another text than in the baseline"


def _changes(
    system: str, before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]]
) -> Iterator[Change]:
    shared = [key for key in before if key in after]
    for name in dict.fromkeys(name for key in shared for name in before[key] if name in after[key]):
        old = [before[key][name] for key in shared]
        new = [round(after[key][name], 6) for key in shared]
        yield Change(system, name, sum(old) / len(old), sum(new) / len(new), difference(new, old))
