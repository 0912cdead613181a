"""`worker`: one of several processes that index what `index --enqueue` left to them."""

import click

from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line
from retriever.command_line.options import ExitCode
from retriever.display.phrases import pluralize
from retriever.indexes import index_request
from retriever.settings.layers import DEFAULT_PROFILE


@options.command(
    "worker --index postgresql://indexer@db.example.org/notes",
    "worker --index postgresql://indexer@db.example.org/notes --once",
)
@click.option("--once", is_flag=True, help="End when nothing is left to do.")
@options.index
@options.as_json
def worker(console: Console, index: str | None, *, once: bool, as_json: bool) -> ExitCode:
    """Index the documents in the queue of an index in PostgreSQL; any number of workers, on any machine.

    `index --enqueue` fills the queue, `status` shows it. Nothing is lost however a worker ends.
    """
    from retriever.indexing.workers import work  # what indexes

    console.note_dim("waiting for documents; Ctrl-C ends it")
    done = failed = 0
    for unit in work(lambda: index_request((), index, DEFAULT_PROFILE, None), once=once):
        done += unit is not None and not unit.reason
        failed += unit is not None and bool(unit.reason)
    if as_json:
        print_json({"indexed": done, "failed": failed})
    else:
        print_line(f"indexed {pluralize(done, 'document')}" + (f", {failed:,} attempts failed" if failed else ""))
    return ExitCode.OK
