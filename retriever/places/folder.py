"""An index in a folder: `index.sqlite`, the one place of truth, and snapshots beside it that are derived from it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from retriever.places.place import Derived, Store
from retriever.store import database
from retriever.store.database import Connection, translate_sqlite_errors
from retriever.store.files import FILE_NAME, measure_folder, writer_lock
from retriever.store.reading import StoredState

if TYPE_CHECKING:
    from retriever.places.snapshots import FolderView


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
