"""The summaries that a language model wrote, by the text that it read, and which of them nodes have."""

import sqlite3
from collections.abc import Collection, Mapping


def known(connection: sqlite3.Connection, writer: str) -> dict[bytes, str]:
    """What a language model wrote, by the hash of what it read; empty where it cannot be used."""
    return dict(connection.execute("SELECT text_hash, summary FROM summaries WHERE writer = ?", (writer,)))


def put(connection: sqlite3.Connection, writer: str, text_hash: bytes, summary: str) -> None:
    """What a language model wrote for a text that it had not read yet."""
    row = (writer, text_hash, summary)
    connection.execute("INSERT INTO summaries (writer, text_hash, summary) VALUES (?, ?, ?)", row)


def keep_only(connection: sqlite3.Connection, text_hashes: Collection[bytes]) -> None:
    """Forgets the summaries of all other texts, by any writer."""
    kept = set(text_hashes)
    rows = connection.execute("SELECT DISTINCT text_hash FROM summaries").fetchall()
    connection.executemany("DELETE FROM summaries WHERE text_hash = ?", (row for row in rows if row[0] not in kept))


def set_of_nodes(connection: sqlite3.Connection, summaries: Mapping[int, str]) -> None:
    """New summaries of nodes, by their keys."""
    rows = ((summary, key) for key, summary in summaries.items())
    connection.executemany("UPDATE nodes SET summary = ? WHERE node_key = ?", rows)
