"""An index in its place: a folder, or what another room knows. `open_store` decides that, once, from `ROOMS`.

An open store travels, and does what differs from one place to another: its connections, what it keeps beside its rows,
and how the nearest texts are found. An `OpenIndex` follows it from one state to the next.
"""

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, ClassVar

from retriever.errors import UsageError
from retriever.store import database, reading
from retriever.store.database import Connection, transaction, translate_sqlite_errors
from retriever.store.files import (
    FILE_NAME,
    absolute,
    list_chroma,
    locate_chroma,
    measure_folder,
    writer_lock,
)
from retriever.store.reading import StoredState

if TYPE_CHECKING:
    from retriever.embedding.vectors import VectorSearch
    from retriever.lexical.bm25 import IntArray
    from retriever.types import Progress


@dataclass(frozen=True)
class Store(ABC):
    """An index in its place; two stores of one place are equal, and its text is what --index takes.

    Every method may raise an IndexUnusableError.
    """

    embeds_itself: ClassVar[bool] = True
    """Whether a process that opens it looks at its folders and embeds what waits; elsewhere others do that."""
    kept_elsewhere: ClassVar[str] = ""
    """Where else deleted texts may be, a sentence; empty where nothing else has them."""

    place: object

    def __str__(self) -> str:
        return str(self.place)

    @property
    def folder(self) -> Path:
        """The index's folder; UsageError where it is in none."""
        raise UsageError(f"{self} is in a database, and this is for an index in a folder")

    @abstractmethod
    def exists(self) -> bool:
        """Return whether there is an index."""

    @abstractmethod
    def open(self) -> Connection:
        """Open a connection for a reader, of a read-only folder too; NoIndexError where there is no index."""

    @abstractmethod
    def write(self, wait_s: float) -> AbstractContextManager[Connection]:
        """Yield the one writer's connection, after `wait_s` seconds at most; make the index if there is none."""

    def open_scan(self, connection: Connection, state: StoredState, node_keys: "IntArray | None") -> "VectorSearch":
        """Open an exact search among the vectors of all texts, or of those of these nodes."""
        from retriever.embedding.vectors import ExactIndex  # numpy, which --help does without
        from retriever.store import text_vectors

        return ExactIndex(*text_vectors.distinct_vectors(connection, state.fingerprint, node_keys))

    def open_graph(self, connection: Connection, state: StoredState) -> "VectorSearch | None":
        """Open a graph of all vectors; None where there is none, SnapshotError where it cannot be used."""
        return None

    def finish(self, connection: Connection, progress: "Progress", *, with_chroma: bool) -> None:
        """Bring what is kept beside the rows to the state in force, outside of a transaction.

        Args:
            connection: of the one writer.
            progress: told how far it is.
            with_chroma: whether it is written, which takes long; else what is of other states is removed alone.
        """
        return

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a reader's connection for the block, and turn its errors into those of this program."""
        with self.explain_errors(), closing(self.open()) as connection:
            yield connection

    @abstractmethod
    def explain_errors(self) -> AbstractContextManager[None]:
        """Turn the errors of the engine into those of this program."""

    def identify(self) -> object:
        """Return the identity of the open index, which changes when another takes its place; None where none can."""
        return None

    def updated(self) -> float:
        """Return when the index last changed, in seconds since 1970; 0 where that is not known without asking."""
        return 0.0

    @abstractmethod
    def size_bytes(self) -> int:
        """Return what the index takes on its disk."""

    @abstractmethod
    def erase(self, connection: Connection) -> list[str]:
        """Remove what the files still hold of deleted rows; return those that a reader keeps from it.

        Args:
            connection: of the one writer, outside of a transaction.
        """


# Which package opens an address, with its `open_place`, by what stands before the first colon.
ROOMS = {"postgresql": "retriever.postgres", "postgres": "retriever.postgres"}


def open_store(place: str | Path | Store) -> Store:
    """Return the store at a place, which need not hold an index yet.

    Args:
        place: a folder, or an address of one of the `ROOMS`; a store is given back as it is.

    Raises:
        UsageError: it is neither. Nothing of a password is repeated.
    """
    if isinstance(place, Store):
        return place
    scheme, _, rest = str(place).partition(":")
    if room := ROOMS.get(scheme.lower()):
        try:
            store: Store = import_module(room).open_place(str(place))
        except ModuleNotFoundError as error:
            raise UsageError(f"this installation has no {error.name}, which an index at {scheme}: needs") from error
        return store
    is_address = rest.startswith("//") and scheme.replace("+", "").isalnum()  # a folder may be called anything else
    if is_address or "password=" in str(place).replace(" ", ""):
        raise UsageError(f"an index is a folder, or an address that begins with {' or '.join(ROOMS)}")
    return FolderStore(absolute(place))


@dataclass(frozen=True)
class FolderStore(Store):
    """An index in a folder: `index.sqlite`, and ChromaDB beside it."""

    place: Path

    @property
    def folder(self) -> Path:
        """The index's folder."""
        return self.place

    def exists(self) -> bool:
        """Return whether there is an `index.sqlite`."""
        return database.is_index(self.folder)

    def open(self) -> Connection:
        """Open index.sqlite for a reader."""
        return database.open_file(self.folder)

    @contextmanager
    def write(self, wait_s: float) -> Iterator[Connection]:
        """Take the writer's lock."""
        with (
            writer_lock(self.folder, wait_s),
            translate_sqlite_errors(self.folder),
            closing(database.create_file(self.folder)) as connection,
        ):
            yield connection

    # ChromaDB's folder has the vectors of one state, and its name. A row of `meta` names the state, and the bytes of
    # the files of vectors; it is written before the folder has its name.

    def open_graph(self, connection: Connection, state: StoredState) -> "VectorSearch | None":
        """Open the ChromaDB of this state, which an update that a question waits for leaves out."""
        from retriever.embedding.vectors import VectorIndex, chroma_errors  # likewise

        folder = locate_chroma(self.folder, state.snapshot)
        with chroma_errors(folder):  # the row may be somebody else's
            made_of, *_, size = json.loads(reading.meta(connection, "chroma") or '["", 0]')
            # A reader that began before the row was written does not see it, but the folder.
            is_there = made_of == state.snapshot and folder.exists()
            return VectorIndex(folder, state.fingerprint, size) if is_there else None

    def finish(self, connection: Connection, progress: "Progress", *, with_chroma: bool) -> None:
        """Write ChromaDB's folder of the state in force, then remove older ones, which readers have left."""
        state = reading.read_state(connection)
        folder = locate_chroma(self.folder, state.snapshot)
        is_whole = state.fingerprint and state.embedded_share == 1  # else it would lack those to come
        if with_chroma and is_whole and not folder.exists():
            from retriever.embedding.vectors import write_vectors  # likewise
            from retriever.store import text_vectors, writing

            keys, matrix = text_vectors.distinct_vectors(connection, state.fingerprint)
            progress.start("indexing vectors", len(keys), "vectors")
            # A name of its own: what ChromaDB could not open once it opens never again in this process.
            draft = locate_chroma(self.folder, token_hex(8)).with_suffix(".draft")
            try:
                size = write_vectors(draft, state.fingerprint, keys, matrix)
                with transaction(connection):
                    writing.set_meta(connection, "chroma", json.dumps([state.snapshot, size]))
                draft.rename(folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
            progress.finish("indexing vectors")
        for older in list_chroma(self.folder):
            if older != folder:
                shutil.rmtree(older, ignore_errors=True)

    def explain_errors(self) -> AbstractContextManager[None]:
        """Turn SQLite's errors into those of this program."""
        return translate_sqlite_errors(self.folder)

    def identify(self) -> object:
        """Return the device and the inode of index.sqlite."""
        with suppress(OSError):
            status = (self.folder / FILE_NAME).stat()
            return status.st_dev, status.st_ino
        return None

    def updated(self) -> float:
        """Return when its files last changed."""
        found = [file.stat() for file in self.folder.glob(f"{FILE_NAME}*")]
        return max((status.st_mtime for status in found if status.st_size), default=0.0)  # a reader makes an empty log

    def size_bytes(self) -> int:
        """Return what all files of the folder take."""
        return measure_folder(self.folder)

    def erase(self, connection: Connection) -> list[str]:
        """Write index.sqlite anew, and empty SQLite's log."""
        connection.execute("VACUUM")
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return [f"{self.folder / FILE_NAME}-wal"] if busy else []
