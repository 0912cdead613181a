"""An index in its place: a folder, or what another room knows. `open_store` decides that, once, from `ROOMS`.

An open store travels, and gives what differs from one place to another: its connections, what is derived from its rows,
and a view of one state of it.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from retriever.errors import UsageError
from retriever.places.place import Derived, Difference, Store
from retriever.store import database
from retriever.store.database import Connection, translate_sqlite_errors
from retriever.store.files import FILE_NAME, absolute, measure_folder, writer_lock
from retriever.store.reading import StoredState

if TYPE_CHECKING:
    from retriever.places.snapshots import FolderView

__all__ = ["Derived", "Difference", "FolderStore", "Store", "open_store"]

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
    """An index in a folder: `index.sqlite`, and snapshots beside it."""

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

    def derived(self) -> Derived:
        """Return its snapshots."""
        from retriever.places.snapshots import DerivedFiles  # numpy, which --help does without

        return DerivedFiles(self.folder)

    def open_view(self, connection: Connection, state: StoredState) -> "FolderView":
        """Return a view whose snapshot is opened when it is first used."""
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
        files = [self.folder / FILE_NAME, *self.folder.glob("snapshot-*")]
        return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)

    def size_bytes(self) -> int:
        """Return what all files of the folder take."""
        return measure_folder(self.folder)

    def erase(self, connection: Connection) -> list[str]:
        """Write index.sqlite anew, and empty SQLite's log."""
        connection.execute("VACUUM")
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return [f"{self.folder / FILE_NAME}-wal"] if busy else []
