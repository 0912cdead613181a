"""`ask`: a question, answered with sections, the default command; `answer`: a few sentences above them."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retriever.command_line import COMMANDS, options
from retriever.command_line.options import Opening
from retriever.command_line.output import Console, Output, Printer, print_text
from retriever.errors import IndexUnusableError, UsageError, name_program
from retriever.looking.indexes import list_indexes
from retriever.query import AskRequest, Scope
from retriever.text import find_nearest

if TYPE_CHECKING:
    from retriever.retriever import Retriever
    from retriever.settings import Profile
    from retriever.types import ShortAnswer

LIKE = 0.8  # by difflib: `indx`, `staus`; not `evil` for `eval`
LIKE_BEFORE_FILES = 0.7  # `raed`, `reed`: before a file even these are no questions
# What the commands are called elsewhere, or were called here.
PEERS = {
    "add": "index",
    "embed": "index",
    "find": "ask",
    "get": "read",
    "list": "tree",
    "ls": "tree",
    "open": "read",
    "query": "ask",
    "rm": "forget",
    "search": "ask",
    "similar": "read --similar 10",
    "update": "index",
    "watch": "index --watch",
    "web": "serve --web",
    "worker": "postgres worker",
}


@options.command(
    '--docs docs "how are the two rankings fused?"',
    '"where do the weights come from?" --top-k 3 --full',
    'ask --json --profile recall "a budget of time"',
    '--context --max-tokens 2000 "what is a snapshot?"',
    settings=(),
)
@options.question
@options.opened
@click.option("--all", "everywhere", is_flag=True, help="Ask each of your indexes (see `indexes`).")
@options.scope
@click.option("--full", is_flag=True, help="Show each section's text, not only a snippet.")
@click.option("--explain", is_flag=True, help="Show how the answer was made, stage by stage.")
@click.option("--context", is_flag=True, help="Print the sections as Markdown for a prompt, within --max-tokens.")
@options.no_llm
@options.output
@options.conversation
def ask(
    console: Console,
    scope: Scope,
    opening: Opening,
    output: Output,
    words: tuple[str, ...],
    conversation: tuple[str, ...],
    *,
    full: bool,
    explain: bool,
    context: bool,
    everywhere: bool,
) -> None:
    """Answer QUESTION with the sections of the indexed documents that hold the answer, each cited as file:first-last.

    A question may say where to look: in:FOLDER, tag:TAG, since:DAY, until:DAY, where:KEY=VALUE,
    "a phrase" (word for word), -"word" (not with it).
    """
    check_words(words)
    request = AskRequest(options.join_question(words, '"how do I ...?"'), conversation, scope)
    if context and (full or explain):
        raise click.UsageError("--context has the texts already, and no stages: leave out --full, --explain")
    if everywhere and (opening.index or opening.docs):
        raise click.UsageError("--all asks each of your indexes: leave out --index, --docs")
    answers = []
    for one in [opening._replace(index=listed.name) for listed in list_indexes()] if everywhere else [opening]:
        printer = Printer(console, output, one.index, full=full, explain=explain)
        if everywhere and output.is_for_people:
            print_text(f"\n{one.index}:")
        # Programs get one answer. People have the first at once, also through a pipe.
        answers_twice = output.is_for_people and not context
        early = partial(answer_early, printer, request) if answers_twice else None
        try:
            with one.open(console, early) as retriever, announce_model(retriever.profile, console):
                if context:
                    answers.append(printer.show_context(retriever.context(request)))
                else:
                    answers.append(printer.show(retriever.search(request)))
        except (IndexUnusableError, UsageError) as error:  # another one may have the folder of a filter
            if not everywhere:
                raise
            console.note(f"not asked: {error}")
        else:
            printer.note_pending(answers[-1])
    if not answers:
        raise IndexUnusableError("there is no index that can be asked")


def answer_early(printer: Printer, request: AskRequest, retriever: "Retriever") -> None:
    """Answer as soon as keyword search can."""
    printer.show(retriever.search(request))
    printer.console.note("embedding the rest, to answer by meaning; Ctrl-C stops it, and what is done is kept")


@contextmanager
def announce_model(profile: "Profile", console: Console) -> Iterator[None]:
    """Say before an answer how long the language model takes, and after the first one find out what it can do."""
    if not (profile.use_llm and console.can_ask):
        yield
        return
    from retriever.upkeep import describe_stages, probe_once

    console.note(describe_stages(profile), dim=True)
    yield
    probe_once(profile, console.note)


def check_words(words: Sequence[str]) -> None:
    """Say which command a question without a command's name may have been meant as; UsageError where it is one."""
    if not words or not click.get_current_context().meta.get(options.COMMAND_IMPLIED):
        return
    first, *rest = words
    if first in COMMANDS:  # `--index DIR status` would silently ask "status"
        raise click.UsageError(
            f"{first} is a command, and a command comes first, before its options; "
            "a question that begins with this word comes after `ask`"
        )
    is_of_files = bool(rest) and all(Path(word).suffix or Path(word).exists() for word in rest)
    peer = PEERS.get(first, "")
    near = peer or find_nearest(first, COMMANDS, LIKE_BEFORE_FILES if is_of_files else LIKE)
    from retriever.embedding.encoder import is_english_word  # numpy, which no other line of a command needs

    # A single word is a question too, if it is a word: `trees`, and not `stauts` or `ls`. The word of another program
    # comes before one argument, `find "the keys"`; without quotation marks, `find the keys` is a question.
    is_word = not peer and is_english_word(first)
    if near and (is_of_files or not (rest or is_word) or (peer == "ask" and len(rest) == 1)):
        meant = f"{near} {shlex.join(rest)}".rstrip() if peer else near
        search = f"{name_program()} ask {shlex.join(words)}"
        raise click.UsageError(f"{first} is no command; did you mean `{meant}`? To search for it: {search}")


@options.command(
    'answer "how are the two rankings fused?"',
    'answer "where do the weights come from?" --no-llm',
    'answer --json "what is a snapshot?"',
    settings=(),
)
@options.question
@options.opened
@options.scope
@options.conversation
@options.no_llm
@options.output
def answer(
    console: Console,
    scope: Scope,
    opening: Opening,
    output: Output,
    words: tuple[str, ...],
    conversation: tuple[str, ...],
) -> None:
    """Answer QUESTION in a few sentences, each cited as file:first-last, and show the sections that they come from.

    If a local language model (Ollama) is running, it writes them, and each is checked against the lines that it cites;
    otherwise they are quoted from the documents.
    """
    from retriever.command_line.render import Page, show_dropped, show_sentences  # rich

    page = Page()
    printer = Printer(console, output, opening.index)
    request = AskRequest(options.join_question(words, 'answer "how do I ...?"'), conversation, scope)

    def tell(short: "ShortAnswer") -> None:
        if short.sentences and output.is_for_people:
            show_sentences(page, short)

    with opening.open(console) as retriever, announce_model(retriever.profile, console):
        short = retriever.answer(request, on_quoted=tell)
        if short.writer:  # below what the documents say, which stands since the search
            tell(short)
        if output.is_for_people:
            show_dropped(page, short)
        printer.show(short.answer, short)
        if short.sentences:
            console.note(short.note, dim=True)
