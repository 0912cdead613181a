"""The connection to an index in PostgreSQL, as the store uses it.

It takes the statements of the store as they are written for SQLite, and says a few words of them otherwise. What is
read inside a transaction is sent without waiting for the answers before it (pipeline mode), until a row is looked at.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

from retriever.store.address import Address
from retriever.store.connection import Connection, Rows
from retriever.store.postgres_errors import translate_errors
from retriever.store.postgres_pool import (
    borrow_connection,
    connect,
    end_reading,
    is_cluster,
    open_pool,
    prepare,
    take_connection,
    verify,
)
from retriever.store.reading import GIVEN

if TYPE_CHECKING:
    import psycopg

FOR_DOCUMENT = 24  # bits of a key for the nodes, and the chunks, of one document

# What SQLite's statements say, and what PostgreSQL reads in its place. SQLite keeps the order of a CROSS JOIN, and a
# table's rows in the order in which they came.
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
    """A statement of the store in PostgreSQL's words."""
    for ours, theirs in _DIALECT:
        query = query.replace(ours, theirs)
    return query


class PostgresConnection:
    """Takes a connection of the pool for each transaction; a writer has one of its own. One thread at a time."""

    def __init__(self, address: Address, own: "psycopg.Connection | None" = None) -> None:
        self.address = address
        self._prefetched: dict[tuple[str, str], _Foreseen] = {}  # in the transaction that is open
        self.begun: dict[object, Rows] = {}  # in it, and on their way: by what they are the answer to
        self.own = own
        self._held = own
        self._in_transaction = False
        self._pipeline: contextlib.ExitStack | None = None

    @property
    def in_transaction(self) -> bool:
        return self._in_transaction

    def execute(self, query: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run one statement of the store; its rows may still be on their way."""
        with translate_errors(self.address):
            if query.startswith("BEGIN"):
                return self._begin(query)
            if query in ("COMMIT", "ROLLBACK"):
                return self._end(query)
            if self._prefetched and (rows := self._recall(query, parameters)):
                return rows
            if self._held is not None:
                return _Rows(self, self._held.cursor(binary=True).execute(translate(query), parameters))
            # Outside of a transaction a statement has a connection for itself, and keeps none.
            with borrow_connection(self.address) as connection:
                return _Rows(self, connection.cursor(binary=True).execute(translate(query), parameters))

    def executemany(self, query: str, parameters: Iterable[Sequence[Any]], /) -> Rows:
        assert self._held is not None, "rows are written in a transaction"
        with translate_errors(self.address):
            cursor = self._held.cursor(binary=True)
            if rows := list(parameters):
                cursor.executemany(translate(query), rows)
            return _Rows(self, cursor)

    def prefetch(self, ask: Callable[[Connection], object]) -> None:
        """Ask now what a function will ask in this transaction, which then does not wait for it."""
        noted = _Noted()
        ask(noted)
        for query, parameters in noted.asked:
            if (query, repr(tuple(parameters))) not in self._prefetched:
                self._prefetched[query, repr(tuple(parameters))] = _Foreseen(self.execute(query, parameters))

    def foresee(
        self, ask: Callable[[Connection], object], column: str, keys: str, *parameters: object, kind: str = "bigint"
    ) -> str:
        """Ask now what a function will ask for some keys, which the server finds first: one round trip for both.

        Args:
            ask: one statement that ends with GIVEN, for any keys.
            column: of its rows, that has the key, by its name.
            keys: a statement that gives an array of at least the keys that will be asked for.
            parameters: of that statement.
            kind: the type of the keys.

        Returns:
            The keys as an expression, for statements in the same transaction.
        """
        if is_cluster(self.address):  # a worker does not see what a statement leaves: each is asked when it is needed
            return "NULL"
        noted = _Noted()
        ask(noted)
        ((query, (*before, _)),) = noted.asked
        # One name for one statement, so that the server parses and plans it once in a connection.
        name = f"hybrid_retrieve.keys_{crc32(f'{query} {keys}'.encode()):08x}"
        setting = f"CAST(nullif(current_setting('{name}', true), '') AS {kind}[])"
        # A setting of the transaction is what a statement can leave to those after it, on a replica too.
        found = self.execute(
            f"SELECT keys, set_config('{name}', CAST(keys AS text), true)"
            f" FROM (SELECT coalesce(({keys}), '{{}}') AS keys) AS found",
            parameters,
        )
        rows = self.execute(query.replace(GIVEN, f"= ANY({setting})"), before)
        self._prefetched[query, repr(tuple(before))] = _Foreseen(rows, found, column)
        return setting

    def _recall(self, query: str, parameters: Sequence[Any]) -> Rows | None:
        # The same statement with the same values; else one with other keys, if it has all that are wanted.
        if known := self._prefetched.get((query, repr(tuple(parameters)))):
            return known.read()
        known = self._prefetched.get((query, repr(tuple(parameters[:-1])))) if parameters else None
        return known.choose(parameters[-1]) if known else None

    def close(self) -> None:
        if self.own is not None:
            self.own.close()
        elif self._held is not None:
            self._end("ROLLBACK")

    def _begin(self, query: str) -> Rows:
        if self._held is None:
            self._held = take_connection(self.address)
        self._in_transaction = True
        # Only what reads may look at its answers later: a writer is to know at once that a row was refused.
        if query == "BEGIN DEFERRED" and self.own is None:
            self._pipeline = contextlib.ExitStack()
            self._pipeline.enter_context(self._held.pipeline())
        return _Rows(self, self._held.cursor().execute(translate(query)))

    def _end(self, query: str) -> Rows:
        assert self._held is not None
        self._in_transaction = False
        self._prefetched.clear()
        self.begun.clear()
        held, pipeline = self._held, self._pipeline
        self._held, self._pipeline = self.own, None
        if pipeline is not None:  # nothing was written: nobody waits for the end
            end_reading(self.address, held, pipeline)
            return _Read(())
        try:
            return _Rows(self, held.cursor().execute(query))
        except Exception:
            if query == "COMMIT":
                raise
            return _Read(())
        finally:
            if self.own is None:
                open_pool(self.address).putconn(held)


class _Rows:
    """The rows of a statement, whose errors may come as late as they do."""

    def __init__(self, connection: PostgresConnection, cursor: "psycopg.Cursor[Any]") -> None:
        self._address, self._cursor = connection.address, cursor

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    @property
    def columns(self) -> list[str]:
        """Their names, once there are rows."""
        return [column.name for column in self._cursor.description or ()]

    @property
    def is_on_its_way(self) -> bool:
        """Whether who looks at the rows has to wait for the server."""
        return self._cursor.pgresult is None

    def fetchone(self) -> Any:  # noqa: ANN401  # as `Rows`
        with translate_errors(self._address):
            return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        with translate_errors(self._address):
            return self._cursor.fetchall()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())


class _Read:
    """Rows that are here."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows = list(rows)
        self.rowcount = len(self._rows)

    def fetchone(self) -> Any:  # noqa: ANN401  # as `Rows`
        return self._rows.pop(0) if self._rows else None

    def fetchall(self) -> list[Any]:
        rows, self._rows = self._rows, []
        return rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())


class _Noted:
    """A connection that notes what it is asked, and has nothing."""

    in_transaction = True

    def __init__(self) -> None:
        self.asked: list[tuple[str, Sequence[Any]]] = []

    def execute(self, query: str, parameters: Sequence[Any] = (), /) -> Rows:
        self.asked.append((query, parameters))
        return _Read([(0,)] if "count(" in query else [])

    def executemany(self, query: str, parameters: Iterable[Sequence[Any]], /) -> Rows:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class _Foreseen:
    """What was asked ahead: rows, or the rows of many keys, of which some will be asked for."""

    def __init__(self, rows: Rows, keys: Rows | None = None, column: str = "") -> None:
        self._rows, self._keys, self._column = rows, keys, column

    def read(self) -> Rows | None:
        return None if self._keys else _Read(self._all)

    def choose(self, wanted: Iterable[object]) -> Rows | None:
        if self._keys is None or not isinstance(wanted, list) or not self._there.issuperset(wanted):
            return None
        assert isinstance(self._rows, _Rows)
        rows, chosen = self._all, set(wanted)
        place = self._rows.columns.index(self._column)
        return _Read(row for row in rows if row[place] in chosen)

    @cached_property
    def _all(self) -> list[Any]:
        return self._rows.fetchall()

    @cached_property
    def _there(self) -> frozenset[object]:
        assert self._keys is not None
        return frozenset(self._keys.fetchone()[0])


def insert_numbered(connection: Connection, table: str, rows: Iterable[Mapping[str, object]]) -> list[int]:
    """`writing.insert_rows`: nodes and chunks are numbered within their document, all others by the server."""
    assert isinstance(connection, PostgresConnection)
    listed = list(rows)
    if table in ("nodes", "chunks"):
        own, of = ("node_key", "document_key") if table == "nodes" else ("chunk_key", "node_key")
        places: Counter[int] = Counter()
        numbered: list[dict[str, object]] = []
        made: list[int] = []
        for row in listed:
            above = row[of]
            assert isinstance(above, int)
            document = above if table == "nodes" else above >> FOR_DOCUMENT
            if not made and table == "chunks":  # a document's chunks may come in several calls
                first, last = document << FOR_DOCUMENT, (document + 1) << FOR_DOCUMENT
                query = "SELECT count(*) FROM chunks WHERE chunk_key >= ? AND chunk_key < ?"
                (places[document],) = connection.execute(query, (first, last)).fetchone()
            made.append((document << FOR_DOCUMENT) + places[document])
            numbered.append({own: made[-1], **row})
            places[document] += 1
        columns = list(numbered[0]) if numbered else []
        query = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        connection.executemany(query, [tuple(row.values()) for row in numbered])
        return made
    keys = []
    for row in listed:
        columns, key = list(row), {"queries": "query_id"}.get(table, f"{table[:-1]}_key")
        query = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) RETURNING {key}"
        keys.append(int(connection.execute(query, tuple(row.values())).fetchone()[0]))
    return keys


# Opening


def open_postgres(address: Address) -> PostgresConnection:
    """A reader's connection.

    Raises:
        NoIndexError: the database has no tables of ours.
        IndexVersionError: they are of another version; or the server or pgvector is too old.
        StorageError: the server cannot be reached, or lets this user in not.
    """
    verify(address)
    return PostgresConnection(address)


@contextmanager
def write_postgres(address: Address, wait_s: float) -> Iterator[tuple[PostgresConnection, bool]]:
    """The one writer's connection, and whether there was another one to wait for."""
    with share_postgres(address) as connection:
        lock = writer_key(address)
        (is_free,) = connection.execute(f"SELECT pg_try_advisory_lock({lock})").fetchone()
        if not is_free:
            connection.execute(f"SET lock_timeout = {int(1000 * wait_s) or 1}")
            connection.execute(f"SELECT pg_advisory_lock({lock})")
            connection.execute("RESET lock_timeout")
        yield connection, not is_free


def writer_key(address: Address) -> str:
    """The advisory lock of whoever writes, as an expression."""
    return f"hashtextextended('hybrid_retrieve ' || '{address.schema}', 0)"


@contextmanager
def share_postgres(address: Address) -> Iterator[PostgresConnection]:
    """A connection of its own, for one of several writers: each takes the writer's lock for its transactions."""
    from retriever.store.tables import check_schema

    verify(address)
    with translate_errors(address), contextlib.closing(connect(address)) as own:
        check_schema(own, address)  # again: `watch` may have run since before an update of the tables
        prepare(own, address)
        # A machine that vanishes lets its locks go after a minute; the system's own two hours are for idle terminals.
        for setting, value in (("idle", 30), ("interval", 10), ("count", 3)):
            own.execute(f"SET tcp_keepalives_{setting} = {value}")
        yield PostgresConnection(address, own)
