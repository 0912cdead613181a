"""`answer`: a few sentences that answer a question, each with its lines, above the sections."""

import sys
import time
from typing import TYPE_CHECKING

import click
from rich.text import Text

from retriever.command_line import options
from retriever.command_line.console import Console, print_json
from retriever.command_line.opening import Opening
from retriever.command_line.options import ExitCode
from retriever.command_line.output import Form, Output, note_state, print_answer
from retriever.command_line.render import INDENT, QUIET, Page
from retriever.display.editors import choose_template
from retriever.display.json import dump_short_answer
from retriever.display.phrases import format_doubt
from retriever.display.sanitize import sanitize_line
from retriever.query import AskRequest, Scope
from retriever.trace import Spent

if TYPE_CHECKING:
    from retriever.types import CitedSentence, ShortAnswer


@options.command(
    'answer "how are the two rankings fused?"',
    'answer "where do the weights come from?" --no-llm',
    'answer --json "what is a snapshot?"',
    settings=(),
    rare=(
        "since",
        "until",
        "where",
        "conversation",
        "context_tokens",
        "fail_on_none",
        "editor",
    ),
    epilog=options.EXIT_CODES_HELP,
)
@options.question
@options.docs
@options.index
@options.profile
@options.scope
@options.conversation
@options.no_llm
@options.as_json
@click.option("--fail-on-none", is_flag=True, help="Exit with 3 when the verdict is none: no section answers.")
@options.editor
def answer(
    console: Console,
    scope: Scope,
    opening: Opening,
    words: tuple[str, ...],
    conversation: tuple[str, ...],
    editor: str,
    *,
    as_json: bool,
    fail_on_none: bool,
) -> ExitCode:
    """Answer QUESTION in a few sentences, each cited as file:first-last, and with the sections that they are from.

    A local language model (Ollama) writes them where it runs, and each is checked against the lines that it cites;
    otherwise they are quoted from the documents.
    """
    choose_template(editor, {})  # a mistake in it is named now, not behind the answer
    question = options.join_question(words, 'answer "how do I ...?"')
    begun = time.perf_counter()
    with opening.open(console) as retriever:
        page = None if as_json else Page.on(sys.stdout, editor)
        tell = None if page is None else lambda sentence: show_sentence(page, sentence)
        short = retriever.answer(AskRequest(question, conversation, scope), on_sentence=tell)
        spent = Spent.since(begun, short.answer.trace.stages)
    if page is None:
        print_json(dump_short_answer(short, spent))
    else:
        show_dropped(page, short)
        print_answer(short.answer, spent, Form(Output.TEXT, editor, numbers=console.verbose))
    sys.stdout.flush()
    if short.answer.verdict != "none":
        console.note_dim(sanitize_line(short.note))
    note_state(short.answer, console, spent, index=opening.index, footer=not as_json)
    return ExitCode.NO_ANSWER if fail_on_none and short.answer.verdict == "none" else ExitCode.OK


def show_sentence(page: Page, sentence: "CitedSentence") -> None:
    """A sentence and the lines that it rests on, at once."""
    cited = page.cite(sentence, sentence.span)
    text = Text(f"{sanitize_line(sentence.text)}  ").append_text(cited)
    page.paragraph(text.append(format_doubt(sentence.citation_state), QUIET))
    page.console.file.flush()


def show_dropped(page: Page, short: "ShortAnswer") -> None:
    """What the model wrote that does not hold; then a line between the sentences and the sections."""
    for item in short.dropped:
        page.paragraph(Text(f"dropped: {sanitize_line(item.text)} ({sanitize_line(item.reason)})", QUIET), INDENT)
    if short.sentences or short.dropped:
        page.blank()
