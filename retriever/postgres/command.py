"""`postgres`: the tables of an index in PostgreSQL, who may use them, and a process that embeds its texts."""

from collections.abc import Sequence

import click

from retriever.command_line import options
from retriever.command_line.console import Console
from retriever.command_line.options import ExitCode
from retriever.command_line.output import Output
from retriever.display.phrases import pluralize
from retriever.looking.indexes import find_index, index_request
from retriever.postgres import find_url, tables
from retriever.postgres.workers import work
from retriever.settings.layers import DEFAULT_PROFILE


@options.command(
    "postgres init --index postgresql://owner@db.example.org/notes",
    "postgres init --index postgresql://owner@db.example.org/notes --writer indexer --reader asker",
    "postgres grant sales docs --index postgresql://owner@db.example.org/notes",
    "postgres worker --index postgresql://indexer@db.example.org/notes --once",
)
@click.argument("action", type=click.Choice(["init", "grant", "worker"]))
@click.argument("names", nargs=-1, metavar="[ROLE [FOLDER]...]")
@click.option("--writer", "writers", multiple=True, metavar="ROLE", help="A role that may index. Repeatable.")
@click.option(
    "--reader",
    "readers",
    multiple=True,
    metavar="ROLE",
    help="A role that may search all folders. Repeatable.",
)
@click.option("--once", is_flag=True, help="Stop the worker when nothing is left to do.")
@options.index
@options.output
def postgres(
    console: Console,
    output: Output,
    action: str,
    names: Sequence[str],
    index: str | None,
    writers: Sequence[str],
    readers: Sequence[str],
    *,
    once: bool,
) -> ExitCode:
    """Make the tables of an index in a PostgreSQL database, and grant rights (init).

    --index is postgresql://USER@HOST/DATABASE, with ?schema=NAME for another schema than hybrid_retrieve. The password
    comes from PGPASSWORD, .pgpass or a service file. Run it as the role that is to own the tables: docs/guide/team.md.

    `grant ROLE FOLDER...` lets a role read only these folders, each named by the end of its path; `grant ROLE` takes
    all rights away. `worker` embeds what `index --enqueue` left. Run as many workers as you like, on any machine.
    """
    url, is_of_init = find_url(find_index(index)), bool(writers or readers)
    fits = {
        "init": not (names or once),
        "grant": bool(names) and not (once or is_of_init),
        "worker": not (names or is_of_init),
    }
    if not fits[action]:
        raise click.UsageError("init takes --writer and --reader, grant a role and its folders, worker --once")
    match action:
        case "init":
            made = tables.make_tables(url, writers, readers)
            output.show({"made": made}, ["made the tables" if made else "the tables are there already"])
        case "grant":
            seen = tables.grant_folders(url, names[0], names[1:])
            output.show({"role": names[0], "folders": seen}, [f"{names[0]} may read: {', '.join(seen) or 'nothing'}"])
        case _:
            console.note("waiting for texts; Ctrl-C ends it", dim=True)
            done = sum(work(index_request((), index, DEFAULT_PROFILE, None), once=once))
            output.show({"embedded": done}, [f"embedded {pluralize(done, 'text')}"])
    return ExitCode.OK
