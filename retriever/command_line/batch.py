"""`ask --batch`: many questions in one process, each answered as one line of JSON."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pageindex.regular_file import read_file
from retriever.command_line.as_json import json_line
from retriever.command_line.exit_codes import ExitCode
from retriever.display.phrases import counted
from retriever.errors import RetrieverError, UsageError

if TYPE_CHECKING:
    from retriever.command_line.ask import Request
    from retriever.command_line.notes import Notes
    from retriever.types import Answer

STANDARD_STREAM = "-"
MAX_BATCH_BYTES = 1_000_000_000
MAX_NAMED = 20
"""How many malformed lines are named one by one."""


@dataclass(frozen=True, slots=True)
class Question:
    """One line of a batch."""

    id: str | int
    """As it was given; it comes back with the hits."""
    text: str


def answer_batch(request: "Request", notes: "Notes") -> ExitCode:
    """Answers every question of `request.batch` into `request.run`, in their order.

    Raises:
        UsageError: with every malformed line of the batch, before anything is opened.
    """
    from retriever.command_line.progress import shown_progress
    from retriever.library import open_retriever

    source, target = request.batch or STANDARD_STREAM, request.run or STANDARD_STREAM
    questions = read_questions(_content(source), "standard input" if source == STANDARD_STREAM else source)
    unanswered, degraded = 0, dict[str, int]()
    with (
        written_whole(target) as out,
        shown_progress(notes) as progress,
        open_retriever(request.docs, request.index, request.profile, request.settings, progress) as retriever,
    ):
        if progress is not None:
            progress.start("answering", len(questions), "questions")
        for number, question in enumerate(questions, start=1):
            answer = retriever.search(question.text)
            out.write(f"{json_line(run_object(question, answer))}\n")
            unanswered += answer.verdict == "none"
            for sentence in answer.degraded:
                degraded[sentence] = degraded.get(sentence, 0) + 1
            if progress is not None:
                progress.advance("answering", number)
        if progress is not None:
            progress.finish("answering")
    for sentence, times in degraded.items():
        notes.say(f"note: {sentence} ({counted(times, 'question')})")
    notes.say(f"asked {counted(len(questions), 'question')}; no section answers {unanswered:,} of them")
    return ExitCode.NO_ANSWER if request.fail_on_none and unanswered else ExitCode.OK


def run_object(question: Question, answer: "Answer") -> dict[str, Any]:
    """One line of a run: the question's id, the verdict, and its hits, best first."""
    from retriever.display.json import FoundJson

    hits = [FoundJson.dump(hit) for hit in answer.hits]
    return {"id": question.id, "verdict": answer.verdict, "confidence": answer.confidence, "hits": hits}


def read_questions(content: bytes, name: str) -> list[Question]:
    """The questions of a JSONL file; blank lines between them are allowed.

    Args:
        content: the file, in UTF-8.
        name: what to call it in messages.

    Raises:
        UsageError: with every malformed line, or no question at all.
    """
    questions: list[Question] = []
    mistakes: list[str] = []
    lines_of_ids: dict[str | int, int] = {}
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            question = _question(line)
            if question.id in lines_of_ids:
                raise ValueError(f"the id {question.id!r} stands in line {lines_of_ids[question.id]} already")
        except ValueError as error:
            mistakes.append(f"{name}:{number}: {error}")
            continue
        lines_of_ids[question.id] = number
        questions.append(question)
    if mistakes:
        more = [f"and {len(mistakes) - MAX_NAMED:,} lines more"] if len(mistakes) > MAX_NAMED else []
        raise UsageError("\n".join([*mistakes[:MAX_NAMED], *more]))
    if not questions:
        raise UsageError(f'{name}: holds no question; a line is {{"id": "1", "question": "..."}}')
    return questions


def _question(line: bytes) -> Question:
    """One line.

    Raises:
        ValueError: what is wrong with it.
    """
    try:
        item = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(item, dict):
        raise ValueError("not an object with id and question")
    if isinstance(item.get("id"), bool) or not isinstance(item.get("id"), str | int):
        raise ValueError("id must be a string or a whole number")
    if not isinstance(item.get("question"), str) or not item["question"].strip():
        raise ValueError("question must be a text that is not empty")
    return Question(item["id"], item["question"])


def _content(source: str) -> bytes:
    try:
        return (
            sys.stdin.buffer.read()
            if source == STANDARD_STREAM
            else read_file(source, MAX_BATCH_BYTES, follow_link=True)
        )
    except OSError as error:
        raise UsageError(f"--batch: {source}: cannot be read: {error.strerror}") from error


@contextmanager
def written_whole(target: str) -> Iterator[IO[str]]:
    """A file that appears under its name when all of it is written, and not at all when that fails.

    Standard output (`-`) and what is no regular file (a pipe, /dev/null) are written as the text comes.

    Raises:
        RetrieverError: it cannot be written.
    """
    if target == STANDARD_STREAM:
        yield sys.stdout
        return
    path = Path(target).resolve()  # through a link: what is replaced is the file, not the link
    is_special = path.exists() and not path.is_file()
    partial = path if is_special else path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w" if is_special else "x", encoding="utf-8", newline="\n") as out:
            yield out
        if not is_special:
            partial.replace(path)
    except OSError as error:
        raise RetrieverError(f"{target}: cannot be written: {error.strerror}") from error
    finally:
        if not is_special:
            partial.unlink(missing_ok=True)
