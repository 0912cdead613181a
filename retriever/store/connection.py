"""What the stores have in common: a connection that takes the same statements, whatever engine is behind it.

Statements are written as both SQLite and PostgreSQL read them. What is left between the two dialects (how values are
marked, how a transaction begins) `PostgresConnection` says in its own words.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol


class Rows(Protocol):
    """What a statement gave."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""

    def fetchone(self) -> Any:  # noqa: ANN401  # a row is a tuple of what the statement names
        """The next row; None after the last."""

    def fetchall(self) -> list[Any]:
        """All rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """sqlite3.Connection, or what stands for it."""

    @property
    def in_transaction(self) -> bool:
        """Whether one has begun and not ended."""

    def execute(self, query: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run one statement."""

    def executemany(self, query: str, parameters: Iterable[Sequence[Any]], /) -> Rows:
        """Run one statement for each of several rows of values."""

    def close(self) -> None:
        """Let go of the database."""
