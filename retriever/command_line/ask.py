"""`ask`: a question, answered with sections; the default command."""

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line.default_command import refuse_misplaced_command
from retriever.command_line.exit_codes import EXIT_CODES_HELP, ExitCode
from retriever.command_line.help_pages import WithExamples
from retriever.command_line.timing import Spent, milliseconds_since
from retriever.errors import QuestionError

if TYPE_CHECKING:
    from retriever.command_line.notes import Notes
    from retriever.types import Answer


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
    as_json: bool
    batch: str | None
    run: str | None
    fail_on_none: bool

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
@click.option("--explain", is_flag=True, help="Show every stage with its time, and what each arm found.")
@options.json_option
@click.option(
    "--batch", metavar="FILE", help="Answer every question of a JSONL file (id, question); - reads them here."
)
@click.option("--run", metavar="FILE", help="Where --batch writes its hits, as JSONL; standard output by default.")
@click.option("--fail-on-none", is_flag=True, help="Exit with 3 when the verdict is none: no section answers.")
@options.voice_options
def ask(**given: Any) -> ExitCode:  # noqa: ANN401 - one value for each of the profile's settings, whatever they are
    """Answer QUESTION with the sections of the indexed documents that hold the answer, each cited as file:first-last.

    Words without quotes are one question. A question that is the name of a command needs `ask` before it.
    """
    notes = options.taken_notes(given)
    request = Request(settings=options.taken_settings(given), **given)
    _check(request)
    if request.batch is not None:
        from retriever.command_line.batch import answer_batch

        return answer_batch(request, notes)
    return _answer(request, notes)


def _check(request: Request) -> None:
    """Refuses what cannot be meant, before anything is opened.

    Raises:
        click.UsageError: options that exclude each other, or a command's name where a question stands.
        QuestionError: there is no question.
    """
    refuse_misplaced_command(request.words)
    if request.batch is None and request.run is not None:
        raise click.UsageError("--run goes with --batch: name the file of questions as well")
    if request.batch is None and not request.question.strip():
        raise QuestionError('the question is empty: write it in quotes, as in: hybrid_retrieve.py "how do I ...?"')
    for_one = {
        "the question": request.words,
        "--json": request.as_json,
        "--full": request.full,
        "--explain": request.explain,
    }
    excluded = [name for name, given in for_one.items() if given]
    if request.batch is not None and excluded:
        raise click.UsageError(f"--batch answers the questions of its file; leave out {', '.join(excluded)}")


def _answer(request: Request, notes: "Notes") -> ExitCode:
    begun = time.perf_counter()  # loading the modules is a part of what the user waits for
    from retriever.command_line.progress import shown_progress
    from retriever.library import open_retriever

    with (
        shown_progress(notes) as progress,
        open_retriever(request.docs, request.index, request.profile, request.settings, progress) as retriever,
    ):
        opening = milliseconds_since(begun)
        answer = retriever.search(request.question)
        spent = Spent(opening, milliseconds_since(begun))
    _show(answer, request, notes, spent)
    return ExitCode.NO_ANSWER if request.fail_on_none and answer.verdict == "none" else ExitCode.OK


def _show(answer: "Answer", request: Request, notes: "Notes", spent: Spent) -> None:
    from retriever.command_line.remarks import make_remarks

    if request.as_json:
        from retriever.command_line.as_json import answer_object, write_json

        write_json(answer_object(answer, spent, full=request.full, explain=request.explain))
    else:
        from retriever.command_line.page import Page
        from retriever.command_line.render import show_answer

        page = Page.on(sys.stdout)
        show_answer(page, answer, full=request.full)
        if request.explain:
            from retriever.command_line.explain import show_explanation

            show_explanation(page, answer, spent)
    sys.stdout.flush()  # results before remarks, where both streams go to one place
    make_remarks(answer, notes, spent, index=request.index, footer=not request.as_json)
