"""`ask --batch`: many questions in one process, each answered as one line of JSON."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retriever.command_line.console import STANDARD_STREAM, Console, format_json, write_whole
from retriever.command_line.opening import Opening, open_one_or_several
from retriever.command_line.options import ExitCode
from retriever.display.json import dump
from retriever.display.phrases import pluralize
from retriever.errors import QuestionError, ScopeError, UsageError
from retriever.evaluation.question_files import QuestionLine, read_bytes, read_lines
from retriever.evaluation.runs import FoundSection
from retriever.query import AskRequest, Scope

if TYPE_CHECKING:
    from retriever.retriever import Retriever
    from retriever.several import SeveralRetrievers


def answer_batch(
    source: str, target: str, opening: Opening, console: Console, scope: Scope, *, fail_on_none: bool
) -> ExitCode:
    """Answer every question of the file `source` into the file `target`, in their order; `-` for the streams."""
    is_stream = source == STANDARD_STREAM
    content = sys.stdin.buffer.read() if is_stream else read_bytes(Path(source))
    # All lines are read before the first is asked: a mistake in the last one is said at once.
    name = "standard input" if is_stream else source
    questions = read_lines(content, name, QuestionLine)
    if not questions:
        raise UsageError(f'{name}: holds no question; a line is {{"id": "1", "question": "..."}}')
    unanswered, failed, degraded = 0, 0, dict[str, int]()
    opened = open_one_or_several(opening, console)
    with write_whole(target) as out, opened as retriever, console.show_progress() as progress:
        if progress is not None:
            progress.start("answering", len(questions), "questions")
        for number, question in enumerate(questions, start=1):
            line, sentences = answer_line(retriever, question, scope)
            out.write(f"{format_json(line)}\n")
            unanswered += line["verdict"] == "none"
            failed += "error" in line
            for sentence in sentences:
                degraded[sentence] = degraded.get(sentence, 0) + 1
            if progress is not None:
                progress.advance("answering", number)
        if progress is not None:
            progress.finish("answering")
    # Each reason once: of a thousand questions all may have met the same one.
    for sentence, times in degraded.items():
        console.note(f"note: {sentence} ({pluralize(times, 'question')})")
    asked = (
        f"asked {pluralize(len(questions) - failed, 'question')}; no section answers {unanswered - failed:,} of them"
    )
    console.note(f"{asked}{f'; {failed:,} could not be asked' if failed else ''}")
    if failed == len(questions):
        raise UsageError(f"--batch: {source}: none of the questions can be asked: {next(iter(degraded))}")
    return ExitCode.NO_ANSWER if fail_on_none and unanswered else ExitCode.OK


def answer_line(
    retriever: "Retriever | SeveralRetrievers", question: QuestionLine, scope: Scope
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the line of a run for a question, and what was degraded or wrong with it."""
    line: dict[str, Any] = {"id": question.id}
    try:
        answer = retriever.search(AskRequest(question.question, scope=scope))
    except QuestionError as error:  # in one question, which then has no answer; the others have theirs
        if isinstance(error, ScopeError) and error.term not in question.question:
            raise  # it is in an option
        return line | {"verdict": "none", "confidence": 0.0, "hits": [], "error": str(error)}, (str(error),)
    hits = [
        dump(FoundSection(hit.node_id, hit.cited_as or hit.file, hit.span, hit.score), "tokens")
        | ({"index": hit.index} if hit.index else {})
        for hit in answer.hits
    ]
    line |= {"verdict": answer.verdict, "confidence": answer.confidence, "hits": hits}
    return line, tuple(map(str, answer.degraded))
