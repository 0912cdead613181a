"""The tables of an index in PostgreSQL: whether they are there, and how they are made."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.errors import IndexVersionError, NoIndexError, StorageError
from retriever.store.connection import Connection
from retriever.store.postgres import PostgresConnection, close_pools, connect
from retriever.store.postgres_errors import suggest_init, translate_errors
from retriever.store.rights import grant_tables
from retriever.store.url import DatabaseUrl

if TYPE_CHECKING:
    import psycopg

OLDEST_SERVER = 140_000  # bit_count, which finds words by their letters
OLDEST_PGVECTOR = (0, 8)  # iterative scans of HNSW
MOST_GRAPH_KB = 4 << 20  # of the server's memory, while a graph is made: 2 kB for each vector, where that is less


def check_server(connection: "psycopg.Connection", address: DatabaseUrl) -> None:
    """Whether the server and pgvector are new enough."""
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        raise IndexVersionError(
            f"{address} is on PostgreSQL {version // 10_000}, and version {OLDEST_SERVER // 10_000} is the oldest that"
            " will do; use a newer server"
        )
    row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    if row is None:
        raise NoIndexError(f"{address} has no pgvector yet", hint=suggest_init(address))
    if tuple(map(int, row[0].split(".")[:2])) < OLDEST_PGVECTOR:
        raise IndexVersionError(
            f"{address} has pgvector {row[0]}, and {'.'.join(map(str, OLDEST_PGVECTOR))} is the oldest that will do;"
            " install a newer one on the server, then run there: ALTER EXTENSION vector UPDATE"
        )


def check_schema(connection: "psycopg.Connection", address: DatabaseUrl) -> None:
    """Whether the tables are there, and of this version."""
    found = read_version(connection, address.schema)
    newest = list_migrations()[-1][0]
    if found is None:
        raise NoIndexError(f"{address} has no index in the schema {address.schema}", hint=suggest_init(address))
    if found < newest:
        raise IndexVersionError(
            f"the tables of {address} have version {found}, this program needs version {newest}",
            hint=suggest_init(address),
        )
    if found > newest:
        raise IndexVersionError(
            f"the tables of {address} have version {found}, this program knows version {newest}; use a newer program"
        )


def read_version(connection: "psycopg.Connection", schema: str) -> int | None:
    """The last migration that was applied; None where there are no tables."""
    from psycopg import sql

    query = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'migrations'"
    if connection.execute(query, (schema,)).fetchone() is None:
        return None
    table = sql.SQL("SELECT max(number) FROM {}.migrations").format(sql.Identifier(schema))
    row = connection.execute(table).fetchone()
    return None if row is None else row[0]


def list_migrations() -> list[tuple[int, str]]:
    """The numbers of the migrations, ascending, and their statements."""
    files = sorted(Path(__file__).with_name("migrations").glob("*.sql"))
    return [(int(file.stem), file.read_text(encoding="utf-8")) for file in files]


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of an index, as `postgres init` leaves them."""

    index: str
    schema: str
    version: int
    applied: tuple[int, ...]
    """The migrations that were missing."""


def make_tables(address: DatabaseUrl, writers: Sequence[str] = (), readers: Sequence[str] = ()) -> Tables:
    """Applies the migrations that are missing and grants rights, all or nothing; see `sharing.make_postgres_tables`."""
    from psycopg import sql

    applied = []
    with translate_errors(address), contextlib.closing(connect(address)) as connection:
        schema = sql.Identifier(address.schema)
        with connection.transaction():
            if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone() is None:
                connection.execute("CREATE EXTENSION vector")
            check_server(connection, address)
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
            connection.execute(
                sql.SQL(
                    "CREATE TABLE IF NOT EXISTS {}.migrations"
                    " (number bigint PRIMARY KEY, applied_at timestamptz NOT NULL)"
                ).format(schema)
            )
            connection.execute(sql.SQL("SET LOCAL search_path TO {}, public").format(schema))
            connection.execute(sql.SQL("LOCK TABLE migrations IN EXCLUSIVE MODE"))
            found = read_version(connection, address.schema) or 0
            for number, statements in list_migrations():
                if number > found:
                    connection.execute(statements)  # of a file of ours
                    connection.execute("INSERT INTO migrations VALUES (%s, now())", (number,))
                    applied.append(number)
            grant_tables(connection, address, writers, readers, found)
    close_pools()
    return Tables(str(address), address.schema, list_migrations()[-1][0], tuple(applied))


def distribute_tables(address: DatabaseUrl) -> None:
    """Spreads the tables, and what is in them, over the nodes of a Citus cluster; nothing where that was done.

    Raises:
        StorageError: the database has no Citus.
    """
    from psycopg import sql

    with translate_errors(address), contextlib.closing(connect(address)) as connection, connection.transaction():
        connection.execute(sql.SQL("SET LOCAL search_path TO {}, public").format(sql.Identifier(address.schema)))
        if connection.execute("SELECT to_regclass('pg_catalog.pg_dist_partition')").fetchone() == (None,):
            raise StorageError(
                f"{address} is no database of a Citus cluster",
                hint="run CREATE EXTENSION citus on each node, and name the workers with citus_add_node: "
                "docs/internals/postgres.md",
            )
        done = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = CAST('nodes' AS regclass)"
        if connection.execute(done).fetchone() is None:
            statements = Path(__file__).with_name("citus.sql").read_text(encoding="utf-8")
            for statement in statements.split(";\n"):  # Citus takes one at a time
                connection.execute(statement)
            database = sql.Identifier(connection.info.dbname)
            # What a transaction sets, such as that of HNSW, its workers are told; and rows of reference tables
            # may change in it after those of others.
            for setting in ("citus.propagate_set_commands = 'local'", "citus.multi_shard_modify_mode = 'sequential'"):
                connection.execute(sql.SQL(f"ALTER DATABASE {{}} SET {setting}").format(database))


def make_tsvector(address: DatabaseUrl, language: str) -> None:
    """Keeps the words of each section as PostgreSQL cuts them, for `keyword: tsvector`; others than before if need be.

    Raises:
        StorageError: the server has no such text search configuration.
    """
    from psycopg import sql

    with translate_errors(address), contextlib.closing(connect(address)) as connection, connection.transaction():
        connection.execute(sql.SQL("SET LOCAL search_path TO {}, public").format(sql.Identifier(address.schema)))
        connection.execute("ALTER TABLE nodes DROP COLUMN IF EXISTS lexemes")
        # A tsvector holds a megabyte of words, and positions of the first 16,383: what is cut off has none.
        text = "left(title || ' ' || breadcrumb || ' ' || summary || ' ' || text, 250000)"
        statement = (
            f"ALTER TABLE nodes ADD COLUMN lexemes tsvector GENERATED ALWAYS AS (to_tsvector({{}}, {text})) STORED"
        )
        name = sql.SQL("CAST({} AS regconfig)").format(sql.Literal(language))
        connection.execute(sql.SQL(statement).format(name))
        connection.execute("CREATE INDEX nodes_by_lexeme ON nodes USING gin (lexemes)")
        connection.execute(sql.SQL("COMMENT ON COLUMN nodes.lexemes IS {}").format(sql.Literal(language)))


def make_hnsw(connection: Connection, fingerprint: str, dimension: int) -> bool:
    """An HNSW index over the vectors of an encoder, unless there is one; False where this role may not make it."""
    # With pgvector's own m = 16, ef_construction = 64 a third of the questions lost one of forty texts; with these none
    # did (6,552 texts, 30 questions). 3.1 s in place of 2.3 s.
    from psycopg import errors, sql

    assert isinstance(connection, PostgresConnection)
    assert connection.own is not None, "for the one writer"
    name = f"hnsw_{blake2b(fingerprint.encode(), digest_size=6).hexdigest()}"
    if connection.own.execute("SELECT to_regclass(%s)", (name,)).fetchone() != (None,):
        return True
    statement = sql.SQL(
        "CREATE INDEX {} ON vectors USING hnsw ((CAST(vector AS halfvec({}))) halfvec_cosine_ops)"
        " WITH (m = 24, ef_construction = 200) WHERE fingerprint = {}"
    )
    # pgvector makes the graph in memory; with less than it takes, it goes on many times as slowly.
    connection.own.execute(
        "SELECT set_config('maintenance_work_mem', greatest(pg_size_bytes(current_setting('maintenance_work_mem'))"
        " / 1024, least(2 * (SELECT count(*) FROM vectors), %s)) || 'kB', false)",
        (MOST_GRAPH_KB,),
    )
    try:
        connection.own.execute(statement.format(sql.Identifier(name), sql.Literal(dimension), sql.Literal(fingerprint)))
    except errors.InsufficientPrivilege:
        return False
    return True
