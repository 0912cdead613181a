"""`worker`: one of several processes that index what `index --enqueue` left to them."""

import signal
from typing import TYPE_CHECKING

import click

from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line
from retriever.command_line.options import ExitCode
from retriever.display.phrases import pluralize
from retriever.sharing import work_queue

if TYPE_CHECKING:
    from types import FrameType


@options.command(
    "worker --index postgresql://indexer@db.example.org/notes",
    "worker --index postgresql://indexer@db.example.org/notes --once",
)
@click.option("--once", is_flag=True, help="End when nothing is left to do.")
@options.index
@options.as_json
def worker(console: Console, index: str | None, *, once: bool, as_json: bool) -> ExitCode:
    """Index the documents in the queue of an index in PostgreSQL; any number of workers, on any machine.

    `index --enqueue` fills the queue, `status` shows it. SIGTERM ends a worker after the document at hand, a second one
    or Ctrl-C at once.
    """
    came: list[int] = []

    def end(number: int, _: "FrameType | None") -> None:
        came.append(number)
        if len(came) > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    done = failed = 0
    try:
        console.note_dim("waiting for documents; Ctrl-C ends it")
        for unit in work_queue(index, once=once):
            done += unit is not None and not unit.reason
            failed += unit is not None and bool(unit.reason)
            if came:
                break
    finally:
        signal.signal(signal.SIGTERM, before)
    if as_json:
        print_json({"indexed": done, "failed": failed})
    else:
        print_line(f"indexed {pluralize(done, 'document')}" + (f", {failed:,} attempts failed" if failed else ""))
    return ExitCode.OK
