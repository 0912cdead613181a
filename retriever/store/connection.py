"""What the stores have in common: a connection that takes the same statements, whatever engine is behind it.

Statements are written as both SQLite and PostgreSQL read them. The few words in which the two differ,
`PostgresConnection` translates.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol


class Rows(Protocol):
    """What a statement gave."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""

    def fetchone(self) -> Any:  # noqa: ANN401  # a row is a tuple of what the statement names
        """Return the next row; None after the last."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to the rows of an index; one thread at a time."""

    @property
    def in_transaction(self) -> bool:
        """Whether one has begun and not ended."""

    def execute(self, query: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run one statement."""

    def executemany(self, query: str, parameters: Iterable[Sequence[Any]], /) -> Rows:
        """Run one statement for each of several rows of values."""

    def commit(self) -> None:
        """End the transaction."""

    def rollback(self) -> None:
        """Take the transaction back."""

    def pack_list(self, values: Sequence[int | str]) -> object:
        """Return many values as the one parameter that stands for `reading.GIVEN`."""

    def find_damage(self) -> Iterator[str]:
        """Say what of the database's own pages and tables is damaged, a clause each; what is in a row is believed."""

    def close(self) -> None:
        """Let go of the database."""
