"""An index in PostgreSQL: all that knows of it. Nothing else imports it; `retriever.places.ROOMS` leads here.

__init__.py    the store, and how the server finds the nearest texts
connection.py  addresses, statements that are written for SQLite in PostgreSQL's words, sessions, errors
command.py     `postgres init|grant|worker`: the owner makes the tables (tables.sql, hnsw.sql, citus.sql) and grants
               rights; workers embed what others have indexed, beside one another
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from retriever.embedding.vectors import VectorSearch
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
from retriever.store.database import Connection
from retriever.store.reading import StoredState
from retriever.types import FloatMatrix


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

    def open_scan(self, connection: Connection, state: StoredState, node_keys: IntArray | None) -> VectorSearch:
        """Let the server compare all vectors, or those of a part."""
        return TableVectors(connection, state.fingerprint, node_keys)

    def open_graph(self, connection: Connection, state: StoredState) -> VectorSearch:
        """Let the server search its graph."""
        return TableVectors(connection, state.fingerprint, has_graph=True)

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


EF_SEARCH = 200  # nodes of the graph that a search keeps in view; pgvector's own is 40
CANDIDATES_FACTOR = 4  # times as many are taken from the graph as are left by their exact cosines


@dataclass
class TableVectors(VectorSearch):
    """The vectors in a database."""

    connection: Connection
    fingerprint: str
    node_keys: IntArray | None = None
    """Of the nodes whose texts are meant; None for all."""
    has_graph: bool = False
    """Whether they are searched by HNSW; else all are compared."""

    def search(self, query: FloatMatrix, limit: int) -> list[int]:
        """Do as `VectorSearch.search`."""
        wanted = str(query[0].tolist())
        parameters: list[object] = [wanted]
        among = "EXISTS (SELECT FROM chunks WHERE chunks.text_hash = vectors.text_hash)"
        if self.node_keys is not None:
            among = "text_hash IN (SELECT text_hash FROM chunks WHERE node_key = ANY(?))"
            parameters.append(self.node_keys.tolist())
        # The planner takes the graph of an encoder where it reads its name, not where that is a parameter.
        name = self.fingerprint.replace("'", "''")
        candidates = f"SELECT * FROM vectors WHERE fingerprint = '{name}' AND {among}"
        if self.has_graph:
            self.connection.execute(f"SET LOCAL hnsw.ef_search = {EF_SEARCH}")
            self.connection.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
            kind = f"halfvec({query.shape[1]})"
            candidates += f" ORDER BY CAST(vector AS {kind}) <=> CAST(? AS {kind}) LIMIT ?"
            parameters += [wanted, CANDIDATES_FACTOR * limit]
        nearest = (
            "SELECT min(chunk_key) FROM (SELECT text_hash, CAST(vector AS vector) <=> CAST(? AS vector) AS distance"
            f" FROM ({candidates}) AS candidates ORDER BY distance LIMIT ?) AS near"
            " JOIN chunks USING (text_hash) GROUP BY text_hash"
        )
        return [key for (key,) in self.connection.execute(nearest, (*parameters, limit))]
