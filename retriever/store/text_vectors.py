"""Rows by the text that the encoder read: vectors, and which chunks share a text."""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pageindex.text import Span
from retriever.store.database import Connection
from retriever.store.reading import GIVEN, select
from retriever.types import FloatMatrix, WholeMatrix

# A vector is kept as whole numbers of [-127, 127], a quarter of its size. Its direction alone is compared, and changes
# by a cosine of less than .0001: a hundredth of what the model's own int8 weights have lost.
LARGEST = 127
LEAST = 1e-6  # that is left of the square of a length

Owner = TypeVar("Owner")


class PackedVector(bytes):
    """A vector as `pack_vectors` writes it."""


def pack_vectors(matrix: FloatMatrix) -> Iterator[PackedVector]:
    """Yield each row of (n, d), none of zeros, as d whole numbers of a byte, -127 to 127.

    >>> [np.frombuffer(row, np.int8).tolist() for row in pack_vectors(np.array([[0.5, -1], [0.2, 0.1]]))]
    [[64, -127], [127, 64]]
    """
    whole = np.rint(matrix * (LARGEST / np.abs(matrix).max(axis=1, keepdims=True))).astype(np.int8)
    return (PackedVector(row.tobytes()) for row in whole)


def join_vectors(rows: Iterable[tuple[Owner, bytes]]) -> tuple[list[Owner], WholeMatrix]:
    """Return what packed vectors belong to, and the vectors as (n, d) whole numbers.

    Raises:
        sqlite3.DatabaseError: one of them has another length.
    """
    owners, numbers, lengths = list[Owner](), bytearray(), set[int]()
    for owner, vector in rows:  # one by one: a list would take twice the memory
        owners.append(owner)
        numbers += vector
        lengths.add(len(vector))
    if len(lengths) > 1:
        raise sqlite3.DatabaseError("a vector is not as it was written")
    return owners, np.frombuffer(numbers, np.int8).reshape(len(owners), *lengths or {0})


def unpack_vectors(rows: Iterable[tuple[Owner, bytes]]) -> tuple[list[Owner], FloatMatrix]:
    """Do as `join_vectors`; the vectors are float32, unit rows."""
    owners, whole = join_vectors(rows)
    matrix = whole.astype(np.float32)
    matrix /= np.sqrt(np.einsum("ij,ij->i", matrix, matrix))[:, np.newaxis]
    return owners, matrix


class NearChunk(NamedTuple):
    """A chunk whose text is near to a question."""

    cosine: float
    """Of its text's stored vector with the question's, as `relate` gives it."""
    node_id: str
    key: int
    node_key: int
    shown_id: str
    """The node that is shown for it: itself, where it has text of its own."""
    span: Span


def relate(
    products: npt.NDArray[np.float64],
    own: npt.NDArray[np.float64] | float,
    others: npt.NDArray[np.float64] | float,
    common: float,
) -> npt.NDArray[np.float64]:
    """Return cosines on one scale for every encoder: unrelated texts have about 0, equal ones 1.

    Many encoders put all texts into one corner: their cosines lie between .7 and 1, and a share of the best says
    nothing. This is the cosine without the direction that all texts have in common.

    Args:
        products: dot products of a vector, or a mean of unit vectors, with others.
        own: the square of its length.
        others: the square of theirs.
        common: the mean cosine of unrelated texts; 0 leaves the cosines as they are.

    >>> relate(np.array([0.7, 0.85, 1]), 1.0, 1.0, 0.7)
    array([0. , 0.5, 1. ])
    """
    squares = np.maximum(own - common, LEAST) * np.maximum(others - common, LEAST)
    related: npt.NDArray[np.float64] = (products - common) / np.sqrt(squares)
    return related


def near_chunks(rows: Iterable[tuple[Any, ...]], vector: FloatMatrix, common: float) -> list[NearChunk]:
    """Measure the texts that NEAR_TEXTS gives against a vector, (1, d); best first, ties by node id, then by key.

    The vector may be shorter than 1: a mean of unit vectors. `common` is as in `relate`.

    ChromaDB's cosines differ in the seventh digit by when a chunk came in, so that an index made step by step would
    rank some pairs otherwise than one made at once.
    """
    rows = list(rows)
    texts, matrix = unpack_vectors((text_key, stored) for text_key, stored, *_ in rows if stored is not None)
    if not texts:
        return []
    # Summed row by row: a product of matrices may give equal rows results that differ in the last bit.
    products = (matrix.astype("float64") * vector).sum(axis=1)
    related = relate(products, float((vector.astype("float64") ** 2).sum()), 1.0, common)
    cosines = dict(zip(texts, related.tolist(), strict=True))
    # Ties by name, so that one index gives one answer, however its rows came about.
    found = [
        NearChunk(cosines[text_key], node_id, key, node_key, shown_id, Span(first, last))
        for text_key, _, node_id, key, node_key, shown_id, first, last in rows
    ]
    return sorted(found, key=lambda chunk: (-chunk.cosine, chunk.node_id, chunk.key))


def pending_count(connection: Connection) -> int:
    """Return how many texts are still to be embedded."""
    return int(connection.execute("SELECT count(*) FROM pending").fetchone()[0])


def pending_texts(connection: Connection, limit: int) -> dict[bytes, str]:
    """Return at most `limit` of the texts still to be embedded, by hash, in the order of the documents."""
    return dict(connection.execute("SELECT text_hash, text FROM pending ORDER BY rowid LIMIT ?", (limit,)))


def sample_vectors(connection: Connection, fingerprint: str, count: int) -> FloatMatrix:
    """Return the unit vectors (n, d) of so many texts at most, by chance and the same each time."""
    query = "SELECT text_hash, vector FROM vectors WHERE fingerprint = ? AND text_hash IN"
    query += " (SELECT text_hash FROM chunks) ORDER BY text_hash LIMIT ?"
    return unpack_vectors(connection.execute(query, (fingerprint, count)))[1]


def dimension(connection: Connection, fingerprint: str) -> int | None:
    """Return the length of the vectors; None where there is none."""
    row = connection.execute("SELECT vector FROM vectors WHERE fingerprint = ? LIMIT 1", (fingerprint,)).fetchone()
    return len(row[0]) if row else None


def vectors_of_nodes(
    connection: Connection, fingerprint: str, node_ids: Iterable[str]
) -> tuple[list[str], FloatMatrix]:
    """Return the unit vectors (n, d) of those chunks of these nodes that have one, with the node of each."""
    of_nodes = f"SELECT node_key FROM nodes WHERE node_id {GIVEN}"
    return unpack_vectors(select(connection, _VECTORS % of_nodes, node_ids, fingerprint))


def vectors_of_folder(connection: Connection, fingerprint: str, folder_key: int) -> FloatMatrix:
    """Do as `vectors_of_nodes` for all chunks of a folder."""
    query = "SELECT node_key FROM nodes JOIN documents USING (document_key) WHERE folder_key = ?"
    return unpack_vectors(connection.execute(_VECTORS % query, (fingerprint, folder_key)))[1]


def distinct_vectors(
    connection: Connection, fingerprint: str, node_keys: Iterable[int] | None = None
) -> tuple[list[int], WholeMatrix]:
    """Return the first chunk of each text, ascending, and its vector as it is kept: (n, d) whole numbers of any length.

    Args:
        connection: of the index.
        fingerprint: of the encoder.
        node_keys: of the sections whose texts these are; all where it is None.

    Raises:
        sqlite3.DatabaseError: a vector is not as it was written.
    """
    if node_keys is None:
        rows = connection.execute(_ALL_VECTORS, (fingerprint,))
    else:
        rows = select(connection, _VECTORS_OF_PART, node_keys, fingerprint)
    # Each text once: a graph of near vectors cannot be walked where many are equal. With 3,000 equal ones among 5,000,
    # ChromaDB found 43 % of what the exact scan found.
    keys, matrix = join_vectors(rows)
    order = np.argsort(keys)
    return [keys[row] for row in order], matrix[order]


# All vectors in the order in which they lie in the file: half the time of a look-up for each text (+ and CROSS JOIN are
# SQLite's words for it).
_ALL_VECTORS = (
    "SELECT min(chunk_key), vector FROM vectors CROSS JOIN chunks USING (text_hash) WHERE +fingerprint = ?"
    " GROUP BY vector_key"
)
_VECTORS_OF_PART = (
    "SELECT min(chunk_key), vector FROM chunks CROSS JOIN vectors"
    f" ON vectors.text_hash = chunks.text_hash AND fingerprint = ? WHERE node_key {GIVEN} GROUP BY chunks.text_hash"
)

# As in `reading`: some rows first. A text's vector comes with its first chunk alone: thousands may have it.
NEAR_TEXTS = (
    "WITH wanted AS (SELECT named.chunk_key AS text_key,"
    " CASE WHEN own.chunk_key = named.chunk_key THEN vector END AS vector, own.chunk_key, own.node_key,"
    " own.first_line, own.last_line FROM chunks AS named"
    " CROSS JOIN vectors ON vectors.text_hash = named.text_hash AND fingerprint = ?"
    f" CROSS JOIN chunks AS own ON own.text_hash = named.text_hash WHERE named.chunk_key {GIVEN})"
    " SELECT text_key, vector, node_id, chunk_key, node_key, coalesce(holder_id, node_id),"
    " wanted.first_line, wanted.last_line FROM wanted JOIN nodes USING (node_key)"
)
_VECTORS = (
    "WITH wanted AS (SELECT chunk_key, node_key, vector FROM chunks"
    " CROSS JOIN vectors ON vectors.text_hash = chunks.text_hash AND fingerprint = ? WHERE node_key IN (%s))"
    " SELECT node_id, vector FROM wanted JOIN nodes USING (node_key) ORDER BY chunk_key"
)
