"""`worker`: one of several processes that index what `index --enqueue` left to them."""

import signal

import click

from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line
from retriever.command_line.options import ExitCode
from retriever.display.phrases import pluralize


@options.command(
    "worker --index postgresql://indexer@db.example.org/notes",
    "worker --index postgresql://indexer@db.example.org/notes --once",
)
@click.option("--once", is_flag=True, help="End when nothing is left to do.")
@options.index
@options.as_json
def worker(console: Console, index: str | None, *, once: bool, as_json: bool) -> ExitCode:
    """Index the documents in the queue of an index in PostgreSQL; any number of workers, on any machine.

    `index --enqueue` fills the queue, `status` shows it. SIGTERM ends a worker after the document at hand.
    """
    from retriever.api import work_queue

    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        done = work_queue(index, once=once, ends=lambda: bool(came))
    finally:
        signal.signal(signal.SIGTERM, before)
    if as_json:
        print_json({"indexed": done})
    else:
        print_line(f"indexed {pluralize(done, 'document')}")
    return ExitCode.OK
