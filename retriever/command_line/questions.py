"""`questions`: a first set of questions out of one's own documents."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line.exit_codes import ExitCode
from retriever.command_line.help_pages import WithExamples
from retriever.display.phrases import counted
from retriever.errors import DocumentsError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pageindex.document import Document
    from retriever.command_line.notes import Notes
    from retriever.settings.profile import DocumentSettings

STANDARD_STREAM = "-"


@click.command(
    examples=(
        "questions docs > questions.jsonl",
        "questions docs --limit 50 --out questions.jsonl",
    ),
    cls=WithExamples,
    params=options.setting_parameters(("documents",)),
    short_help="Make questions out of your own documents, for eval.",
)
@click.argument("docs", metavar="DOCS")
@click.option(
    "--limit", type=click.IntRange(min=1), default=200, show_default=True, metavar="N", help="How many at most."
)
@click.option("--out", default=STANDARD_STREAM, metavar="FILE", help="Where they go; standard output by default.")
@click.option("--llm", is_flag=True, help="Let a language model write them; this version has none.")
@options.voice_options
def questions(docs: str, limit: int, out: str, llm: bool, **given: Any) -> ExitCode:  # noqa: ANN401 - the settings of the documents, which are taken out by name
    """Make questions out of the folder DOCS: its headings, and its links with the sentence around them.

    They come with the lines that answer them, as JSONL for `eval`. They use the documents' own words, so they are
    easier than real questions: good for comparing settings, and for finding sections that are never found.
    """
    from retriever.command_line.batch import written_whole
    from retriever.evaluation.own_questions import own_questions, question_line, sample
    from retriever.settings.layers import load_profile

    notes = options.taken_notes(given)
    settings = options.taken_settings(given)
    if llm:
        raise UsageError("--llm: this version has no language-model stages; leave it off")
    made = own_questions(list(_documents(docs, load_profile(flags=settings).documents, notes)))
    if not made:
        raise DocumentsError(f"{docs}: no heading or link of it makes a question")
    chosen = sample(made, limit)
    with written_whole(out) as stream:
        stream.writelines(f"{question_line(question)}\n" for question in chosen)
    sys.stdout.flush()
    more = f" of {len(made):,}; --limit gives more" if len(made) > len(chosen) else ""
    notes.say(f"made {counted(len(chosen), 'question')}{more}")
    return ExitCode.OK


def _documents(docs: str, settings: "DocumentSettings", notes: "Notes") -> "Iterator[Document]":
    """Every document that can be read; the others are named.

    Raises:
        DocumentsError: the folder cannot be listed, or holds none.
    """
    from pageindex.corpus import UnreadableDocumentError, read_document
    from pageindex.document import parse_document
    from retriever.indexing.changes import list_documents

    listing = list_documents(Path(docs), settings)
    skipped = [(item.path, item.reason) for item in listing.skipped]
    for file in listing.files:
        try:
            text = read_document(file, settings.max_file_bytes).text
        except UnreadableDocumentError as error:
            skipped.append((file.path, error.reason))
            continue
        yield parse_document(file.path, text)
    notes.skipped(tuple(skipped))
