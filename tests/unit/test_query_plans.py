"""What a search reads of index.sqlite costs what it touches, not what is indexed: no query may walk through a table."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from retriever.store import queries, reading, text_vectors
from retriever.store import reading as priors
from retriever.store.database import create_database

READS: dict[str, Callable[[sqlite3.Connection], object]] = {
    "alike": lambda connection: text_vectors.alike(connection, [1]),
    "chunk_vectors": lambda connection: text_vectors.chunk_vectors(connection, "f", [1]),
    "tokens_of_nodes": lambda connection: text_vectors.tokens_of_nodes(connection, "f", ["a"], 6),
    "boilerplate": lambda connection: priors.boilerplate(connection, ["a"]),
    "chunks": lambda connection: reading.chunks(connection, [1]),
    "chunks_of_nodes": lambda connection: list(reading.chunks_of_nodes(connection, ["a"])),
    "documents_of_nodes": lambda connection: reading.documents_of_nodes(connection, ["a"]),
    "dates": lambda connection: priors.dates(connection, ["a"]),
    "folder_of": lambda connection: reading.folder_of(connection, [1]),
    "shown_ids": lambda connection: reading.shown_ids(connection, [1]),
    "link_targets_of_nodes": lambda connection: reading.link_targets_of_nodes(connection, ["a"]),
    "opened_counts": lambda connection: queries.opened_counts(connection, ["a"]),
    "nodes_of_documents": lambda connection: list(reading.nodes_of_documents(connection, [1])),
}
WALKS = ("SCAN", "(fingerprint=?)")
"""Each row of a table; each text of an encoder."""


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    with closing(create_database(Path(tmp_path_factory.mktemp("index")))) as connection:
        yield connection


@pytest.mark.parametrize("name", READS)
def test_a_search_walks_through_no_table(connection: sqlite3.Connection, name: str) -> None:
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    READS[name](connection)
    connection.set_trace_callback(None)
    plans = [row[3] for text in statements for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")]
    assert plans
    assert not [step for step in plans if any(walk in step for walk in WALKS) and "SCAN json_each" not in step]
