"""The connections of this process to databases: opening them, the pool of each index, and what a server has to be."""

import atexit
import contextlib
import logging
import select
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from retriever.errors import StorageError, UsageError
from retriever.store.address import Address
from retriever.store.postgres_errors import translate_errors
from retriever.store.text_vectors import CHECKSUM, PackedVector, add_checksum

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

CONNECT_S = 10
MOST_CONNECTIONS = 16  # of a process; a question holds one while it reads


def take_connection(address: Address) -> "psycopg.Connection":
    """A connection of the pool.

    Raises:
        StorageError: all are in use.
    """
    from psycopg_pool import PoolTimeout

    try:
        return open_pool(address).getconn()
    except PoolTimeout as error:
        connect(address).close()  # a server that is gone says so itself
        raise StorageError(
            f"all {MOST_CONNECTIONS} connections of this process to {address} were in use for {CONNECT_S} s; ask fewer"
            " questions at once, or start a second server"
        ) from error


@contextmanager
def borrow_connection(address: Address) -> "Iterator[psycopg.Connection]":
    """As `take_connection`, until the end of the block."""
    connection = take_connection(address)
    try:
        yield connection
    finally:
        open_pool(address).putconn(connection)


@cache
def open_pool(address: Address) -> "ConnectionPool":
    """The pool of this process for an index, which opens connections as they are needed."""
    from psycopg_pool import ConnectionPool

    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # what fails is told where it is needed
    pool = ConnectionPool(
        address.dsn,
        kwargs=_connect_options(address),
        min_size=1,
        max_size=MOST_CONNECTIONS,
        timeout=CONNECT_S,
        reconnect_timeout=CONNECT_S,  # then the next question tries
        configure=lambda connection: prepare(connection, address),
        check=_require_alive,
        open=True,
    )
    if not _pools:
        atexit.register(close_pools)
    _pools.append(pool)
    return pool


_pools: "list[ConnectionPool]" = []


def close_pools() -> None:
    """Ends all connections that nobody holds."""
    with contextlib.suppress(RuntimeError):  # at the end of the process all of it has ended
        _ending.submit(int).result()
    while _pools:
        _pools.pop().close()
    open_pool.cache_clear()
    verify.cache_clear()
    is_cluster.cache_clear()


def check_address(address: Address) -> None:
    """Whether the server answers, and has what this version needs; raises as `open_postgres`."""
    from retriever.store.tables import check_schema, check_server

    with translate_errors(address), contextlib.closing(connect(address)) as connection:
        check_server(connection, address)
        check_schema(connection, address)
        is_cluster(address)  # now: a question that holds a connection is not to wait for a second one


verify = cache(check_address)  # once in a process: a question has no time to ask again what hardly ever changes


@cache
def is_cluster(address: Address) -> bool:
    """Whether the database is that of a Citus cluster, over whose nodes `citus.sql` distributes the tables."""
    with translate_errors(address), borrow_connection(address) as connection:
        return connection.execute("SELECT to_regclass('pg_catalog.pg_dist_partition')").fetchone() != (None,)


def connect(address: Address) -> "psycopg.Connection":
    """A connection outside of the pool.

    Raises:
        UsageError: the extra `postgres` is not installed.
    """
    try:
        import psycopg
    except ModuleNotFoundError as error:
        raise UsageError(
            "an index in PostgreSQL needs the extra `postgres`",
            hint="run: uv sync --extra postgres, or: pip install 'hybrid-retrieve[postgres]'",
        ) from error
    return psycopg.connect(address.dsn, **_connect_options(address))


def _connect_options(address: Address) -> dict[str, Any]:
    options: dict[str, Any] = {"autocommit": True, "application_name": "hybrid_retrieve"}
    if "connect_timeout" not in address.dsn:
        options["connect_timeout"] = CONNECT_S
    return options | ({"password": address.password} if address.password else {})


def prepare(connection: "psycopg.Connection", address: Address) -> None:
    """Makes a new connection one for our statements and vectors."""
    from psycopg import sql
    from psycopg.types import TypeInfo

    connection.execute(sql.SQL("SET search_path TO {}, public").format(sql.Identifier(address.schema)))
    # To compile a statement takes longer than any of ours does. Each reads a few rows, which are in memory or on a disk
    # without a head: by the default costs, or for any number of keys, the planner reads whole tables to join hundreds
    # of rows.
    connection.execute("SET jit TO off; SET random_page_cost TO 1.1; SET plan_cache_mode TO force_custom_plan")
    for name in ("halfvec", "vector"):
        info = TypeInfo.fetch(connection, name)
        if info is not None:
            _register(connection, name, info.oid)


def _register(connection: "psycopg.Connection", name: str, oid: int) -> None:
    """Vectors come and go as `text_vectors` packs them; a question's goes as numpy has it."""
    import numpy as np
    from psycopg.adapt import Dumper, Loader
    from psycopg.pq import Format

    def head(length: int) -> bytes:
        return length.to_bytes(2) + b"\x00\x00"

    class PackedDumper(Dumper):
        format = Format.BINARY

        def dump(self, obj: PackedVector) -> bytes:
            numbers = np.frombuffer(obj, np.int8)[:-CHECKSUM]
            return head(len(numbers)) + numbers.astype(">f2").tobytes()

    class PackedLoader(Loader):
        format = Format.BINARY

        def load(self, data: Any) -> PackedVector:  # noqa: ANN401  # bytes, or a view of some
            return add_checksum(np.frombuffer(data, ">f2", offset=4).astype(np.int8).tobytes())

    class ArrayDumper(Dumper):
        format = Format.BINARY

        def dump(self, obj: "np.ndarray[Any, Any]") -> bytes:
            return head(len(obj)) + obj.astype(">f4").tobytes()

    dumper = PackedDumper if name == "halfvec" else ArrayDumper
    dumper.oid = oid
    connection.adapters.register_dumper(PackedVector if name == "halfvec" else np.ndarray, dumper)
    if name == "halfvec":
        connection.adapters.register_loader(oid, PackedLoader)


def _require_alive(connection: "psycopg.Connection") -> None:
    # A server that went away has said so: a look at the socket costs no round trip.
    import psycopg

    if select.select([connection.fileno()], [], [], 0)[0]:
        connection.close()  # or the pool takes it back
        raise psycopg.OperationalError("the server has ended the connection")


_ending = ThreadPoolExecutor(1, "hybrid-retrieve-postgres")


def end_reading(address: Address, connection: "psycopg.Connection", pipeline: contextlib.ExitStack) -> None:
    """Ends a transaction that wrote nothing, and gives its connection back; nobody waits for that."""

    def end() -> None:
        with contextlib.suppress(Exception):  # what failed was told where it was read
            connection.execute("COMMIT")
        with contextlib.suppress(Exception):
            pipeline.close()
        open_pool(address).putconn(connection)

    _ending.submit(end)
