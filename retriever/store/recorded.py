"""What was asked and opened, where the user wants it kept: rows of index.sqlite that belong to no snapshot."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from retriever.store.connection import Connection
from retriever.store.reading import GIVEN, select

# So many questions are kept, the youngest: with five hits each they take about 10 MB.
MAX_QUERIES = 1_000


@dataclass(frozen=True, slots=True)
class StoredQuery:
    key: int
    asked_at: str  # UTC, ISO 8601, in seconds
    question: str
    verdict: str
    citation: str | None  # of the first hit; None without hits


def put_query(connection: Connection, query: StoredQuery, record: dict[str, Any]) -> None:
    """One question more (its key is given here); the oldest ones go. Inside a transaction."""
    row = {
        "asked_at": query.asked_at,
        "question": query.question,
        "verdict": query.verdict,
        "citation": query.citation and query.citation.encode("utf-8", "replace").decode("utf-8"),
        "record": json.dumps(record),  # ASCII: names of files may hold lone surrogates, which SQLite cannot store
    }
    connection.insert_rows("queries", [row])
    connection.execute(
        "DELETE FROM queries WHERE query_id <= (SELECT query_id FROM queries ORDER BY query_id DESC LIMIT 1 OFFSET ?)",
        (MAX_QUERIES,),
    )


def queries(connection: Connection) -> tuple[StoredQuery, ...]:
    rows = connection.execute(
        "SELECT query_id, asked_at, question, verdict, citation FROM queries ORDER BY query_id DESC"
    )
    return tuple(StoredQuery(*row) for row in rows)


def query_record(connection: Connection, key: int) -> dict[str, Any] | None:
    row = connection.execute("SELECT record FROM queries WHERE query_id = ?", (key,)).fetchone()
    record: dict[str, Any] | None = None if row is None else json.loads(row[0])
    return record


def remove_query(connection: Connection, key: int) -> int:
    """How many questions that removes: 1, or 0 when there is no such key."""
    return connection.execute("DELETE FROM queries WHERE query_id = ?", (key,)).rowcount


def remove_all(connection: Connection) -> int:
    """How many questions that removes; what was opened goes as well."""
    connection.execute("DELETE FROM opened")
    return connection.execute("DELETE FROM queries").rowcount


def note_opened(connection: Connection, node_id: str) -> None:
    """Counts one opening of a section; sections that are gone are no longer counted. Inside a transaction."""
    remove_gone(connection)
    connection.execute(
        "INSERT INTO opened (node_id, times) VALUES (?, 1)"
        " ON CONFLICT (node_id) DO UPDATE SET times = opened.times + 1",
        (node_id,),
    )


def opened_counts(connection: Connection, node_ids: Iterable[str]) -> dict[str, int]:
    """Node ids to how often each was opened; those that never were are left out."""
    return dict(select(connection, f"SELECT node_id, times FROM opened WHERE node_id {GIVEN}", node_ids))


def remove_citing(connection: Connection, folder: str, is_gone: Callable[[str], bool]) -> None:
    """Removes the questions whose hits quote documents that left; `is_gone` takes a path in the absolute folder."""
    for key, record in connection.execute("SELECT query_id, record FROM queries").fetchall():
        if any(hit["folder"] == folder and is_gone(hit["file"]) for hit in json.loads(record)["hits"]):
            remove_query(connection, key)
    remove_gone(connection)


def remove_gone(connection: Connection) -> None:
    """Forgets that sections were opened which no document has any more: their ids hold words of their headings."""
    connection.execute("DELETE FROM opened WHERE node_id NOT IN (SELECT node_id FROM nodes)")
