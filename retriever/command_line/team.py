"""`postgres`: the tables of an index in PostgreSQL, and who may use them; `worker`: a process that indexes into one."""

from collections.abc import Sequence

import click

from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line
from retriever.command_line.options import ExitCode
from retriever.display.phrases import pluralize
from retriever.indexes import find_index, index_request
from retriever.settings.layers import DEFAULT_PROFILE


@options.command(
    "postgres init --index postgresql://owner@db.example.org/notes",
    "postgres init --index postgresql://owner@db.example.org/notes --writer indexer --reader asker",
    "postgres grant sales docs --index postgresql://owner@db.example.org/notes",
)
@click.argument("action", type=click.Choice(["init", "grant"]))
@click.argument("names", nargs=-1, metavar="[ROLE [FOLDER]...]")
@click.option("--writer", "writers", multiple=True, metavar="ROLE", help="A role that may index. Repeat it for others.")
@click.option(
    "--reader",
    "readers",
    multiple=True,
    metavar="ROLE",
    help="A role that may ask, of all folders. Repeat it for others.",
)
@click.option("--hnsw", is_flag=True, help="Also make the index of near vectors, once documents are indexed.")
@click.option(
    "--tsvector", metavar="LANGUAGE", default="", help="Also keep words for keyword: tsvector, as of english."
)
@options.index
@options.as_json
def postgres(
    console: Console,
    action: str,
    names: Sequence[str],
    index: str | None,
    writers: Sequence[str],
    readers: Sequence[str],
    *,
    hnsw: bool,
    tsvector: str,
    as_json: bool,
) -> ExitCode:
    """Make the tables of an index in a PostgreSQL database, and grant rights (init).

    --index is postgresql://USER@HOST/DATABASE, with ?schema=NAME for another schema than hybrid_retrieve. The password
    comes from PGPASSWORD, .pgpass or a service file. Run it as the role that is to own the tables: docs/guide/team.md.

    `grant ROLE FOLDER...` lets a role see these folders and nothing else, `grant ROLE` nothing any more. A folder is
    named by its path, or the end of it.
    """
    from retriever.store import tables

    url = find_index(index).url
    if action == "grant":
        if not names or writers or readers or hnsw or tsvector:
            raise click.UsageError(
                "grant takes a role and its folders; all options but --index and --json are for init"
            )
        seen = tables.grant_folders(url, names[0], names[1:])
        if as_json:
            print_json({"role": names[0], "folders": list(seen)})
        else:
            print_line(f"{names[0]} may read: {', '.join(seen) or 'nothing'}")
        return ExitCode.OK
    if names:
        raise click.UsageError("init takes roles by --writer and --reader")
    made = tables.make_tables(url, writers, readers)
    if tsvector:
        tables.make_tsvector(url, tsvector)
    if hnsw:
        tables.make_hnsw(url)
    if as_json:
        print_json({"made": made})
        return ExitCode.OK
    print_line("made the tables" if made else "the tables are there already")
    if not writers and not readers:
        console.note(
            "--writer ROLE and --reader ROLE let other roles index and ask; `postgres grant` some folders", dim=True
        )
    return ExitCode.OK


@options.command(
    "worker --index postgresql://indexer@db.example.org/notes",
    "worker --index postgresql://indexer@db.example.org/notes --once",
)
@click.option("--once", is_flag=True, help="End when nothing is left to do.")
@options.index
@options.as_json
def worker(console: Console, index: str | None, *, once: bool, as_json: bool) -> ExitCode:
    """Embed the texts that `index --enqueue` left to workers; any number of them, on any machine.

    `status` shows how many chunks have a vector. Nothing is lost however a worker ends.
    """
    from retriever.indexing.workers import work  # what indexes

    console.note("waiting for texts; Ctrl-C ends it", dim=True)
    done = sum(work(index_request((), index, DEFAULT_PROFILE, None), once=once))
    if as_json:
        print_json({"embedded": done})
    else:
        print_line(f"embedded {pluralize(done, 'text')}")
    return ExitCode.OK
