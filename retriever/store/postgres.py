"""An index in PostgreSQL, by the statements that are written for SQLite.

What is read inside a transaction is sent in pipeline mode: who asks two things before looking at the first answer waits
once. A question's connection comes from a pool, a writer has one of its own.
"""

import atexit
import contextlib
import logging
import select
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from retriever.errors import UsageError
from retriever.invocation import name_installer
from retriever.store.connection import Connection, Rows
from retriever.store.postgres_errors import translate_errors
from retriever.store.store import QueuedUnit, Store
from retriever.store.text_vectors import CHECKSUM, PackedVector, add_checksum
from retriever.store.url import DatabaseUrl

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

CONNECT_S = 10
MOST_CONNECTIONS = 16  # of a process; a question holds one while it reads
LOCK_WRITER = "LOCK TABLE writer IN EXCLUSIVE MODE"  # of which a reader has no right
# A unit of the queue is held by a connection: the end of a worker, however it comes, gives it back at once.
HELD = "worker IN (SELECT pid FROM pg_stat_activity)"
FOR_DOCUMENT = 24  # bits of a key for the nodes, and the chunks, of one document

# SQLite keeps the order of a CROSS JOIN, and a table's rows in the order in which they came.
_DIALECT = (
    ("%", "%%"),
    ("IN (SELECT value FROM json_each(?))", "= ANY(?)"),
    ("CROSS JOIN", "JOIN"),
    ("WITH wanted AS (", "WITH wanted AS MATERIALIZED ("),  # SQLite reads it as a part of the whole
    ("CAST(? AS text)", 'CAST(? AS text) COLLATE "C"'),  # as the columns, which it is compared with
    ("ORDER BY rowid", "ORDER BY place"),
    ("BEGIN IMMEDIATE", "BEGIN"),
    ("BEGIN DEFERRED", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
    ("?", "%s"),
)


@lru_cache(maxsize=512)
def translate(query: str) -> str:
    """Return a statement of the store in PostgreSQL's words."""
    for ours, theirs in _DIALECT:
        query = query.replace(ours, theirs)
    return query


class PostgresConnection:
    """Takes a connection of the pool for each transaction, unless it has one of its own."""

    def __init__(self, url: DatabaseUrl, own: "psycopg.Connection | None" = None) -> None:
        self.url = url
        self.own = own
        self.holder: psycopg.Connection | None = None
        """Who holds the writer's lock for this one: nothing is committed once it is lost."""
        self._held = own
        self._reading, self._pipeline = contextlib.ExitStack(), contextlib.ExitStack()
        self.in_transaction = False

    def execute(self, query: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run one statement; inside a transaction that only reads, its rows may still be on their way."""
        with translate_errors(self.url):
            if query.startswith("BEGIN"):
                self._begin(is_reading=query == "BEGIN DEFERRED")
            if self._held is not None:
                return _Rows(self.url, self._held.cursor(binary=True).execute(translate(query), parameters))
            with open_pool(self.url).connection() as connection:
                return _Rows(self.url, connection.cursor(binary=True).execute(translate(query), parameters))

    def executemany(self, query: str, parameters: Iterable[Sequence[Any]], /) -> Rows:
        """Run one statement for each of several rows of values."""
        assert self._held is not None, "rows are written in a transaction"
        with translate_errors(self.url):
            cursor = self._held.cursor(binary=True)
            if rows := list(parameters):
                cursor.executemany(translate(query), rows)
            return _Rows(self.url, cursor)

    def pack_list(self, values: Sequence[int | str]) -> object:
        """Return the list, which the server takes as an array."""
        return list(values)

    def insert_rows(self, table: str, rows: Iterable[Mapping[str, Any]]) -> list[int]:
        """Insert rows; nodes and chunks are numbered within their document, all others by the server."""
        listed = [dict(row) for row in rows]
        if not listed:
            return []
        key = f"{table[:-1]}_key"
        is_numbered = table in ("nodes", "chunks")
        if is_numbered:
            above, bits = ("document_key", 0) if table == "nodes" else ("node_key", FOR_DOCUMENT)
            counts: Counter[int] = Counter()
            if table == "chunks":  # a document's chunks may come in several calls
                first = listed[0][above] >> bits
                query = f"SELECT count(*) FROM chunks WHERE chunk_key >> {FOR_DOCUMENT} = ?"
                (counts[first],) = self.execute(query, (first,)).fetchone()
            for row in listed:
                document = row[above] >> bits
                row[key] = (document << FOR_DOCUMENT) + counts[document]
                counts[document] += 1
        statement = f"INSERT INTO {table} ({', '.join(listed[0])}) VALUES ({', '.join('?' * len(listed[0]))})"
        values = [tuple(row.values()) for row in listed]
        if is_numbered:
            self.executemany(statement, values)
            return [row[key] for row in listed]
        return [int(self.execute(f"{statement} RETURNING {key}", row).fetchone()[0]) for row in values]

    def find_broken_pages(self) -> Iterator[str]:
        """Say nothing: PostgreSQL looks after its own pages."""
        yield from ()

    def commit(self) -> None:
        """End the transaction, and give the connection back."""
        assert self._held is not None
        held, self._held, self.in_transaction = self._held, self.own, False
        with translate_errors(self.url), self._reading.pop_all(), self._pipeline.pop_all():
            if self.holder is not None:
                self.holder.execute("SELECT 1")
            held.execute("COMMIT")

    def rollback(self) -> None:
        """Take the transaction back; why was told where it failed."""
        assert self._held is not None
        held, self._held, self.in_transaction = self._held, self.own, False
        with contextlib.suppress(Exception), self._reading.pop_all():
            with contextlib.suppress(Exception):
                self._pipeline.pop_all().close()
            held.execute("ROLLBACK")

    def close(self) -> None:
        """Give the connection back, or end it."""
        if self.in_transaction:
            self.rollback()
        if self.own is not None:
            self.own.close()

    def _begin(self, *, is_reading: bool) -> None:
        if self._held is None:
            self._held = self._reading.enter_context(open_pool(self.url).connection())
        # Only what reads may look at its answers later: a writer has to know at once that a row was refused.
        if is_reading and self.own is None:
            self._pipeline.enter_context(self._held.pipeline())
        self.in_transaction = True


class _Rows:
    """The rows of a statement; its errors may come as late as they do."""

    def __init__(self, url: DatabaseUrl, cursor: "psycopg.Cursor[Any]") -> None:
        self._url, self._cursor = url, cursor

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    def fetchone(self) -> Any:  # noqa: ANN401  # as `Rows`
        with translate_errors(self._url):
            return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        with translate_errors(self._url):
            return self._cursor.fetchall()

    def __iter__(self) -> Iterator[Any]:
        yield from self.fetchall()  # when the first is asked for, and not before


class DatabaseStore(Store):
    """An index in a database; readers see one state of it, and one process writes at a time."""

    keeps_snapshots: ClassVar[bool] = False
    rows_name: ClassVar[str] = "tables"
    is_shared: ClassVar[bool] = True
    kept_elsewhere: ClassVar[str] = (
        "no question finds it any more, but PostgreSQL keeps what was deleted in its log (WAL) until that is recycled,"
        " in archives of the log, backups and copies of its disk from before now, and in freed pages of its files until"
        " they are used again; VACUUM FULL by the owner empties the pages, the others go when its administrator removes"
        " them"
    )

    def __init__(self, url: DatabaseUrl) -> None:
        super().__init__(url)
        self._url = url

    @property
    def url(self) -> DatabaseUrl:
        """The address, without its password in its text."""
        return self._url

    @property
    def folder(self) -> Path:
        """Refuse: there is none."""
        raise UsageError(f"{self.url} is in a database, and this is for an index in a folder")

    def exists(self) -> bool:
        """Return True: whether there are tables is known when it is opened."""
        return True

    def check(self) -> None:
        """Ask the server now whether it would answer, and whether its tables are of this version."""
        from retriever.store.tables import check_tables

        with translate_errors(self.url), contextlib.closing(connect(self.url)) as connection:
            check_tables(connection, self.url)

    def open(self) -> PostgresConnection:
        """Open a connection for a reader.

        Raises:
            NoIndexError: the database has no tables of ours.
            IndexVersionError: they are of another version; or the server or pgvector is too old.
            StorageError: the server cannot be reached, or does not let this user in.
        """
        open_pool(self.url)
        return PostgresConnection(self.url)

    @contextmanager
    def write(self, wait_s: float) -> Iterator[tuple[Connection, bool]]:
        """Be the one writer, by a lock that a second connection holds; True, as workers may have written meanwhile."""
        with (
            self.share() as connection,
            translate_errors(self.url),
            contextlib.closing(connect(self.url)) as holder,
            holder.transaction(),
        ):
            prepare(holder, self.url)
            holder.execute(f"SET LOCAL lock_timeout = {int(1000 * wait_s) or 1}")
            holder.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            holder.execute(LOCK_WRITER)
            connection.holder = holder
            yield connection, True

    @contextmanager
    def share(self) -> Iterator[PostgresConnection]:
        """Be one of several writers, each with a connection of its own, who take turns by `LOCK_WRITER`."""
        self.check()  # again: `watch` may run since before an update of the tables
        with translate_errors(self.url), contextlib.closing(connect(self.url)) as own:
            prepare(own, self.url)
            # A machine that vanishes lets its locks go after a minute; the system's own two hours are for terminals.
            for setting, value in (("idle", 30), ("interval", 10), ("count", 3)):
                own.execute(f"SET tcp_keepalives_{setting} = {value}")
            yield PostgresConnection(self.url, own)

    def explain_errors(self) -> contextlib.AbstractContextManager[None]:
        """Let psycopg's errors leave as ours."""
        return translate_errors(self.url)

    def size_bytes(self) -> int:
        """Return what the tables take with their indexes; for who may not see all, what the documents take."""
        tables = (
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = CAST(current_schema() AS regnamespace)"
        )
        sees_all = (
            "EXISTS (SELECT FROM pg_policies WHERE schemaname = current_schema() AND tablename = 'documents'"
            " AND policyname IN ('read_all', 'write_all') AND current_user = ANY(roles))"
        )
        query = f"CASE WHEN {sees_all} THEN ({tables}) ELSE (SELECT sum(size) FROM documents) END"
        with self.read() as connection:
            return int(connection.execute(f"SELECT CAST({query} AS bigint)").fetchone()[0] or 0)

    def describe_use(self) -> tuple[bool, str]:
        """Leave that to the server."""
        return False, "the server keeps them"

    def erase(self, connection: Connection) -> bool:
        """Vacuum what this role owns, and leave the log to its administrator; return True."""
        connection.execute("VACUUM (SKIP_LOCKED)")  # the writer's table is locked
        return True

    def read_queue(self, connection: Connection) -> Sequence[QueuedUnit]:
        """Return the documents that wait for workers, by folder and path."""
        query = f"SELECT folder_key, prefix, queue.path, attempts, coalesce(reason, ''), coalesce({HELD}, false)"
        rows = connection.execute(f"{query} FROM queue JOIN folders USING (folder_key) ORDER BY folder_key, queue.path")
        return [QueuedUnit(*row) for row in rows]

    def remove_queued(self, connection: Connection, folder_key: int, is_gone: Callable[[str], bool]) -> None:
        """Take those paths of a folder out of the queue; a worker that has one in hand finds out at its commit."""
        queued = connection.execute("SELECT path FROM queue WHERE folder_key = ?", (folder_key,)).fetchall()
        gone = [(folder_key, path) for (path,) in queued if is_gone(path)]
        connection.executemany("DELETE FROM queue WHERE folder_key = ? AND path = ?", gone)


# Connections


def connect(url: DatabaseUrl) -> "psycopg.Connection":
    """Open a connection outside of the pool.

    Raises:
        UsageError: the extra `postgres` is not installed.
    """
    try:
        import psycopg
    except ModuleNotFoundError as error:
        raise UsageError(
            "an index in PostgreSQL needs the extra `postgres`",
            hint=f"run: {name_installer('postgres')}",
        ) from error
    return psycopg.connect(url.dsn, **_connect_options(url))


@contextmanager
def open_owner(url: DatabaseUrl) -> "Iterator[psycopg.Connection]":
    """Begin a transaction of the owner in the schema of an index, which may be still to be made."""
    from psycopg import sql

    with translate_errors(url), contextlib.closing(connect(url)) as connection, connection.transaction():
        connection.execute(sql.SQL("SET LOCAL search_path TO {}, public").format(sql.Identifier(url.schema)))
        yield connection


@cache
def open_pool(url: DatabaseUrl) -> "ConnectionPool":
    """Open the pool of this process for an index, which makes connections as they are needed.

    The tables are checked once: a question has no time to ask again what hardly ever changes.
    """
    from psycopg_pool import ConnectionPool

    DatabaseStore(url).check()
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # what fails is told where it is needed
    pool = ConnectionPool(
        url.dsn,
        kwargs=_connect_options(url),
        min_size=1,
        max_size=MOST_CONNECTIONS,
        timeout=CONNECT_S,
        reconnect_timeout=CONNECT_S,  # then the next question tries
        configure=lambda connection: prepare(connection, url),
        check=_require_alive,
        open=True,
    )
    _pools.append(pool)
    return pool


def _require_alive(connection: "psycopg.Connection") -> None:
    import psycopg

    # A server that went away has said so: a look at the socket costs no round trip, as the pool's own check does.
    if select.select([connection.fileno()], [], [], 0)[0]:
        connection.close()  # one that looks open is put back into the pool, and handed out again
        raise psycopg.OperationalError("the server has ended the connection")


_pools: "list[ConnectionPool]" = []


@atexit.register
def close_pools() -> None:
    """End all connections that nobody holds."""
    while _pools:
        _pools.pop().close()
    open_pool.cache_clear()


def _connect_options(url: DatabaseUrl) -> dict[str, Any]:
    options: dict[str, Any] = {"autocommit": True, "application_name": "hybrid_retrieve"}
    if "connect_timeout" not in url.dsn:
        options["connect_timeout"] = CONNECT_S
    return options | ({"password": url.password} if url.password else {})


def prepare(connection: "psycopg.Connection", url: DatabaseUrl) -> None:
    """Make a new connection one for our statements and vectors."""
    import numpy as np
    from psycopg import sql
    from psycopg.types import TypeInfo

    connection.execute(sql.SQL("SET search_path TO {}, public").format(sql.Identifier(url.schema)))
    # To compile a statement takes longer than any of ours does. Each reads a few rows, which are in memory or on a disk
    # without a head: by the default costs the planner reads whole tables to join hundreds of rows.
    connection.execute("SET jit TO off; SET random_page_cost TO 1.1; SET plan_cache_mode TO force_custom_plan")
    for name, kind in (("halfvec", PackedVector), ("vector", np.ndarray)):
        if (info := TypeInfo.fetch(connection, name)) is not None:
            dumper, loader = _make_adapters(info.oid)
            connection.adapters.register_dumper(kind, dumper)
            if kind is PackedVector:
                connection.adapters.register_loader(info.oid, loader)


def _make_adapters(type_oid: int) -> tuple[Any, Any]:
    """Vectors come and go as `text_vectors` packs them; a question's goes as numpy has it."""
    import numpy as np
    from psycopg.adapt import Dumper, Loader
    from psycopg.pq import Format

    class VectorDumper(Dumper):
        format, oid = Format.BINARY, type_oid

        def dump(self, obj: "PackedVector | np.ndarray[Any, Any]") -> bytes:
            if isinstance(obj, PackedVector):
                numbers = np.frombuffer(obj, np.int8)[:-CHECKSUM].astype(">f2")
            else:
                numbers = obj.astype(">f4")
            return len(numbers).to_bytes(2) + b"\x00\x00" + numbers.tobytes()

    class PackedLoader(Loader):
        format = Format.BINARY

        def load(self, data: Any) -> PackedVector:  # noqa: ANN401  # bytes, or a view of some
            return add_checksum(np.frombuffer(data, ">f2", offset=4).astype(np.int8).tobytes())

    return VectorDumper, PackedLoader
