"""What searches need beside the rows of an index: a snapshot's files, or tables of the same database."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from retriever.protocols import Progress
from retriever.store import reading
from retriever.store.database import Connection
from retriever.store.store import Store
from retriever.trace import NoProgress

NO_PROGRESS = NoProgress()


@dataclass(frozen=True, slots=True)
class Difference:
    """What went and came since the state before."""

    removed: Sequence[int]
    """Keys of sections."""
    documents: Sequence[int]
    """Keys of the new documents."""


class Derived(Protocol):
    """What is derived from the rows; writing methods are for the one writer, inside its transaction."""

    def is_whole(self, connection: Connection) -> bool:
        """Return whether what is in force can be used, and so patched."""

    def build(
        self,
        connection: Connection,
        fingerprint: str,
        difference: Difference | None,
        progress: Progress = NO_PROGRESS,
    ) -> int:
        """Derive the next state from the rows and put it in force; return its number.

        Args:
            connection: in the transaction that names the state.
            fingerprint: of the encoder; empty without vectors.
            difference: what is new since the state in force; None to derive everything anew.
            progress: told how far it is.

        Raises:
            StorageError: it cannot be written.
            SnapshotError: what was made does not add up.
        """

    def renew(self, connection: Connection) -> int:
        """Derive everything anew from the rows as they are; return the number of the new state."""
        fingerprint = reading.meta(connection, "fingerprint") or ""
        return self.build(connection, fingerprint, None)

    def update_graph(self, connection: Connection, progress: Progress = NO_PROGRESS) -> None:
        """Bring the graph of near vectors to the state in force, outside of a transaction."""
        return

    def take_graph(self, number: int) -> None:
        """Take the graph of an older state over into this one, to be brought up to date later."""
        return

    def remove_old(self, current: int) -> None:
        """Remove states that nobody uses any more."""
        return

    def list_old(self, current: int) -> list[str]:
        """Return the files that may still hold what was deleted, because another process reads them."""
        return []

    def examine(self, connection: Connection) -> Iterator[tuple[str, str, str]]:
        """Compare it with the rows; yield what was looked at, what is wrong with it, if anything, and what it holds."""
        yield from ()


def open_derived(store: Store) -> Derived:
    """Return what is derived from the rows of a store."""
    if store.is_shared:
        from retriever.indexing.derived_tables import DerivedTables  # an index in a folder loads nothing of databases

        return DerivedTables()
    from retriever.indexing.snapshot import DerivedFiles

    return DerivedFiles(store.folder)
