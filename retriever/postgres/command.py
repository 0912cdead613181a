"""`postgres`: the tables of an index in PostgreSQL, who may use them, and a process that embeds its texts."""

import time
from collections.abc import Iterator, Sequence

import click

from retriever.command_line import options
from retriever.command_line.console import Console
from retriever.command_line.options import ExitCode
from retriever.command_line.output import Output
from retriever.display import pluralize
from retriever.embedding import open_encoder
from retriever.errors import UsageError
from retriever.indexing.request import IndexRequest
from retriever.indexing.update import TEXTS_AT_ONCE, embed_texts
from retriever.looking.indexes import find_index, index_request
from retriever.postgres import find_url, tables
from retriever.settings import DEFAULT_PROFILE
from retriever.store import reading, text_vectors
from retriever.store.database import Connection


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


# Any number of processes embed the texts of an index side by side, on any machine.
#
# There is no queue of jobs, as procrastinate would have it: `index --enqueue` commits documents with their words, and
# the texts wait in `pending`, as after an interruption. A batch of them belongs to the worker that has its advisory
# lock, which ends with the worker's connection, so that nothing is lost however it ends.

PAUSE_S = 1.0  # before a worker looks again
PENDING = "CAST(CAST(CAST('pending' AS regclass) AS bigint) AS integer)"  # tells the locks of two indexes apart
BATCH = f"CAST(place / {TEXTS_AT_ONCE} AS integer)"


def work(request: IndexRequest, *, once: bool) -> Iterator[int]:
    """Embed pending texts, beside any number of other workers, until the caller asks for no more.

    Args:
        request: of the index's settings.
        once: end when nothing is left to do.

    Yields:
        How many texts were embedded; 0, every second, where there is nothing to do.

    Raises:
        UsageError: the index has another embedding model than here.
        EncoderError: a text cannot be embedded.
        IndexUnusableError: the database cannot be used. Nothing is lost: start the worker again.
    """
    with request.store.read() as connection:
        encoder = open_encoder(request.profile.encoder, reading.meta(connection, "fingerprint"))
        while True:
            if texts := claim_texts(connection):
                if encoder is None or encoder.fingerprint != reading.meta(connection, "fingerprint"):
                    raise UsageError("the index has another embedding model than this worker: start again")
                embed_texts(connection, encoder, texts)
                connection.execute("SELECT pg_advisory_unlock_all()")
                yield len(texts)
            elif once and not text_vectors.pending_count(connection):
                return
            else:
                yield 0
                time.sleep(PAUSE_S)


def claim_texts(connection: Connection) -> dict[bytes, str]:
    """Lock a batch of pending texts that no other worker has, and return it by hash; nothing where there is none."""
    batches = connection.execute(f"SELECT DISTINCT {BATCH} AS batch FROM pending ORDER BY batch").fetchall()
    for (batch,) in batches:
        if connection.execute(f"SELECT pg_try_advisory_lock({PENDING}, ?)", (batch,)).fetchone()[0]:
            query = f"SELECT text_hash, text FROM pending WHERE {BATCH} = ? ORDER BY place"
            if texts := dict(connection.execute(query, (batch,)).fetchall()):
                return texts  # else another worker has just embedded it
    return {}
