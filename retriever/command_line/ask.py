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
from retriever.command_line.opening import chosen_opener, resident_option, start_resident
from retriever.display.editors import choose_template
from retriever.errors import QuestionError
from retriever.timing import Spent, milliseconds_since

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
@click.option("--explain", is_flag=True, help="Show every stage with its time, and what each arm found.")
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
    from retriever.command_line.progress import shown_progress

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
        from retriever.command_line.context_page import show_context

        show_context(found, request, notes, spent)
    else:
        _show(answer, request, notes, spent)
    if request.resident == "auto":
        start_resident()
    return ExitCode.NO_ANSWER if request.fail_on_none and answer.verdict == "none" else ExitCode.OK


def _show(answer: "Answer", request: Request, notes: "Notes", spent: Spent) -> None:
    from retriever.command_line.remarks import make_remarks

    if request.as_json:
        from retriever.command_line.as_json import write_json
        from retriever.display.json import answer_object

        write_json(
            answer_object(
                answer, spent, full=request.full, explain=request.explain, hypothetical=request.show_hypothetical
            )
        )
    else:
        from retriever.command_line.page import Page
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
