"""TREC files: judgements (`query 0 document gain`) and runs (`query Q0 document rank score tag`)."""

from pathlib import Path

from retriever.evaluation.mistakes import Mistakes, lines_of, read_lines
from retriever.evaluation.questions import Gold, Question, QuestionSet


def is_qrels(path: Path) -> bool:
    """Whether the first line of the file has the four columns of judgements, the last one a whole number."""
    return _has_columns(path, 4)


def is_run(path: Path) -> bool:
    """Whether the first line of the file has the six columns of a run."""
    return _has_columns(path, 6)


def _has_columns(path: Path, count: int) -> bool:
    _, first = next(lines_of(path), ("", ""))
    return not first.lstrip().startswith("{") and len(first.split()) == count


def whole_number(text: str) -> int:
    """A gain.

    Raises:
        ValueError: it is no whole number.
    """
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"not a whole number: {text.strip()!r}") from None


def read_qrels(path: Path) -> QuestionSet:
    """The judged questions, their ids as their texts: judgements alone do not say what was asked.

    Raises:
        UsageError: with every malformed line.
    """
    mistakes = Mistakes()
    gold: dict[str, dict[str, int]] = {}
    for place, (query, document, gain) in read_lines(path, _judgement, mistakes):
        if document in gold.setdefault(query, {}):
            mistakes.note(place, f"judges {document!r} for {query!r} a second time")
        gold[query][document] = gain
    mistakes.raise_any()
    questions = tuple(
        Question(query, query, gold=tuple(Gold(name, gain=gain) for name, gain in judged.items() if gain > 0))
        for query, judged in gold.items()
    )
    return QuestionSet(path.stem, questions, has_lines=False)


def _judgement(line: str) -> tuple[str, str, int]:
    parts = line.split()
    if len(parts) != 4:
        raise ValueError(f"not `query 0 document gain` but {len(parts)} columns")
    return parts[0], parts[2], whole_number(parts[3])


def read_run(path: Path) -> dict[str, list[str]]:
    """The documents of each question, best first: by falling score, ties in the order of the file.

    Raises:
        UsageError: with every malformed line.
    """
    mistakes = Mistakes()
    scores: dict[str, dict[str, float]] = {}
    for place, (query, document, score) in read_lines(path, _scored, mistakes):
        if document in scores.setdefault(query, {}):
            mistakes.note(place, f"ranks {document!r} for {query!r} a second time")
        scores[query][document] = score
    mistakes.raise_any()
    return {query: sorted(found, key=lambda name: -found[name]) for query, found in scores.items()}


def _scored(line: str) -> tuple[str, str, float]:
    parts = line.split()
    if len(parts) != 6:
        raise ValueError(f"not `query Q0 document rank score tag` but {len(parts)} columns")
    try:
        score = float(parts[4])
    except ValueError:
        raise ValueError(f"the score is no number: {parts[4]!r}") from None
    if score != score:
        raise ValueError("the score is not a number")
    return parts[0], parts[2], score
