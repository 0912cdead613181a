"""An index open for questions, which follows it from one state to the next."""

from collections.abc import Iterator
from contextlib import contextmanager

from retriever.errors import SnapshotError
from retriever.places import Store
from retriever.places.view import View
from retriever.store import reading
from retriever.store.database import read_transaction


class OpenIndex:
    """Follows the index through its snapshots, and to another one in its place; used by one thread at a time.

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
    def view(self) -> Iterator[View]:
        """Yield one consistent state, whatever a writer does meanwhile.

        Raises:
            SnapshotError: the snapshot cannot be opened, or fails in use; what the caller does not handle
                closes it.
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
            try:
                yield self._view
            except SnapshotError:
                # What has failed once is opened anew for the next question, which may find it repaired.
                self._close_view()
                raise

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
