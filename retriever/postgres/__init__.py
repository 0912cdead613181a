"""An index in PostgreSQL: all that knows of it. Nothing else imports it; `retriever.places.ROOMS` leads here.

__init__.py    the store
connection.py  addresses, statements that are written for SQLite in PostgreSQL's words, sessions, errors
state.py       how the server finds the nearest texts
command.py     `postgres init|grant|worker`: the owner makes the tables (tables.sql, hnsw.sql, citus.sql) and grants
               rights; workers embed what others have indexed, beside one another
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from retriever.errors import UsageError
from retriever.lexical.bm25 import IntArray
from retriever.places import Store
from retriever.postgres.connection import (
    FORM,
    LOCK,
    DatabaseUrl,
    PostgresConnection,
    read_url,
    translate_errors,
)
from retriever.postgres.state import TableVectors
from retriever.store import text_vectors
from retriever.store.database import Connection
from retriever.store.reading import StoredState


def open_place(text: str) -> "DatabaseStore":
    """Return the store at an address, which need not hold an index yet; UsageError where the text is no address."""
    return DatabaseStore(read_url(text))


def find_url(store: Store) -> DatabaseUrl:
    """Return the address of a store; UsageError for a folder."""
    if not isinstance(store, DatabaseStore):
        raise UsageError(f"{store} is a folder, and this needs PostgreSQL: --index {FORM}")
    return store.place


@dataclass(frozen=True)
class DatabaseStore(Store):
    """An index in a database; readers see one state of it, and one process writes at a time."""

    place: DatabaseUrl

    embeds_itself = False
    kept_elsewhere = (
        "no question finds it any more, but PostgreSQL keeps what was deleted in its log (WAL), in backups, and in"
        " freed pages of its files until they are used again; VACUUM FULL by the owner empties the pages"
    )

    def exists(self) -> bool:
        """Return True: whether there are tables is known when it is opened."""
        return True

    def open(self) -> PostgresConnection:
        """Open a connection for a reader.

        Raises:
            NoIndexError: the database has no tables of ours.
            IndexVersionError: they are of another version.
            StorageError: the server cannot be reached, or does not let this user in.
        """
        with self.explain_errors():
            return PostgresConnection(self.place)

    @contextmanager
    def write(self, wait_s: float) -> Iterator[Connection]:
        """Yield the connection of the one writer, after `wait_s` seconds at most."""
        with self.read() as connection:
            connection.execute(f"SET lock_timeout TO {int(1000 * wait_s) or 1}")
            connection.execute(f"SELECT {LOCK.format('')}")
            connection.execute("SET lock_timeout TO 0")
            yield connection

    def open_scan(self, connection: Connection, state: StoredState, node_keys: IntArray | None) -> TableVectors:
        """Let the server compare all vectors, or those of a part."""
        return TableVectors(connection, state.fingerprint, node_keys)

    def open_graph(self, connection: Connection, state: StoredState) -> TableVectors:
        """Let the server search its graph."""
        length = text_vectors.dimension(connection, state.fingerprint)
        return TableVectors(connection, state.fingerprint, graph_length=length)

    def explain_errors(self) -> AbstractContextManager[None]:
        """Turn psycopg's errors into those of this program."""
        return translate_errors(self.place)

    def size_bytes(self) -> int:
        """Return what the documents take that this role may see."""
        with self.read() as connection:
            return int(connection.execute("SELECT CAST(sum(size) AS bigint) FROM documents").fetchone()[0] or 0)

    def erase(self, connection: Connection) -> list[str]:
        """Vacuum what this role owns, and leave the log to its administrator."""
        connection.execute("VACUUM (SKIP_LOCKED)")
        return []
