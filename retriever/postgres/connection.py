"""Addresses of databases; connections, by the statements that are written for SQLite; errors, with what to do."""

import contextlib
import select
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

import numpy as np

from retriever.errors import (
    DocumentsError,
    IndexLockedError,
    IndexVersionError,
    NoIndexError,
    RetrieverError,
    StorageError,
    UsageError,
    name_installer,
    suggest,
)
from retriever.store.database import Rows
from retriever.store.text_vectors import PackedVector

if TYPE_CHECKING:
    import psycopg


SCHEMA = "hybrid_retrieve"
"""Where the tables are when the address names no schema."""
FORM = "postgresql://USER@HOST/DATABASE"
CONNECT_S = "10"  # unless the address says otherwise


@dataclass(frozen=True)
class DatabaseUrl:
    """`postgresql://user@host/database?schema=team`, otherwise as libpq reads it, without its password."""

    text: str
    dsn: str
    """The address as libpq is given it."""
    schema: str
    """Where the tables are."""
    password: str | None = field(repr=False, compare=False)
    """None leaves it to libpq: PGPASSWORD, .pgpass, a service file."""

    def __str__(self) -> str:
        return self.text


def read_url(text: str) -> DatabaseUrl:
    """Read the address of a database.

    Raises:
        UsageError: it cannot be read; nothing of a password is repeated.

    >>> url = read_url("postgresql://me:p%40ss@db/notes?schema=team&sslmode=require")
    >>> url.dsn, url.schema, url.password
    ('postgresql://me@db/notes?connect_timeout=10&sslmode=require', 'team', 'p@ss')
    >>> print(url)
    postgresql://me@db/notes?schema=team&sslmode=require
    >>> read_url("postgresql://me@db/notes").password is None
    True
    """
    _, found, rest = text.partition("://")
    if not found:
        raise UsageError(f"write the address of a database as {FORM}")
    place, _, query = rest.partition("?")
    account, at, host = place.rpartition("@")
    if not at and "@" in query and ":" in place:  # a password with a question mark
        raise UsageError(f"percent-encode the special characters of the password in {FORM}")
    user, _, password = account.partition(":")
    given = dict(parse_qsl(query))
    password = given.pop("password", unquote(password))
    plain = f"postgresql://{user}{at}{host}"
    text, schema = join_query(plain, given), given.pop("schema", SCHEMA)
    return DatabaseUrl(text, join_query(plain, {"connect_timeout": CONNECT_S, **given}), schema, password or None)


def join_query(place: str, parameters: Mapping[str, str]) -> str:
    """Return an address with its parameters."""
    return f"{place}?{urlencode(parameters, quote_via=quote)}" if parameters else place


# Statements.

TABLES_FORMAT = 19  # rises with INDEX_FORMAT, and when tables.sql or the rights change
# The writer holds it: `index` for as long as it runs, workers for a transaction. It ends with its connection.
LOCK = "pg_advisory{}_lock(CAST(CAST('documents' AS regclass) AS bigint))"
# To compile a statement takes longer than any of ours does. Each reads a few rows, which are in memory or on a disk
# without a head: by the default costs the planner reads whole tables to join hundreds of rows. A machine that vanishes
# lets its lock go after a minute; the system's own two hours are for terminals.
SETTINGS = (
    "SET jit TO off; SET random_page_cost TO 1.1; SET plan_cache_mode TO force_custom_plan;"
    " SET tcp_keepalives_idle TO 30; SET tcp_keepalives_interval TO 10; SET tcp_keepalives_count TO 3"
)

# SQLite keeps the order of a CROSS JOIN, and a table's rows in the order in which they came.
_DIALECT = (
    ("%", "%%"),
    ("IN (SELECT value FROM json_each(?))", "= ANY(?)"),
    ("CAST(group_concat(block, '') AS BLOB)", "string_agg(block, '')"),
    ("CROSS JOIN", "JOIN"),
    ("WITH wanted AS (", "WITH wanted AS MATERIALIZED ("),  # SQLite reads it as a part of the whole
    ("CAST(? AS text)", 'CAST(? AS text) COLLATE "C"'),  # as the columns, which it is compared with
    ("ORDER BY rowid", "ORDER BY place"),
    ("BEGIN IMMEDIATE", f"BEGIN; SELECT {LOCK.format('_xact')}"),
    ("BEGIN DEFERRED", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
    ("?", "%s"),
)


@lru_cache(maxsize=512)
def translate(query: str) -> str:
    """Return a statement of the store in PostgreSQL's words.

    >>> translate("SELECT '%' FROM nodes WHERE node_key IN (SELECT value FROM json_each(?))")
    "SELECT '%%' FROM nodes WHERE node_key = ANY(%s)"
    """
    for ours, theirs in _DIALECT:
        query = query.replace(ours, theirs)
    return query


class PostgresConnection:
    """A connection, which is made anew for the next question where the server has ended it."""

    def __init__(self, url: DatabaseUrl) -> None:
        self._url = url
        self._own = connect_within(url)

    def execute(self, query: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run one statement."""
        # A server that went away has said so: a look at the socket costs no round trip.
        if query == "BEGIN DEFERRED" and (self._own.closed or select.select([self._own.fileno()], [], [], 0)[0]):
            self._own.close()
            self._own = connect_within(self._url)
        begins = query.startswith("BEGIN")  # two statements, for which there is no binary form
        return self._own.cursor(binary=not begins).execute(translate(query), parameters or None)

    def executemany(self, query: str, parameters: Iterable[Sequence[Any]], /) -> None:
        """Run one statement for each of several rows of values."""
        if rows := list(parameters):
            self._own.cursor(binary=True).executemany(translate(query), rows)

    def pack_list(self, values: Sequence[int | str]) -> object:
        """Return the list, which the server takes as an array."""
        return values

    def find_damage(self) -> Iterator[str]:
        """Yield nothing: PostgreSQL checks its own pages."""
        yield from ()

    def close(self) -> None:
        """End the connection."""
        self._own.close()


# Sessions


def connect(url: DatabaseUrl) -> "psycopg.Connection":
    """Connect to the schema of an index, which may be still to be made.

    Raises:
        UsageError: the extra `postgres` is not installed.
    """
    try:
        import psycopg
        from psycopg import sql
    except ModuleNotFoundError as error:
        hint = f"run: {name_installer('postgres')}"
        raise UsageError("an index in PostgreSQL needs the extra `postgres`", hint=hint) from error
    # Without a password, libpq has PGPASSWORD, .pgpass, or a service file.
    connection = psycopg.connect(url.dsn, password=url.password, autocommit=True, application_name="hybrid_retrieve")
    place = sql.SQL("SET search_path TO {}, public; ").format(sql.Identifier(url.schema))
    connection.execute(place + sql.SQL(SETTINGS))
    return connection


def connect_within(url: DatabaseUrl) -> "psycopg.Connection":
    """Connect to the tables of an index, whose version is checked."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(contextlib.closing(connect(url)))
        register_vectors(connection, check_tables(connection, url))
        stack.pop_all()
    return connection


@contextmanager
def open_owner(url: DatabaseUrl) -> "Iterator[psycopg.Connection]":
    """Begin a transaction of the owner in the schema of an index, which may be still to be made."""
    with translate_errors(url), contextlib.closing(connect(url)) as connection, connection.transaction():
        yield connection


def check_tables(connection: "psycopg.Connection", url: DatabaseUrl) -> int:
    """Return the number of the type of stored vectors; raise where the tables are not as needed."""
    query = (
        "SELECT CAST(to_regtype('halfvec') AS oid), obj_description(space.oid, 'pg_namespace'),"
        " has_schema_privilege(space.oid, 'USAGE')"
        " FROM (SELECT 1) AS one LEFT JOIN pg_namespace AS space ON nspname = %s"
    )
    stored, named, has_rights = connection.execute(query, (url.schema,)).fetchone() or ()
    if has_rights is False:
        raise StorageError(f"{url}: {RIGHTS.format(f'it has no rights to the schema {url.schema}')}")
    version = (named or "").removeprefix("hybrid-retrieve ")
    if not version.isdigit():
        raise NoIndexError(f"{url} has no index in the schema {url.schema}", hint=suggest_init(url))
    if int(version) != TABLES_FORMAT:
        raise IndexVersionError(
            f"the tables of {url} have version {version}, this program reads version {TABLES_FORMAT}",
            hint="name another ?schema=NAME, and index the documents there",
        )
    return int(stored)


def register_vectors(connection: "psycopg.Connection", stored: int) -> None:
    """Convert stored vectors, whose type has this number, to and from the form of `text_vectors`."""
    from psycopg.adapt import Dumper, Loader
    from psycopg.pq import Format

    class PackedDumper(Dumper):
        format, oid = Format.BINARY, stored

        def dump(self, obj: PackedVector) -> bytes:
            return len(obj).to_bytes(2) + b"\x00\x00" + np.frombuffer(obj, np.int8).astype(">f2").tobytes()

    class PackedLoader(Loader):
        format = Format.BINARY

        def load(self, data: Any) -> PackedVector:  # noqa: ANN401  # bytes, or a view of some
            return PackedVector(np.frombuffer(data, ">f2", offset=4).astype(np.int8).tobytes())

    connection.adapters.register_dumper(PackedVector, PackedDumper)
    connection.adapters.register_loader(stored, PackedLoader)


RIGHTS = "this role may not do that: {}; use a role with the rights, or have them granted (docs/guide/team.md)"
# By the beginning of a SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html. {} is what was said.
CASES: tuple[tuple[tuple[str, ...], type[RetrieverError], str], ...] = (
    (("55P03",), IndexLockedError, "another process is writing to the index; try again when it has finished"),
    (("42501",), StorageError, RIGHTS),
    (("42P01", "42703", "3F000"), IndexVersionError, "the tables are not of this version, or not for this role: {}"),
    (("22", "23", "54"), DocumentsError, "it cannot hold a document: {}"),
    (("0A000", "58P01"), StorageError, "{}; the server needs https://github.com/pgvector/pgvector#installation"),
)
UNREACHABLE = (
    "it cannot be reached: {}; look whether the server runs, and at host, port, user, role and password (PGPASSWORD,"
    " .pgpass, a service file)"
)


@contextmanager
def translate_errors(address: DatabaseUrl) -> Iterator[None]:
    """Turn Psycopg's exceptions into those of this program."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "psycopg":
            raise
        raise explain(error, address) from error


def explain(error: Exception, address: DatabaseUrl) -> RetrieverError:
    r"""Return the error that says what an exception of psycopg means, and what to do.

    >>> class Denied(Exception):
    ...     sqlstate = "42501"
    >>> print(explain(Denied("no rights\n for p@ss"), read_url("postgresql://me:p%40ss@db/notes")))
    ... # doctest: +ELLIPSIS
    postgresql://me@db/notes: this role may not do that: no rights for ***; use a role with the rights, ...
    >>> print(explain(Exception("no route"), read_url("postgresql://me@db/notes")))  # doctest: +ELLIPSIS
    postgresql://me@db/notes: it cannot be reached: no route; look whether the server runs, ...
    """
    said, state = " ".join(str(error).split()), getattr(error, "sqlstate", None) or ""
    said = said.replace(address.password, "***") if address.password else said
    for states, kind, sentence in CASES:
        if state.startswith(states):
            hint = suggest_init(address) if kind is IndexVersionError else ""
            return kind(f"{address}: {sentence.format(said)}", hint=hint)
    sentence = "it answered with an error: {}" if state else UNREACHABLE
    return StorageError(f"{address}: {sentence.format(said)}")


def suggest_init(address: DatabaseUrl) -> str:
    return suggest(f"postgres init --index '{address}'", "with a role that may make tables, run")
