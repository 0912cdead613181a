"""`ask`: a question, answered with sections; the default command."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from pageindex.files import read_file
from retriever.command_line import options
from retriever.command_line.console import json_line, write_line
from retriever.command_line.options import EXIT_CODES_HELP, Command, ExitCode, WithExamples, refuse_misplaced_command
from retriever.command_line.render import make_remarks
from retriever.display.editors import choose_template
from retriever.display.phrases import counted
from retriever.errors import QuestionError, RetrieverError, UsageError
from retriever.serving.resident_client import MODE_VARIABLE
from retriever.trace import Spent, milliseconds_since

if TYPE_CHECKING:
    from retriever.command_line.console import Notes
    from retriever.context.gather import AnswerInContext
    from retriever.retriever import Retriever
    from retriever.types import Answer


# How `ask` comes to an open retriever: it opens one, or it runs in a process that has one open.

Opener = Callable[..., AbstractContextManager["Retriever"]]
"""Takes the first five arguments of `open_retriever`."""


def chosen_opener() -> Opener:
    """That of the process where it has one, else `open_retriever`."""
    given: Any = click.get_current_context().obj
    if given is not None:
        opener: Opener = given
        return opener
    from retriever.api import open_retriever

    return open_retriever


def start_resident() -> None:
    """Starts a resident process for the questions to come, unless this command line runs in one."""
    if click.get_current_context().obj is None:
        from retriever.command_line.resident import start_in_background

        start_in_background()


def resident_option(command: Command) -> Command:
    """--resident. The process that asks has looked at it already, before it loaded what reads options."""
    return click.option(
        "--resident",
        type=click.Choice(["use", "auto", "never"]),
        default="use",
        show_default=True,
        envvar=MODE_VARIABLE,
        help="Let the resident process of `serve` answer: use it where it runs, start it in the background where it "
        f"does not (auto), or answer here (never). Otherwise {MODE_VARIABLE}.",
    )(command)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, and how it is to be shown."""

    words: tuple[str, ...]
    """The question's arguments."""
    docs: tuple[str, ...]
    index: str | None
    profile: str
    settings: dict[str, Any]
    """Nested, those alone that were given as flags."""
    full: bool
    explain: bool
    context: bool
    as_json: bool
    batch: str | None
    run: str | None
    fail_on_none: bool
    editor: str
    """What citations open on a terminal: see `choose_template`."""
    resident: str
    """Whether a resident process may answer (use), answers and is started for it (auto), or is left alone (never)."""
    recent_context: str
    focus: tuple[str, ...]
    show_hypothetical: bool

    @property
    def question(self) -> str:
        """The arguments as one text: quotes may be left out."""
        return " ".join(self.words)


class AskCommand(WithExamples):
    """Says what to do about a question that looks like a flag."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's.

        Raises:
            click.UsageError: an argument is no option; a question that begins with a dash comes after `--`.
        """
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = "A question that begins with a dash comes after --."
            raise click.UsageError(f"{error.format_message()} {hint}", ctx) from error


@click.command(
    examples=(
        '--docs docs "how are the two rankings fused?"',
        '"send an email after the response" --top-k 3 --full',
        'ask --json --profile recall "ownership rules"',
        '--context --max-tokens 2000 "how are the two rankings fused?"',
        "--batch questions.jsonl --run hits.jsonl --top-k 30",
    ),
    cls=AskCommand,
    params=options.setting_parameters(),
    epilog=EXIT_CODES_HELP,
    short_help="Answer a question with sections (the default command).",
)
@click.argument("words", nargs=-1, metavar="QUESTION")
@options.docs_option
@options.index_option
@options.profile_option
@click.option("--full", is_flag=True, help="Show each section's text (final_text_chars of it), not only a snippet.")
@click.option("--explain", is_flag=True, help="Show every stage with its time, and what each source found.")
@click.option("--context", is_flag=True, help="Print the sections as Markdown for a prompt, within --max-tokens.")
@options.json_option
@click.option(
    "--batch", metavar="FILE", help="Answer every question of a JSONL file (id, question); - reads them here."
)
@click.option("--run", metavar="FILE", help="Where --batch writes its hits, as JSONL; standard output by default.")
@click.option(
    "--recent-context", default="", metavar="TEXT", help="The conversation so far, for the language model to read."
)
@click.option(
    "--focus", multiple=True, metavar="TEXT", help="A kind of thing for the language model to write about. Repeatable."
)
@click.option(
    "--show-hypothetical", is_flag=True, help="Show the passages that the language model made up to search with."
)
@click.option("--fail-on-none", is_flag=True, help="Exit with 3 when the verdict is none: no section answers.")
@options.editor_option
@resident_option
@options.voice_options
def ask(**given: Any) -> ExitCode:  # noqa: ANN401 - one value for each of the profile's settings, whatever they are
    """Answer QUESTION with the sections of the indexed documents that hold the answer, each cited as file:first-last.

    Words without quotes are one question. A question that is the name of a command needs `ask` before it.
    """
    notes = options.taken_notes(given)
    request = Request(settings=options.taken_settings(given), **given)
    _check(request)
    if request.batch is not None:
        return answer_batch(request, notes)
    return _answer(request, notes)


def _check(request: Request) -> None:
    """Refuses what cannot be meant, before anything is opened.

    Raises:
        click.UsageError: options that exclude each other, or a command's name where a question stands.
        QuestionError: there is no question.
    """
    refuse_misplaced_command(request.words)
    choose_template(request.editor, {})  # a mistake in it is named now, not behind the answer
    if request.batch is None and request.run is not None:
        raise click.UsageError("--run goes with --batch: name the file of questions as well")
    if request.batch is None and not request.question.strip():
        raise QuestionError('the question is empty: write it in quotes, as in: hybrid_retrieve.py "how do I ...?"')
    for_one = {
        "the question": request.words,
        "--json": request.as_json,
        "--full": request.full,
        "--explain": request.explain,
        "--context": request.context,
    }
    excluded = [name for name, given in for_one.items() if given]
    if request.batch is not None and excluded:
        raise click.UsageError(f"--batch answers the questions of its file; leave out {', '.join(excluded)}")
    if request.context and (request.full or request.explain):
        raise click.UsageError("--context has the texts already, and no stages; leave out --full and --explain")


def _answer(request: Request, notes: "Notes") -> ExitCode:
    begun = time.perf_counter()  # loading the modules is a part of what the user waits for
    from retriever.command_line.console import shown_progress

    with (
        shown_progress(notes) as progress,
        chosen_opener()(request.docs, request.index, request.profile, request.settings, progress) as retriever,
    ):
        opening = milliseconds_since(begun)
        grounding: dict[str, Any] = {"recent_context": request.recent_context, "focus": request.focus}
        found = retriever.context(request.question, **grounding) if request.context else None
        answer = found.answer if found else retriever.search(request.question, **grounding)
        spent = Spent(opening, milliseconds_since(begun))
    if found:
        show_context(found, request, notes, spent)
    else:
        _show(answer, request, notes, spent)
    if request.resident == "auto":
        start_resident()
    return ExitCode.NO_ANSWER if request.fail_on_none and answer.verdict == "none" else ExitCode.OK


def _show(answer: "Answer", request: Request, notes: "Notes", spent: Spent) -> None:
    from retriever.command_line.render import make_remarks

    if request.as_json:
        from retriever.command_line.console import write_json
        from retriever.display.json import answer_object

        write_json(
            answer_object(
                answer, spent, full=request.full, explain=request.explain, hypothetical=request.show_hypothetical
            )
        )
    else:
        from retriever.command_line.console import Page
        from retriever.command_line.render import show_answer

        page = Page.on(sys.stdout, request.editor)
        show_answer(page, answer, full=request.full)
        if request.explain:
            from retriever.command_line.explain import show_explanation

            show_explanation(page, answer, spent)
        if request.show_hypothetical:
            from retriever.command_line.explain import show_hypothetical

            show_hypothetical(page, answer)
    sys.stdout.flush()  # results before remarks, where both streams go to one place
    make_remarks(answer, notes, spent, index=request.index, footer=not request.as_json)


# `ask --batch`: many questions in one process, each answered as one line of JSON.

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
    from retriever.api import open_retriever
    from retriever.command_line.console import shown_progress

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
            for sentence in map(str, answer.degraded):
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


# `ask --context`: the sections as context for a prompt, on standard output alone.


def show_context(found: "AnswerInContext", request: "Request", notes: "Notes", spent: "Spent") -> None:
    """The page, or with --json its parts; what is to be known of the answer goes to standard error."""
    if request.as_json:
        from retriever.command_line.console import write_json
        from retriever.display.json import ContextJson, timings

        write_json(ContextJson.dump(found) | {"timings_ms": timings(found.answer, spent)})
    else:
        write_line(sys.stdout, found.context.markdown.rstrip("\n"))
    sys.stdout.flush()
    make_remarks(found.answer, notes, spent, index=request.index, footer=not request.as_json)
    if found.context.left_out and not request.as_json:
        left_out = counted(len(found.context.left_out), "hit")
        notes.say(f"{left_out} not quoted, for the limit of {found.context.max_tokens:,} tokens (--max-tokens)")
