"""`ask`: a question, answered with sections; the default command."""

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from click.core import ParameterSource

from retriever.command_line import options, suggest_command
from retriever.command_line.console import STANDARD_STREAM, Console, print_line
from retriever.command_line.opening import Opening, can_ask, confirm, open_one_or_several
from retriever.command_line.options import ExitCode
from retriever.command_line.output import Form, Output, note_state, print_answer, print_context
from retriever.display.editors import choose_template
from retriever.display.phrases import format_refresh_command, pluralize
from retriever.errors import CommandHint, RetrieverError, UsageError
from retriever.invocation import name_program
from retriever.query import AskRequest, Scope
from retriever.trace import Spent
from retriever.types import Answer

if TYPE_CHECKING:
    from retriever.context.gather import AnswerInContext
    from retriever.retriever import Retriever
    from retriever.serving.client import ServerClient
    from retriever.several import SeveralRetrievers


@options.command(
    '--docs docs "how are the two rankings fused?"',
    '"where do the weights come from?" --top-k 3 --full',
    'ask --json --profile recall "a budget of time"',
    '--context --max-tokens 2000 "what is a snapshot?"',
    settings=(),
    rare=(
        "since",
        "until",
        "where",
        "context_tokens",
        "batch",
        "run",
        "conversation",
        "focus",
        "show_hypothetical",
        "fail_on_none",
        "editor",
        "server",
        "token_file",
        "documents.ignore",
    ),
    epilog=options.EXIT_CODES_HELP,
)
@options.question
@options.docs
@options.indexes
@options.everywhere
@options.profile
@options.scope
@click.option("--full", is_flag=True, help="Show each section's text (final_text_chars of it), not only a snippet.")
@click.option("--explain", is_flag=True, help="Show every stage with its time, and what each source found.")
@click.option("--context", is_flag=True, help="Print the sections as Markdown for a prompt, within --max-tokens.")
@options.no_llm
@options.as_json
@click.option(
    "--batch", metavar="FILE", help="Answer every question of a JSONL file (id, question); - reads them here."
)
@click.option("--run", metavar="FILE", help="Where --batch writes its hits, as JSONL; standard output by default.")
@options.conversation
@click.option(
    "--focus", multiple=True, metavar="TEXT", help="A kind of thing for the language model to write about. Repeatable."
)
@click.option(
    "--show-hypothetical", is_flag=True, help="Show the passages that the language model made up to search with."
)
@click.option("--fail-on-none", is_flag=True, help="Exit with 3 when the verdict is none: no section answers.")
@options.editor
@click.option(
    "--server",
    default="",
    envvar="HYBRID_RETRIEVE_SERVER",
    metavar="URL",
    help="Ask the index of a running `serve --web`, such as http://127.0.0.1:8470. Otherwise HYBRID_RETRIEVE_SERVER.",
)
@click.option(
    "--token-file",
    default="",
    envvar="HYBRID_RETRIEVE_TOKEN_FILE",
    metavar="FILE",
    help="Holds the token that this server wants. Otherwise HYBRID_RETRIEVE_TOKEN_FILE.",
)
def ask(
    console: Console,
    scope: Scope,
    opening: Opening,
    words: tuple[str, ...],
    batch: str | None,
    run: str | None,
    conversation: tuple[str, ...],
    focus: tuple[str, ...],
    editor: str,
    server: str,
    token_file: str,
    *,
    full: bool,
    explain: bool,
    context: bool,
    as_json: bool,
    show_hypothetical: bool,
    fail_on_none: bool,
) -> ExitCode:
    """Answer QUESTION with the sections of the indexed documents that hold the answer, each cited as file:first-last.

    Words without quotes are one question. A question that is the name of a command needs `ask` before it.

    A question may say where to look: in:FOLDER, tag:TAG, since:DAY, until:DAY, where:KEY=VALUE,
    "a phrase" (word for word), -"word" (not with it).
    """
    options.refuse_misplaced_command(words)
    confirm_question(words, console)
    choose_template(editor, {})  # a mistake in it is named now, not behind the answer
    given = {"the question": words, "--json": as_json, "--full": full, "--explain": explain, "--context": context}
    if batch is not None:
        refuse("--batch answers the questions of its file", given | {"--server": server})
        from retriever.command_line.batch import answer_batch

        return answer_batch(batch, run or STANDARD_STREAM, opening, console, scope, fail_on_none=fail_on_none)
    if run is not None:
        raise click.UsageError("--run goes with --batch: name the file of questions as well")
    request = AskRequest(options.join_question(words, '"how do I ...?"'), conversation, scope, focus=focus)
    if context:
        refuse("--context has the texts already, and no stages", {"--full": full, "--explain": explain})
    form = Form(Output.of(as_json=as_json, context=context), editor, full, explain, show_hypothetical, console.verbose)
    client = reach_server(server, token_file, opening, request, full=full) if server else None
    printer = Printer(request, form, console, opening.index)
    # Programs, and what stands behind a pipe, get one answer: with --docs of everything, else of what there is.
    is_person = form.output is Output.TEXT and not (opening.several or client) and sys.stdout.isatty()
    try:
        with open_asked(opening, console, client, printer.answer_early if is_person else None) as retriever:
            found = retriever.context(request) if form.output.is_context else retriever.search(request)
            answer = printer.show(found)
            if is_person:
                answer = printer.embed_rest(cast("Retriever", retriever), answer)
    except KeyboardInterrupt:
        # Who stops the embedding has an answer by words already, and loses nothing.
        if printer.early is None:
            raise
        console.note("stopped; the next question, or `index`, goes on from here")
        answer = printer.early
    except RetrieverError:
        note_command(words, None, console)
        raise
    if not (is_person or client):
        printer.note_pending(answer)
    note_command(words, answer, console)
    return ExitCode.NO_ANSWER if fail_on_none and answer.verdict == "none" else ExitCode.OK


def refuse(reason: str, given: Mapping[str, object]) -> None:
    """Raise UsageError where one of these options is given."""
    if excluded := ", ".join(name for name, value in given.items() if value):
        raise click.UsageError(f"{reason}; leave out {excluded}")


def reach_server(server: str, token_file: str, opening: Opening, request: AskRequest, *, full: bool) -> "ServerClient":
    """Return what asks a running `serve`; UsageError with everything that only an index opened here can answer."""
    from retriever.serving.client import ServerClient, read_token

    own = {
        "--docs": opening.docs,
        "--index and --all": opening.index or opening.several,
        "--focus": request.focus,
        "the settings": opening.settings,
    }
    refuse("the server of --server has its index and its settings", own)
    is_given = click.get_current_context().get_parameter_source("profile") is not ParameterSource.DEFAULT
    token = read_token(Path(token_file).expanduser()) if token_file else ""
    return ServerClient(server, token, opening.profile if is_given else "", full=full)


def open_asked(
    opening: Opening,
    console: Console,
    client: "ServerClient | None",
    on_words: "Callable[[Retriever], Sequence[str]] | None",
) -> "AbstractContextManager[Retriever | SeveralRetrievers | ServerClient]":
    """Return what is asked: the client of a server, or an index opened here, or several."""
    if client is not None:
        return nullcontext(client)
    return opening.open(console, on_words) if on_words else open_one_or_several(opening, console)


def confirm_question(words: Sequence[str], console: Console) -> None:
    """Ask whether a word like a command's, with paths behind it, is a question; UsageError where it is none."""
    suggestion = find_command(words)
    if suggestion is None or not words[1:]:
        return
    question, says = " ".join(words), f"did you mean `{suggestion[0]}`?"
    if can_ask(console) and confirm(f"{words[0]} is no command; {says} Search for {question!r} all the same?"):
        return
    search = CommandHint(shlex.join(["ask", question]), "To search for these words, run")
    raise UsageError(f"{words[0]} is no command", hint=f"{says} {search.render()}")


def find_command(words: Sequence[str]) -> tuple[str, bool] | None:
    """Return the command that a question without a command's name may have been meant as; see `suggest_command`."""
    is_implied = click.get_current_context().meta.get(options.COMMAND_IMPLIED)
    if not is_implied or not words or not words[0].isalpha() or not all(map(os.path.exists, words[1:])):
        return None
    return suggest_command(words[0], with_paths=len(words) > 1)


def note_command(words: Sequence[str], answer: Answer | None, console: Console) -> None:
    """Say which command the question may have been meant as.

    Nothing is said where the documents have a word that is only like a command. Without an answer it is said, too:
    where nothing is indexed, a slip in `index` is the likeliest of all.
    """
    suggestion = find_command(words)
    known = {word.casefold() for hit in answer.hits for word in hit.words} if answer else set()
    if suggestion and (suggestion[1] or words[0].casefold() not in known):
        name, program = suggestion[0], name_program()
        kind = "" if name.startswith("-") else "the command "
        how = name if name.startswith("-") or " " in name else f"{name} --help"
        console.note(f"did you mean {kind}`{name}`? it was asked as a question; for the command: {program} {how}")


@dataclass(slots=True)
class Printer:
    """Prints the answers to one question, which has two while the first index of its documents is made."""

    request: AskRequest
    form: Form
    console: Console
    index: str | None
    begun: float = field(default_factory=time.perf_counter)  # loading modules is a part of what the user waits for
    early: Answer | None = None  # the one that was given before everything was embedded

    def show(self, found: "Answer | AnswerInContext") -> Answer:
        """Print the answer, a second one where it has other sections."""
        context, answer = (None, found) if isinstance(found, Answer) else (found, found.answer)
        spent = Spent.since(self.begun, answer.trace.stages)
        # The same list twice would be read twice, to find that nothing changed.
        if self.early is not None:
            if [hit.node_id for hit in self.early.hits] == [hit.node_id for hit in answer.hits]:
                self.console.note(f"everything is embedded now, and the answer is the same ({spent})")
                return answer
            print_line("\nNow that everything is embedded, by meaning as well:\n")
        if context is not None:
            print_context(context, spent, self.form)
        else:
            print_answer(answer, spent, self.form)
        sys.stdout.flush()  # results before notes, where both streams go to one place
        is_json = self.form.output.is_json
        note_state(answer, self.console, spent, index=self.index, footer=not is_json)
        if context is not None and context.context.left_out and not is_json:
            left_out = pluralize(len(context.context.left_out), "hit")
            limit = f"{context.context.max_tokens:,} tokens (--max-tokens)"
            self.console.note(f"{left_out} not quoted, for the limit of {limit}")
        return answer

    def answer_early(self, retriever: "Retriever") -> Sequence[str]:
        """Answer as soon as keyword search can; return the sections to embed first."""
        return self._announce(self.show(retriever.search(self.request)))

    def embed_rest(self, retriever: "Retriever", answer: Answer) -> Answer:
        """Embed what has no vector yet, and answer once more; a terminal's user sees both answers."""
        if answer.index.embedded_share == 1:
            return answer
        # What was just found is embedded first: the second answer is about it.
        likely = self._announce(answer)
        try:
            with self.console.show_progress() as progress:
                retriever.embed_pending(progress, lambda: likely)
        except RetrieverError as error:
            self.console.note(f"note: the rest is not embedded: {error}")
            return answer
        return self.show(retriever.search(self.request))

    def note_pending(self, answer: Answer) -> None:
        """Say how the rest is embedded, of an index that is not finished."""
        for state in answer.indexes or (answer.index,):
            if state.embedded_share < 1:
                place = state.path if answer.indexes else self.index
                self.console.note(f"note: to embed the rest, run: {format_refresh_command(state, place)}")

    def _announce(self, answer: Answer) -> Sequence[str]:
        self.early = answer
        self.console.note("embedding the rest, to answer by meaning; Ctrl-C stops it, and what is done is kept")
        return answer.trace.order
