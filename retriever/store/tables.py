"""The tables of an index in PostgreSQL: whether they are there, and how they are made."""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.errors import IndexVersionError, NoIndexError, StorageError
from retriever.store.connection import Connection
from retriever.store.postgres import PostgresConnection, close_pools, open_owner
from retriever.store.postgres_errors import explain_rights, suggest_init
from retriever.store.rights import grant_all
from retriever.store.url import DatabaseUrl

if TYPE_CHECKING:
    import psycopg

TABLES_VERSION = 1  # of postgres.sql: the comment of the schema. Tables of another version are refused
OLDEST_SERVER = 140_000  # bit_count, which finds words by their letters
OLDEST_PGVECTOR = (0, 8)  # iterative scans of HNSW
MOST_GRAPH_KB = 4 << 20  # of the server's memory, while a graph is made: 2 kB for each vector, where that is less


def check_server(connection: "psycopg.Connection", url: DatabaseUrl) -> None:
    """Raise where the server or pgvector is too old."""
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        raise IndexVersionError(
            f"{url} is on PostgreSQL {version // 10_000}, and version {OLDEST_SERVER // 10_000} is the oldest that"
            " will do; use a newer server"
        )
    row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    if row is None:
        raise NoIndexError(f"{url} has no pgvector yet", hint=suggest_init(url))
    if tuple(map(int, row[0].split(".")[:2])) < OLDEST_PGVECTOR:
        raise IndexVersionError(
            f"{url} has pgvector {row[0]}, and {'.'.join(map(str, OLDEST_PGVECTOR))} is the oldest that will do;"
            " install a newer one on the server, then run there: ALTER EXTENSION vector UPDATE"
        )


def check_schema(connection: "psycopg.Connection", url: DatabaseUrl) -> None:
    """Raise where the tables are not there, or of another version."""
    found = read_version(connection, url)
    if found is None:
        raise NoIndexError(f"{url} has no index in the schema {url.schema}", hint=suggest_init(url))
    if found != TABLES_VERSION:
        raise IndexVersionError(
            f"the tables of {url} have version {found}, this program reads version {TABLES_VERSION}; name another"
            " ?schema=NAME, and index the documents there"
        )


def read_version(connection: "psycopg.Connection", url: DatabaseUrl) -> int | None:
    """Read the version of the tables; None where there are none."""
    query = (
        "SELECT obj_description(oid, 'pg_namespace'), has_schema_privilege(oid, 'USAGE') FROM pg_namespace"
        " WHERE nspname = %s"
    )
    found, has_rights = connection.execute(query, (url.schema,)).fetchone() or (None, True)
    if not has_rights:
        raise explain_rights(url, f"it has no rights to the schema {url.schema}")
    return int(found.rpartition(" ")[2]) if found and found.startswith("hybrid-retrieve ") else None


def make_tables(url: DatabaseUrl, writers: Sequence[str] = (), readers: Sequence[str] = ()) -> bool:
    """Make the tables where there are none, and grant rights, all or nothing; return whether tables were made."""
    from psycopg import sql

    with open_owner(url) as connection:
        if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone() is None:
            connection.execute("CREATE EXTENSION vector")
        check_server(connection, url)
        is_new = read_version(connection, url) is None
        if is_new:
            schema = sql.Identifier(url.schema)
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
            connection.execute(_read_sql("postgres"))
            version = sql.Literal(f"hybrid-retrieve {TABLES_VERSION}")
            connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(schema, version))
        check_schema(connection, url)
        grant_all(connection, url, writers, readers)
    close_pools()
    return is_new


def distribute_tables(url: DatabaseUrl) -> None:
    """Spread the tables, and what is in them, over the nodes of a Citus cluster; StorageError without Citus."""
    from psycopg import sql

    with open_owner(url) as connection:
        if connection.execute("SELECT to_regclass('pg_catalog.pg_dist_partition')").fetchone() == (None,):
            raise StorageError(
                f"{url} is no database of a Citus cluster",
                hint="run CREATE EXTENSION citus on each node, and name the workers with citus_add_node: "
                "docs/internals/postgres.md",
            )
        done = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = CAST('nodes' AS regclass)"
        if connection.execute(done).fetchone() is None:
            for statement in _read_sql("citus").decode().split(";\n"):  # Citus takes one at a time
                connection.execute(statement.encode())
            database = sql.Identifier(connection.info.dbname)
            # What a transaction sets, such as that of HNSW, its workers are told; and rows of reference tables
            # may change in it after those of others.
            for setting in ("citus.propagate_set_commands = 'local'", "citus.multi_shard_modify_mode = 'sequential'"):
                connection.execute(sql.SQL(f"ALTER DATABASE {{}} SET {setting}").format(database))


def make_tsvector(url: DatabaseUrl, language: str) -> None:
    """Keep the words of each section as PostgreSQL cuts them by a text search configuration: `keyword: tsvector`."""
    from psycopg import sql

    with open_owner(url) as connection:
        connection.execute("ALTER TABLE nodes DROP COLUMN IF EXISTS lexemes")
        # A tsvector holds a megabyte of words, and positions of the first 16,383: what is cut off has none.
        text = "left(title || ' ' || breadcrumb || ' ' || summary || ' ' || text, 250000)"
        statement = (
            "ALTER TABLE nodes ADD COLUMN lexemes tsvector"
            f" GENERATED ALWAYS AS (to_tsvector(CAST({{}} AS regconfig), {text})) STORED"
        )
        connection.execute(sql.SQL(statement).format(sql.Literal(language)))
        connection.execute("CREATE INDEX nodes_by_lexeme ON nodes USING gin (lexemes)")
        connection.execute(sql.SQL("COMMENT ON COLUMN nodes.lexemes IS {}").format(sql.Literal(language)))


def make_hnsw(connection: Connection, fingerprint: str, dimension: int) -> bool:
    """Make an HNSW index over the vectors of an encoder, unless there is one; False where this role may not."""
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


def _read_sql(name: str) -> bytes:
    return Path(__file__).with_name(f"{name}.sql").read_bytes()
