"""An index in its place: a folder, or what another room knows. `open_store` decides that, once, from `ROOMS`.

An open store travels, and gives what differs from one place to another: its connections, what is `Derived` from its
rows, and a view of one state of it. An `OpenIndex` follows it from one state to the next.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from retriever.errors import UsageError
from retriever.store import database, reading
from retriever.store.database import Connection, read_transaction, transaction, translate_sqlite_errors
from retriever.store.files import FILE_NAME, LOGS, absolute, measure_folder, writer_lock
from retriever.store.reading import StoredState

if TYPE_CHECKING:
    from retriever.places.derived import Derived
    from retriever.places.view import View


@dataclass(frozen=True)
class Store(ABC):
    """An index in its place; two stores of one place are equal, and its text is what --index takes.

    Every method may raise an IndexUnusableError.
    """

    embeds_itself: ClassVar[bool]
    """Whether who opens it looks at its folders and embeds what waits; elsewhere other processes do that."""
    kept_elsewhere: ClassVar[str]
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

    @abstractmethod
    def derived(self) -> "Derived":
        """Return what is derived from its rows."""

    @abstractmethod
    def open_view(self, connection: Connection, state: StoredState) -> "View":
        """Return one state of it, as searches see it; `connection` is in a snapshot of that."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a reader's connection for the block, and turn its errors into those of this program."""
        with self.explain_errors(), closing(self.open()) as connection:
            yield connection

    @abstractmethod
    def explain_errors(self) -> AbstractContextManager[None]:
        """Turn the errors of the engine into those of this program."""

    def renew_derived(self, wait_s: float = 0.0) -> None:
        """Derive everything anew from the rows, for which nothing is embedded."""
        derived = self.derived()
        with self.write(wait_s) as connection:
            with transaction(connection):
                snapshot = derived.build(connection)
            derived.remove_old(snapshot)

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

    embeds_itself: ClassVar[bool] = True
    kept_elsewhere: ClassVar[str] = ""

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

    def derived(self) -> "Derived":
        """Return the words, and ChromaDB beside them."""
        from retriever.places.snapshots import DerivedFiles  # numpy, which --help does without

        return DerivedFiles(self.folder)

    def open_view(self, connection: Connection, state: StoredState) -> "View":
        """Return a view whose vectors are read when they are first used."""
        from retriever.places.snapshots import FolderView

        return FolderView(connection, state, folder=self.folder)

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
        files = [self.folder / name for name in (FILE_NAME, *LOGS)]
        found = [file.stat() for file in files if file.exists()]
        return max((status.st_mtime for status in found if status.st_size), default=0.0)  # a reader makes an empty log

    def size_bytes(self) -> int:
        """Return what all files of the folder take."""
        return measure_folder(self.folder)

    def erase(self, connection: Connection) -> list[str]:
        """Write index.sqlite anew, and empty SQLite's log."""
        connection.execute("VACUUM")
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return [f"{self.folder / FILE_NAME}-wal"] if busy else []


class OpenIndex:
    """Follows the index through its states, and to another one in its place; used by one thread at a time.

    Raises:
        NoIndexError: there is no index in that folder.
        IndexUnusableError: or one of its other kinds.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._connection = store.open()
        self._identity = store.identify()
        self._view: View | None = None

    @contextmanager
    def view(self) -> Iterator["View"]:
        """Yield one consistent state, whatever a writer does meanwhile.

        Raises:
            IndexDamagedError: the rows contradict one another.
            NoIndexError: the index was moved away.
        """
        self._follow()
        with self.store.explain_errors(), read_transaction(self._connection):
            # Read inside the transaction: what is in force may be another one by the next statement.
            state = reading.read_state(self._connection)
            if self._view is None or self._view.state != state:
                self._close_view()
                self._view = self.store.open_view(self._connection, state)
            yield self._view

    def _follow(self) -> None:
        """Open the database anew when another one is in its place: an index may be moved away and made again."""
        now = self.store.identify()
        if now != self._identity:
            self._close_view()
            connection = self.store.open()
            self._connection.close()
            self._connection, self._identity = connection, now

    def close(self) -> None:
        """Close the files."""
        self._close_view()
        self._connection.close()

    def _close_view(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None
