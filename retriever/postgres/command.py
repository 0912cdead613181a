"""`postgres`: the tables of an index in PostgreSQL, who may use them, and a process that embeds its texts.

Roles of the server have rights to folders, which the policies of tables.sql keep. Readers' roles log in through
`serve` alone, which asks as them: a user who writes SQL can measure what row-level security hides.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retriever.command_line import options
from retriever.command_line.output import Console, Output
from retriever.display import pluralize
from retriever.embedding import open_encoder
from retriever.errors import NoIndexError, UsageError
from retriever.indexing.request import IndexRequest
from retriever.indexing.update import TEXTS_AT_ONCE, embed_texts
from retriever.looking.indexes import find_index, index_request
from retriever.postgres import find_url
from retriever.postgres.connection import TABLES_FORMAT, DatabaseUrl, check_tables, open_owner
from retriever.settings import DEFAULT_PROFILE
from retriever.store import reading, text_vectors
from retriever.store.database import Connection, read_schema

if TYPE_CHECKING:
    import psycopg


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
) -> None:
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
            made = make_tables(url, writers, readers)
            output.show({"made": made}, ["made the tables" if made else "the tables are there already"])
        case "grant":
            seen = grant_folders(url, names[0], names[1:])
            output.show({"role": names[0], "folders": seen}, [f"{names[0]} may read: {', '.join(seen) or 'nothing'}"])
        case _:
            console.note("waiting for texts; Ctrl-C ends it", dim=True)
            done = sum(work(index_request((), index, DEFAULT_PROFILE, None), once=once))
            output.show({"embedded": done}, [f"embedded {pluralize(done, 'text')}"])


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
    for (batch,) in connection.execute(f"SELECT DISTINCT {BATCH} AS batch FROM pending ORDER BY batch"):
        if connection.execute(f"SELECT pg_try_advisory_lock({PENDING}, ?)", (batch,)).fetchone()[0]:
            query = f"SELECT text_hash, text FROM pending WHERE {BATCH} = ? ORDER BY place"
            if texts := dict(connection.execute(query, (batch,))):
                return texts  # else another worker has just embedded it
    return {}


# The tables.


def make_tables(url: DatabaseUrl, writers: Sequence[str] = (), readers: Sequence[str] = ()) -> bool:
    """Make the tables where there are none, and grant rights, all or nothing; by the role that owns them.

    Args:
        url: where; its schema is made as well.
        writers: roles that may index and ask from now on.
        readers: roles that may ask from now on, see all folders, and do nothing else.

    Returns:
        Whether tables were made.

    Raises:
        UsageError: the extra `postgres` is not installed.
        IndexUnusableError: the server cannot be reached, is too old, has no pgvector, or this role may not do that.
    """
    from psycopg import sql

    with open_owner(url) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        is_new = False
        try:
            check_tables(connection, url)
        except NoIndexError:
            is_new = True
            schema, version = sql.Identifier(url.schema), sql.Literal(f"hybrid-retrieve {TABLES_FORMAT}")
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
            connection.execute(translate_schema(read_schema()).encode())
            connection.execute(Path(__file__).with_name("tables.sql").read_bytes())
            connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(schema, version))
        for role in readers:
            set_rights(connection, url, role, READER, "SELECT")
        for role in writers:
            set_rights(connection, url, role, WRITER, "ALL")
    return is_new


def translate_schema(schema: str) -> str:
    """Return the tables of index.sqlite in PostgreSQL's words.

    Texts are compared byte by byte, as SQLite compares them: the same index gives the same order on any server.

    >>> translate_schema("CREATE TABLE a (b TEXT, c INTEGER) STRICT;")
    'CREATE TABLE a (b text COLLATE "C", c bigint);'
    """
    for ours, theirs in (
        ("INTEGER PRIMARY KEY AUTOINCREMENT", "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"),
        (" TEXT", ' text COLLATE "C"'),
        (" INTEGER", " bigint"),
        (" REAL", " double precision"),
        (" BLOB", " bytea"),
        (") STRICT, WITHOUT ROWID;", ");"),
        (") STRICT;", ");"),
    ):
        schema = schema.replace(ours, theirs)
    return schema


# Who may see what.

READER = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
)
WRITER = (
    *READER,
    "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
    "GRANT USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
    "REVOKE INSERT, UPDATE, DELETE ON rights FROM {role}",
)
NO_RIGHTS = tuple(
    f"REVOKE ALL ON {what} FROM {{role}}"
    for what in ("ALL TABLES IN SCHEMA {schema}", "ALL SEQUENCES IN SCHEMA {schema}", "SCHEMA {schema}")
)
ROLE = "CAST(quote_ident(%s) AS regrole)"


def set_rights(
    connection: "psycopg.Connection", url: DatabaseUrl, role: str, rights: Sequence[str] = (), everywhere: str = ""
) -> None:
    """Let a role do this with the tables, and nothing else; by their owner, in a transaction.

    Args:
        connection: of the owner.
        url: the database.
        role: one that is there, and not the owner: UsageError.
        rights: READER or WRITER; none takes all rights from it.
        everywhere: what it may do with the rows of every folder, those too that come: `SELECT` or `ALL`.
    """
    from psycopg import sql

    owned = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tableowner = %s LIMIT 1"
    if connection.execute(owned, (url.schema, role)).fetchone():
        raise UsageError(f"{role} owns the tables and may do everything; name other roles")
    names = {"schema": sql.Identifier(url.schema), "role": sql.Identifier(role)}
    for statement in (*NO_RIGHTS, *rights):
        connection.execute(sql.SQL(statement).format(**names))
    connection.execute(f"DELETE FROM rights WHERE role = {ROLE}", (role,))
    query = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND rowsecurity"
    for (table,) in connection.execute(query, (url.schema,)).fetchall():
        names["table"] = sql.Identifier(url.schema, table)
        connection.execute(sql.SQL("DROP POLICY IF EXISTS {role} ON {table}").format(**names))
        if everywhere:
            policy = f"CREATE POLICY {{role}} ON {{table}} FOR {everywhere} TO {{role}} USING (true)"
            connection.execute(sql.SQL(policy).format(**names))


def grant_folders(url: DatabaseUrl, role: str, folders: Sequence[str]) -> tuple[str, ...]:
    """Let a role of PostgreSQL read these folders of an index, and nothing else; by the owner of the tables.

    Args:
        url: the database.
        role: one that is there. Its members may read the same.
        folders: paths of indexed folders, or the ends of them; none takes all rights from the role.

    Returns:
        The folders that the role may read now.

    Raises:
        UsageError: there is no such folder; nothing was changed.
        IndexUnusableError: the database cannot be used.
    """
    with open_owner(url) as connection:
        known = dict(connection.execute("SELECT path, folder_key FROM folders ORDER BY folder_key").fetchall())
        seen = [_find_folder(name, known) for name in folders]
        set_rights(connection, url, role, READER if seen else ())
        if seen:
            query = f"INSERT INTO rights SELECT {ROLE}, key FROM unnest(CAST(%s AS bigint[])) AS key"
            connection.execute(query, (role, [known[path] for path in set(seen)]))
    return tuple(path for path in known if path in seen)


def _find_folder(name: str, known: Collection[str]) -> str:
    """Return the folder with this path, or with this end of its path.

    >>> [_find_folder(name, ["/a/notes", "/b/tea"]) for name in ("notes", "/b/tea", "a/notes/")]
    ['/a/notes', '/b/tea', '/a/notes']
    >>> _find_folder("tea", ["/a/tea", "/b/tea"])
    Traceback (most recent call last):
        ...
    retriever.errors.UsageError: 'tea' may be any of: /a/tea, /b/tea
    >>> _find_folder("otes", ["/a/notes"])
    Traceback (most recent call last):
        ...
    retriever.errors.UsageError: there is no folder 'otes' in the index; there are: /a/notes
    """
    meant = [path for path in known if path == name or f"/{path}".endswith(f"/{name.strip('/')}")]
    if len(meant) != 1:
        wrong = f"{name!r} may be any of" if meant else f"there is no folder {name!r} in the index; there are"
        raise UsageError(f"{wrong}: {', '.join(meant or known) or 'none yet'}")
    return meant[0]
