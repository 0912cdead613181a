"""`answer`: a few sentences that answer a question, each with its lines, above the sections."""

import sys
from typing import TYPE_CHECKING

from rich.text import Text

from retriever.command_line import options
from retriever.command_line.console import Console, print_json
from retriever.command_line.opening import Opening
from retriever.command_line.options import ExitCode
from retriever.command_line.output import Printer
from retriever.command_line.render import INDENT, QUIET, Page
from retriever.display.json import dump_short_answer
from retriever.display.phrases import CLOSEST_PASSAGES, CLOSEST_SENTENCES, format_doubt
from retriever.display.sanitize import sanitize_line
from retriever.query import AskRequest, Scope

if TYPE_CHECKING:
    from retriever.types import Answer, CitedSentence, ShortAnswer


@options.command(
    'answer "how are the two rankings fused?"',
    'answer "where do the weights come from?" --no-llm',
    'answer --json "what is a snapshot?"',
    settings=(),
)
@options.question
@options.docs
@options.index
@options.profile
@options.scope
@options.conversation
@options.no_llm
@options.as_json
@options.fail_on_none
def answer(
    console: Console,
    scope: Scope,
    opening: Opening,
    words: tuple[str, ...],
    conversation: tuple[str, ...],
    *,
    as_json: bool,
    fail_on_none: bool,
) -> ExitCode:
    """Answer QUESTION in a few sentences, each cited as file:first-last, and with the sections that they are from.

    A local language model (Ollama) writes them where it runs, and each is checked against the lines that it cites;
    otherwise they are quoted from the documents.
    """
    printer = Printer(console, opening.index, as_json=as_json)
    request = AskRequest(options.join_question(words, 'answer "how do I ...?"'), conversation, scope)
    with opening.open(console) as retriever:
        page = None if as_json else Page.on(sys.stdout)
        found: list[Answer] = []  # what was found, until the first sentence to it is printed
        tell = None if page is None else lambda sentence: show_sentence(page, sentence, found)
        short = retriever.answer(request, on_found=found.append, on_sentence=tell)
    if page is None:
        spent = printer.measure(short.answer)
        print_json(dump_short_answer(short, spent))
        printer.note_state(short.answer, spent)
    else:
        show_dropped(page, short)
        printer.show(short.answer, headline=short.answer.verdict == "none")
    if short.answer.verdict != "none":
        console.note_dim(short.note)
    return ExitCode.NO_ANSWER if fail_on_none and short.answer.verdict == "none" else ExitCode.OK


def show_sentence(page: Page, sentence: "CitedSentence", found: list["Answer"]) -> None:
    """Print a sentence and the lines that it rests on, at once; above the first one whether it is sure to answer."""
    if found and found.pop().verdict == "weak":
        page.line(Text(CLOSEST_PASSAGES if sentence.text == sentence.quote else CLOSEST_SENTENCES))
        page.blank()
    cited = page.cite(sentence, sentence.span)
    text = Text(f"{sanitize_line(sentence.text)}  ").append_text(cited)
    page.paragraph(text.append(format_doubt(sentence.citation_state), QUIET))
    page.console.file.flush()


def show_dropped(page: Page, short: "ShortAnswer") -> None:
    """Print what the model wrote that does not hold; then a line between the sentences and the sections."""
    for item in short.dropped:
        page.paragraph(Text(f"dropped: {sanitize_line(item.text)} ({sanitize_line(item.reason)})", QUIET), INDENT)
    if short.sentences or short.dropped:
        page.blank()
