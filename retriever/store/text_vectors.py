"""What is kept by the text that the encoder read: vectors and tokens, and which chunks share a text."""

import sqlite3
from collections.abc import Iterable, Iterator
from operator import itemgetter

from retriever.store.reading import GIVEN, meta, select
from retriever.types import FloatMatrix, TokenBits

# How far from 1 the length of a stored vector may be: float32 rounds, and an encoder may round more.
NORM_TOLERANCE = 1e-3


def known_hashes(connection: sqlite3.Connection, fingerprint: str) -> set[bytes]:
    rows = connection.execute("SELECT text_hash FROM vectors WHERE fingerprint = ?", (fingerprint,))
    return {row[0] for row in rows}


def alike(connection: sqlite3.Connection, chunk_keys: Iterable[int]) -> dict[int, list[int]]:
    """Chunk keys to the keys of all chunks with the same text, their own included, ascending."""
    query = "SELECT named.chunk_key, other.chunk_key FROM chunks AS named JOIN chunks AS other USING (text_hash)"
    found: dict[int, list[int]] = {}
    for named, other in select(connection, f"{query} WHERE named.chunk_key {GIVEN} ORDER BY 2", chunk_keys):
        found.setdefault(named, []).append(other)
    return found


def vector_count(connection: sqlite3.Connection, fingerprint: str) -> int:
    row = connection.execute(
        "SELECT count(*) FROM chunks JOIN vectors ON vectors.text_hash = chunks.text_hash AND fingerprint = ?",
        (fingerprint,),
    ).fetchone()
    return int(row[0])


def dimension(connection: sqlite3.Connection, fingerprint: str) -> int | None:
    """The length of the vectors; None where there is none."""
    row = connection.execute(
        "SELECT length(vector) FROM vectors WHERE fingerprint = ? LIMIT 1", (fingerprint,)
    ).fetchone()
    return int(row[0]) // 4 if row else None


def embedded_share(connection: sqlite3.Connection) -> float:
    """How far a first indexing has come that is not finished: the share of its texts that have a vector, 0 to 1."""
    texts = int(meta(connection, "texts") or 0)
    return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0]) / texts if texts else 0.0


def chunk_vectors(
    connection: sqlite3.Connection, fingerprint: str, chunk_keys: Iterable[int] | None = None
) -> tuple[list[int], list[str], FloatMatrix]:
    """Keys, node ids and unit vectors (n, d) of the chunks whose vector is there, by key; of all when None."""
    if chunk_keys is None:
        return _as_matrix(connection.execute(f"{_VECTORS} ORDER BY chunk_key", (fingerprint,)))
    query = f"{_VECTORS} WHERE chunk_key {GIVEN} ORDER BY chunk_key"
    return _as_matrix(select(connection, query, chunk_keys, fingerprint))


def vectors_of_nodes(
    connection: sqlite3.Connection, fingerprint: str, node_ids: Iterable[str]
) -> tuple[list[int], list[str], FloatMatrix]:
    """As `chunk_vectors`, of the chunks of these nodes."""
    return _as_matrix(select(connection, f"{_VECTORS} WHERE node_id {GIVEN} ORDER BY chunk_key", node_ids, fingerprint))


def distinct_keys(connection: sqlite3.Connection, fingerprint: str) -> list[int]:
    """The key of the first chunk of each text whose vector is there, ascending."""
    # It stands for all others where vectors are searched: a graph of near vectors cannot be walked where many are
    # equal. With 3,000 equal ones among 5,000, ChromaDB found 43 % of what the exact scan found.
    rows = connection.execute(
        "SELECT min(chunk_key) FROM chunks JOIN vectors ON vectors.text_hash = chunks.text_hash AND fingerprint = ?"
        " GROUP BY chunks.text_hash ORDER BY 1",
        (fingerprint,),
    )
    return [row[0] for row in rows]


def distinct_vectors(connection: sqlite3.Connection, fingerprint: str) -> tuple[list[int], list[str], FloatMatrix]:
    """As `chunk_vectors`, of the first chunk of each text."""
    query = f"{_VECTORS} WHERE chunk_key IN (SELECT min(chunk_key) FROM chunks GROUP BY text_hash) ORDER BY chunk_key"
    return _as_matrix(connection.execute(query, (fingerprint,)))


def tokens_of_nodes(
    connection: sqlite3.Connection, fingerprint: str, node_ids: Iterable[str], width: int
) -> dict[str, list[TokenBits]]:
    """Node ids to the tokens of their chunks, (t, width) each, in the order of the text."""
    import numpy as np

    # CROSS JOIN is SQLite's word for "in this order": it would begin with the tokens of all texts, 250 ms for 60,000.
    query = (
        "SELECT chunk_key, node_id, bits FROM nodes CROSS JOIN chunks USING (node_key)"
        " CROSS JOIN tokens ON tokens.text_hash = chunks.text_hash AND fingerprint = ?"
        f" WHERE node_id {GIVEN}"
    )
    rows = select(connection, query, node_ids, fingerprint)
    found: dict[str, list[TokenBits]] = {}
    for _, node_id, bits in sorted(rows, key=itemgetter(0)):  # SQLite, to sort, would copy half a megabyte of bits
        found.setdefault(node_id, []).append(np.frombuffer(bits, dtype="<u8").reshape(-1, width))
    return found


_VECTORS = (
    "SELECT chunk_key, node_id, vector FROM chunks JOIN nodes USING (node_key)"
    " JOIN vectors ON vectors.text_hash = chunks.text_hash AND fingerprint = ?"
)


def _as_matrix(found: Iterator[tuple[int, str, bytes]]) -> tuple[list[int], list[str], FloatMatrix]:
    import numpy as np  # 100 ms: not for who reads no vectors

    rows = list(found)
    data = np.frombuffer(b"".join(row[2] for row in rows), dtype="<f4")
    matrix = data.reshape(len(rows), -1 if rows else 0)
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix)
    # A flipped bit that this lets through changes no cosine by more than the tolerance.
    if not (np.abs(squares - 1) <= 2 * NORM_TOLERANCE).all():
        raise sqlite3.DatabaseError("a vector is not of length 1, as it was written")
    return [row[0] for row in rows], [row[1] for row in rows], matrix
