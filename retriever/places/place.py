"""The places of an index, as they differ: a `Store`, and what is `Derived` from its rows."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from retriever.errors import SnapshotError, UsageError
from retriever.store.database import Connection, transaction
from retriever.store.reading import StoredState
from retriever.trace import NoProgress
from retriever.types import Progress

if TYPE_CHECKING:
    from retriever.places.view import View

NO_PROGRESS = NoProgress()


@dataclass(frozen=True)
class Difference:
    """The documents that went and came since the state before."""

    removed: Sequence[int]
    """Keys of sections."""
    documents: Sequence[int]
    """Keys of the new documents."""


class Derived(ABC):
    """The data derived from the rows; writing methods are for the one writer, inside its transaction."""

    @abstractmethod
    def is_whole(self, connection: Connection) -> bool:
        """Return whether what is in force can be used, and so patched."""

    @abstractmethod
    def build(
        self, connection: Connection, difference: Difference | None = None, progress: Progress = NO_PROGRESS
    ) -> str:
        """Derive the next state from the rows and put it in force; return its snapshot's name.

        Args:
            connection: in the transaction that names the state.
            difference: what is new since the state in force; None to derive everything anew.
            progress: told how far it is.

        Raises:
            StorageError: it cannot be written.
            SnapshotError: what was made does not add up.
        """

    def update_graph(self, connection: Connection, progress: Progress = NO_PROGRESS) -> None:
        """Bring the graph of near vectors to the state in force, outside of a transaction."""
        return

    def remove_old(self, current: str) -> None:
        """Remove the states before the current one; who reads one keeps it open."""
        return

    def examine(self, connection: Connection) -> Iterator[tuple[str, SnapshotError | None]]:
        """Compare it with the rows; yield what was looked at, and why it cannot be used, if so."""
        yield from ()


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
    def derived(self) -> Derived:
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
