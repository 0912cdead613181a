"""`ask`: a question, answered with sections; the default command."""

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from retriever.command_line import options
from retriever.command_line.console import (
    STANDARD_STREAM,
    Console,
    json_line,
    print_json,
    print_line,
    shorten_path,
    write_whole,
)
from retriever.command_line.help import WithExamples, name_program
from retriever.command_line.options import ExitCode, Opening
from retriever.display.editors import choose_template
from retriever.errors import QuestionError, RetrieverError, ScopeError, UsageError
from retriever.query import AskRequest, Scope

if TYPE_CHECKING:
    from retriever.context.gather import AnswerInContext
    from retriever.retriever import Retriever
    from retriever.serving.client import ServerClient
    from retriever.several import SeveralRetrievers
    from retriever.trace import Spent
    from retriever.types import Answer

MAX_BATCH_BYTES = 1_000_000_000  # of a file of questions

log = logging.getLogger(__name__)


class AskCommand(WithExamples):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = "A question that begins with a dash comes after --; a -word, in the quotes of the question."
            raise click.UsageError(f"{error.format_message()} {hint}", ctx) from error


@options.command(
    '--docs docs "how are the two rankings fused?"',
    '"where do the weights come from?" --top-k 3 --full',
    'ask --json --profile recall "a budget of time"',
    '--context --max-tokens 2000 "what is a snapshot?"',
    settings=(),
    cls=AskCommand,
    rare=(
        "scope_since",
        "scope_until",
        "scope_where",
        "context_tokens",
        "batch",
        "run",
        "conversation",
        "focus",
        "show_hypothetical",
        "fail_on_none",
        "editor",
        "record",
        "server",
        "token_file",
        "documents.ignore",
    ),
    epilog=options.EXIT_CODES_HELP,
)
@options.question
@options.opening(options.docs, options.indexes, options.everywhere, options.profile)
@options.scope
@click.option("--full", is_flag=True, help="Show each section's text (final_text_chars of it), not only a snippet.")
@click.option("--explain", is_flag=True, help="Show every stage with its time, and what each source found.")
@click.option("--context", is_flag=True, help="Print the sections as Markdown for a prompt, within --max-tokens.")
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

    A question may say where to look: in:FOLDER, tag:TAG, since:DAY, until:DAY, where:KEY=VALUE, -word (not with it),
    "a phrase" (word for word).
    """
    options.refuse_misplaced_command(words)
    choose_template(editor, {})  # a mistake in it is named now, not behind the answer
    one = {"the question": words, "--json": as_json, "--full": full, "--explain": explain, "--context": context}
    excluded = ", ".join(name for name, given in one.items() if given)
    if batch is not None:
        if excluded:
            raise click.UsageError(f"--batch answers the questions of its file; leave out {excluded}")
        if server:
            raise click.UsageError("--batch opens the index itself; leave out --server")
        return answer_batch(batch, run or STANDARD_STREAM, opening, console, scope, fail_on_none=fail_on_none)
    if run is not None:
        raise click.UsageError("--run goes with --batch: name the file of questions as well")
    question = options.join_question(words, '"how do I ...?"')
    if context and (full or explain):
        raise click.UsageError("--context has the texts already, and no stages; leave out --full and --explain")
    form = Form(Output.of(as_json=as_json, context=context), editor, full, explain, show_hypothetical, console.verbose)
    request = AskRequest(question, conversation, scope, focus=focus)
    client = open_client(server, token_file, opening, request, full=full) if server else None
    with note_command(words, console) as answers:
        answer = Asking(request, form, console, opening, client).run()
        answers.append(answer)
    return ExitCode.NO_ANSWER if fail_on_none and answer.verdict == "none" else ExitCode.OK


def open_client(server: str, token_file: str, opening: Opening, request: AskRequest, *, full: bool) -> "ServerClient":
    """Return what asks a running `serve`; UsageError with everything that only an index opened here can answer."""
    from retriever.serving.client import ServerClient, read_token

    own = {
        "--docs": opening.docs,
        "--index and --all": opening.index or opening.several,
        "--focus": request.focus,
        "the settings": opening.settings,
    }
    if excluded := ", ".join(name for name, given in own.items() if given):
        raise click.UsageError(f"the server of --server has its index and its settings; leave out {excluded}")
    is_given = click.get_current_context().get_parameter_source("profile") is not ParameterSource.DEFAULT
    token = read_token(Path(token_file).expanduser()) if token_file else ""
    return ServerClient(server, token, opening.profile if is_given else "", full=full)


@contextmanager
def note_command(words: Sequence[str], console: Console) -> "Iterator[list[Answer]]":
    """Says behind the block, which puts its answer into the list, which command the question may have been meant as.

    Nothing is said where the documents have a word that is only like a command. What ends the block is no reason to
    be silent: where nothing is indexed, a slip in `index` is the likeliest of all.
    """
    context, suggestion = click.get_current_context(), None
    first, *rest = words or ("",)
    if context.meta.get(options.COMMAND_IMPLIED) and first.isalpha() and all(map(os.path.exists, rest)):
        from retriever.command_line import suggest_command

        suggestion = suggest_command(first, with_paths=bool(rest))
    answers: list[Answer] = []
    try:
        yield answers
    finally:
        known = {word.casefold() for answer in answers for hit in answer.hits for word in hit.words}
        if suggestion and (suggestion[1] or first.casefold() not in known):
            name, program = suggestion[0], name_program(context)
            kind = "" if name.startswith("-") else "the command "
            how = name if name.startswith("-") or " " in name else f"{name} --help"
            console.note(f"did you mean {kind}`{name}`? it was asked as a question; for the command: {program} {how}")


class Output(Enum):
    """What standard output gets of an answer."""

    TEXT = auto()
    JSON = auto()
    CONTEXT = auto()  # the sections as Markdown for a prompt
    CONTEXT_JSON = auto()

    @classmethod
    def of(cls, *, as_json: bool, context: bool = False) -> "Output":
        """Return what --json and --context ask for."""
        if context:
            return cls.CONTEXT_JSON if as_json else cls.CONTEXT
        return cls.JSON if as_json else cls.TEXT

    @property
    def is_json(self) -> bool:
        """Whether it is one JSON object."""
        return self in (Output.JSON, Output.CONTEXT_JSON)

    @property
    def is_context(self) -> bool:
        """Whether it is the context for a prompt."""
        return self in (Output.CONTEXT, Output.CONTEXT_JSON)


@dataclass(frozen=True, slots=True)
class Form:
    """How an answer is printed."""

    output: Output
    editor: str  # what citations open on a terminal: see `choose_template`
    full: bool = False
    explain: bool = False
    hypothetical: bool = False
    numbers: bool = False  # whether people see ranks and scores beside the reasons
    hits: bool = True  # whether they see the hits themselves, beside how they were found


@dataclass(slots=True)
class Asking:
    """A question of the command line, which is answered twice while the first index of its documents is made."""

    request: AskRequest
    form: Form
    console: Console
    opening: Opening
    server: "ServerClient | None" = None  # that is asked in place of an index opened here
    begun: float = field(default_factory=time.perf_counter)  # loading modules is a part of what the user waits for
    early: "Answer | None" = None  # the one that was given before everything was embedded

    def run(self) -> "Answer":
        """Search, and print the answer.

        Programs, and what stands behind a pipe, get one answer: with --docs of everything, else of what there is.
        """
        if self.server is not None:
            return self._show(self.server)
        if self.form.output is Output.TEXT and not self.opening.several and sys.stdout.isatty():
            return self._answer_person()
        with options.open_one_or_several(self.opening, self.console) as retriever:
            answer = self._show(retriever)
        for state in answer.indexes or (answer.index,):
            if state.embedded_share < 1:
                from retriever.display.phrases import format_refresh_command

                place = state.path if answer.indexes else self.opening.index
                self.console.note(f"note: to embed the rest, run: {format_refresh_command(state, place)}")
        return answer

    def _answer_person(self) -> "Answer":
        """Answer as soon as words can, and once more when everything is embedded."""
        try:
            with self.opening.open(self.console, lambda early: self._note_early(self._show(early))) as retriever:
                answer = self._show(retriever)
                if answer.index.embedded_share == 1:
                    return answer
                # What was just found is embedded first: the second answer is about it.
                likely = self._note_early(answer)
                try:
                    with self.console.show_progress() as progress:
                        retriever.embed_pending(progress, lambda: likely)
                except RetrieverError as error:
                    self.console.note(f"note: the rest is not embedded: {error}")
                    return answer
                return self._show(retriever)
        except KeyboardInterrupt:
            # Who stops the embedding has an answer by words already, and loses nothing.
            if self.early is None:
                raise
            self.console.note("stopped; the next question, or `index`, goes on from here")
            return self.early

    def _show(self, retriever: "Retriever | SeveralRetrievers | ServerClient") -> "Answer":
        """Print the answer; a second one where it has other sections."""
        from retriever.trace import Spent, milliseconds_since

        opened = milliseconds_since(self.begun)
        found = retriever.context(self.request) if self.form.output.is_context else None
        answer = found.answer if found else retriever.search(self.request)
        spent = Spent(opened, milliseconds_since(self.begun))
        # The same list twice would be read twice, to find that nothing changed.
        if self.early is not None:
            if [hit.node_id for hit in self.early.hits] == [hit.node_id for hit in answer.hits]:
                self.console.note(f"everything is embedded now, and the answer is the same ({spent})")
                return answer
            print_line("\nNow that everything is embedded, by meaning as well:\n")
        if found is None:
            print_answer(answer, spent, self.form)
        else:
            print_context(found, spent, self.form)
        sys.stdout.flush()  # results before notes, where both streams go to one place
        is_json = self.form.output.is_json
        note_state(answer, self.console, spent, index=self.opening.index, footer=not is_json)
        if found is not None and found.context.left_out and not is_json:
            from retriever.display.phrases import pluralize

            left_out = pluralize(len(found.context.left_out), "hit")
            limit = f"{found.context.max_tokens:,} tokens (--max-tokens)"
            self.console.note(f"{left_out} not quoted, for the limit of {limit}")
        return answer

    def _note_early(self, answer: "Answer") -> Sequence[str]:
        """Say that another answer follows; return the sections to embed first."""
        self.early = answer
        self.console.note("embedding the rest, to answer by meaning; Ctrl-C stops it, and what is done is kept")
        return answer.trace.order


def print_context(found: "AnswerInContext", spent: "Spent", form: Form) -> None:
    """The context alone: standard output holds nothing else."""
    if form.output.is_json:
        print_json(dump_context(found, spent))
    else:
        print_line(found.context.markdown.rstrip("\n"))


def dump_context(found: "AnswerInContext", spent: "Spent") -> dict[str, Any]:
    """An answer as context for a prompt: the pieces that it quotes, in order, and the hits that it leaves out."""
    from retriever.display.json import dump, sum_timings

    answer, context = found.answer, found.context
    whole = dump(answer)
    kept = ("question", "profile", "verdict", "confidence", "index", "degraded", "scope", "notes")
    return {key: whole[key] for key in kept} | {
        "max_tokens": context.max_tokens,
        "tokens": context.tokens,
        "markdown": context.markdown,
        "pieces": [
            {"group": list(group.titles), **dump(piece), "cut_from": list(map(str, piece.cut_from))}
            for group in context.groups
            for piece in group.pieces
        ],
        "left_out": [
            dump(item.section, "text", "chunk_spans", "heading_id", "span", "file")
            | {"tokens": item.tokens, "same_as": item.same_as or None}
            for item in context.left_out
        ],
        "timings_ms": sum_timings(answer, spent),
    }


def print_answer(answer: "Answer", spent: "Spent", form: Form) -> None:
    if form.output.is_json:
        from retriever.display.json import dump_answer

        print_json(dump_answer(answer, spent, full=form.full, explain=form.explain, hypothetical=form.hypothetical))
        return
    from retriever.command_line.render import Page, show_answer

    page = Page.on(sys.stdout, form.editor)
    if form.hits:
        show_answer(page, answer, full=form.full, numbers=form.numbers)
    if form.explain or form.hypothetical:
        from retriever.command_line.explain import show_explanation, show_hypothetical

        if form.explain:
            show_explanation(page, answer, spent)
        if form.hypothetical:
            show_hypothetical(page, answer)


def note_state(answer: "Answer", console: Console, spent: "Spent", *, index: str | None, footer: bool) -> None:
    """Says on standard error what to know about an answer; the `footer`, for people alone, what was searched."""
    from retriever.display.phrases import (
        describe_expansion,
        describe_freshness,
        explain_corrections,
        format_refresh_command,
        pluralize,
    )

    log.info("%8.1f ms  opening", spent.opening)
    for stage in answer.trace.stages:
        log.info("%8.1f ms  %s: %s", stage.milliseconds, stage.name, stage.note)
    state, report = answer.index, answer.expansion
    several = answer.indexes
    if answer.corrections:
        console.note(f"{explain_corrections(answer.corrections)}; --exact searches for the words as they stand")
    understood = [f"understood as: {answer.follow_up.question}"] if answer.follow_up else []
    for note in (*understood, *(f"note: {item}" for item in (*answer.degraded, *answer.notes))):
        console.note(note)
    if report is not None and (report.used or report.gated or report.dropped):
        console.note_dim(describe_expansion(report))
    for one in several or (state,):
        if one.stale_files:
            changed = pluralize(one.stale_files, "file")
            place = one.path if several else index
            console.note(f"note: {changed} changed, not in this answer; run: {format_refresh_command(one, place)}")
    # The sections of such a file cannot be found, and only this says so.
    if state.skipped_files:
        console.note(f"note: {pluralize(state.skipped_files, 'file')} could not be read; `status` names them")
    # Where the filters left nothing, a note has named the filter.
    if not answer.hits and (answer.scope is None or answer.scope.sections):
        console.note("nothing found: try other words, or --profile recall")
    if footer:
        console.note_dim(f"{describe_search(answer)} | {answer.profile} | {spent} | {describe_freshness(state)}")


def describe_search(answer: "Answer") -> str:
    """`searched 3 sections of 2 files (in:daily) in notes`."""
    from retriever.display.phrases import pluralize

    part = answer.scope or answer.index
    amount = f"{pluralize(part.sections, 'section')} of {pluralize(part.documents, 'file')}"
    if answer.scope is not None:
        amount += f" ({' '.join(answer.scope.scope.terms)})"
    folders = ", ".join(shorten_path(folder, ".") for folder in answer.index.folders)
    if answer.indexes:
        folders = f"{pluralize(len(answer.indexes), 'index', 'indexes')}: {folders}"
    return f"searched {amount} in {folders}"


# `ask --batch`: many questions in one process, each answered as one line of JSON.


@dataclass(frozen=True, slots=True)
class Question:
    id: str | int  # as it was given; it comes back with the hits
    text: str


def answer_batch(
    source: str, target: str, opening: Opening, console: Console, scope: Scope, *, fail_on_none: bool
) -> ExitCode:
    """Answers every question of the file `source` into the file `target`, in their order; `-` for the streams."""
    from pageindex.files import read_file
    from retriever.display.phrases import pluralize

    try:
        is_stream = source == STANDARD_STREAM
        content = sys.stdin.buffer.read() if is_stream else read_file(source, MAX_BATCH_BYTES, follow_link=True)
    except OSError as error:
        raise UsageError(f"--batch: {source}: cannot be read: {error.strerror}") from error
    # All lines are read before the first is asked: a mistake in the last one is said at once.
    questions = read_questions(content, "standard input" if is_stream else source)
    unanswered, failed, degraded = 0, 0, dict[str, int]()
    opened = options.open_one_or_several(opening, console)
    with write_whole(target) as out, opened as retriever, console.show_progress() as progress:
        if progress is not None:
            progress.start("answering", len(questions), "questions")
        for number, question in enumerate(questions, start=1):
            line, sentences = answer_line(retriever, question, scope)
            out.write(f"{json_line(line)}\n")
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
    console.note(f"asked {pluralize(len(questions), 'question')}; no section answers {unanswered:,} of them")
    if failed == len(questions):
        return ExitCode.USAGE
    return ExitCode.NO_ANSWER if fail_on_none and unanswered else ExitCode.OK


def answer_line(
    retriever: "Retriever | SeveralRetrievers", question: Question, scope: Scope
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The line of a run for a question, and what was degraded or wrong with it."""
    from retriever.display.json import dump
    from retriever.evaluation.runs import Found

    line: dict[str, Any] = {"id": question.id}
    try:
        answer = retriever.search(AskRequest(question.text, scope=scope))
    except QuestionError as error:  # in one question, which then has no answer; the others have theirs
        if isinstance(error, ScopeError) and error.term not in question.text:
            raise  # it is in an option
        return line | {"verdict": "none", "confidence": 0.0, "hits": [], "error": str(error)}, (str(error),)
    hits = [
        dump(Found(hit.node_id, hit.cited_as or hit.file, hit.span, hit.score), "tokens")
        | ({"index": hit.index} if hit.index else {})
        for hit in answer.hits
    ]
    line |= {"verdict": answer.verdict, "confidence": answer.confidence, "hits": hits}
    return line, tuple(map(str, answer.degraded))


def read_questions(content: bytes, name: str) -> list[Question]:
    """The questions of a JSONL file in UTF-8; UsageError with every malformed line. `name` is for messages."""
    from retriever.evaluation.formats import Mistakes, id_in, json_object, text_in

    questions: list[Question] = []
    with Mistakes() as mistakes:
        lines_of_ids: dict[str | int, int] = {}
        for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                item = json_object(line.decode("utf-8"))
                id_in(item)  # checked here; a number stays a number, as it comes back with the hits
                question = Question(item["id"], text_in(item, "question"))
                if question.id in lines_of_ids:
                    raise ValueError(f"the id {question.id!r} stands in line {lines_of_ids[question.id]} already")
            except ValueError as error:
                mistakes.note(f"{name}:{number}", "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error))
                continue
            lines_of_ids[question.id] = number
            questions.append(question)
    if not questions:
        raise UsageError(f'{name}: holds no question; a line is {{"id": "1", "question": "..."}}')
    return questions
