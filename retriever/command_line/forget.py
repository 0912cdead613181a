"""`forget`: documents out of an index."""

import click

from retriever.api import forget_documents
from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line
from retriever.command_line.options import ExitCode
from retriever.display.phrases import pluralize


@options.command("forget tutorial-notes/", "forget --undo tutorial-notes/")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--undo", is_flag=True, help="Take back what was forgotten: the next `index` reads it again.")
@options.index
@options.as_json
def forget(console: Console, paths: tuple[str, ...], index: str | None, *, undo: bool, as_json: bool) -> ExitCode:
    """Remove the text and the vectors of documents from every file of the index, and keep them out.

    PATH is a document, a folder of documents, or an indexed folder, which then leaves the index altogether. The files
    on disk are not touched; `index` passes over what was forgotten, and `status` names it.
    """
    report = forget_documents(paths, index, undo=undo)
    if as_json:
        content = {"path": report.path, "forgotten": list(report.forgotten), "documents": report.documents}
        kept = {"remaining": list(report.remaining), "kept": report.kept}
        print_json(content | kept)
    else:
        for name in report.forgotten:
            print_line(f"{'restored' if undo else 'forgot'} {name}")
    if undo:
        console.note_dim("they are indexed on the next run of `index`")
    else:
        left = f"{pluralize(report.documents, 'document')} left the index"
        console.note_dim(f"{left}; the files on disk are as they were")
        if report.kept:
            console.note(report.kept)
        for path in report.remaining:
            held = f"{path} is being read by another process and may still hold the text"
            console.note(f"{held}; stop it, and run this again")
    return ExitCode.ERROR if report.remaining else ExitCode.OK
