"""`postgres`: the tables of an index in PostgreSQL, and who may read and write them."""

from collections.abc import Sequence

import click

from retriever.command_line import options
from retriever.command_line.console import Console, print_json, print_line
from retriever.command_line.options import ExitCode
from retriever.display.sanitize import sanitize_line


@options.command(
    "postgres init --index postgresql://owner@db.example.org/notes",
    "postgres init --index postgresql://owner@db.example.org/notes --writer indexer --reader asker",
)
@click.argument("action", type=click.Choice(["init"]))
@click.option("--writer", "writers", multiple=True, metavar="ROLE", help="A role that may index. Repeat it for others.")
@click.option("--reader", "readers", multiple=True, metavar="ROLE", help="A role that may ask. Repeat it for others.")
@click.option("--hnsw", is_flag=True, help="Also make the index of near vectors, once documents are indexed.")
@click.option(
    "--tsvector", metavar="LANGUAGE", default="", help="Also keep words for keyword: tsvector, as of english."
)
@options.index
@options.as_json
def postgres(
    console: Console,
    action: str,
    index: str | None,
    writers: Sequence[str],
    readers: Sequence[str],
    *,
    hnsw: bool,
    tsvector: str,
    as_json: bool,
) -> ExitCode:
    """Make the tables of an index in a PostgreSQL database, or bring them up to this version (init).

    --index is postgresql://USER@HOST/DATABASE, with ?schema=NAME for another schema than hybrid_retrieve. The password
    comes from PGPASSWORD, .pgpass or a service file. To be run by the role that is to own the tables: docs/postgres.md.
    """
    from retriever.api import make_postgres_tables

    made = make_postgres_tables(index, writers, readers, hnsw=hnsw, tsvector=tsvector)
    if as_json:
        print_json({"index": made.index, "schema": made.schema, "version": made.version, "applied": list(made.applied)})
        return ExitCode.OK
    says = f"version {made.version}" if made.applied else f"version {made.version} already"
    print_line(f"the schema {sanitize_line(made.schema)} of {sanitize_line(made.index)} has {says}")
    if not writers and not readers:
        console.note_dim("--writer ROLE and --reader ROLE let other roles index and ask")
    return ExitCode.OK
