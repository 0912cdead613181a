"""`forget`: documents out of an index, with every trace of them."""

import sys
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line.exit_codes import ExitCode
from retriever.command_line.help_pages import WithExamples
from retriever.command_line.terminal import write_line
from retriever.display.phrases import counted
from retriever.display.sanitize import sanitize_line

if TYPE_CHECKING:
    from retriever.command_line.notes import Notes
    from retriever.indexing.forgetting import ForgetReport


@click.command(
    cls=WithExamples,
    examples=(
        "forget docs/plans.md",
        "forget drafts/ --index .index",
        "forget --undo drafts/",
    ),
    short_help="Remove documents from an index, with every trace of them.",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--undo", is_flag=True, help="Take back what was forgotten: the next `index` reads it again.")
@options.index_option
@options.json_option
@options.voice_options
def forget(paths: tuple[str, ...], index: str | None, undo: bool, **given: Any) -> ExitCode:  # noqa: ANN401 - the switches, which are taken out by name
    """Remove the text and the vectors of documents from every file of the index, and keep them out.

    PATH is a document, a folder of documents, or an indexed folder, which then leaves the index altogether. The files
    on disk are not touched; `index` passes over what was forgotten, and `status` names it.
    """
    from retriever.library import forget_documents

    notes = options.taken_notes(given)
    report = forget_documents(paths, index, undo=undo)
    if given["as_json"]:
        from retriever.command_line.as_json import write_json

        write_json(report_object(report))
    else:
        for name in report.forgotten:
            write_line(sys.stdout, f"{'taken back' if undo else 'forgot'} {sanitize_line(name)}")
    _remark(report, notes, undo=undo)
    return ExitCode.ERROR if report.remaining else ExitCode.OK


def _remark(report: "ForgetReport", notes: "Notes", *, undo: bool) -> None:
    if undo:
        notes.aside("the next `index` reads them again")
        return
    left = f"{counted(report.documents, 'document')} left the index"
    notes.aside(f"{left} in {report.seconds:.1f} s; the files on disk are as they were")
    for path in report.remaining:
        notes.say(f"{path} is being read by another process and may still hold the text; stop it, and run this again")


def report_object(report: "ForgetReport") -> dict[str, Any]:
    """What was done, for programs."""
    return {
        "path": report.path,
        "forgotten": list(report.forgotten),
        "documents": report.documents,
        "remaining": list(report.remaining),
        "seconds": round(report.seconds, 3),
    }
