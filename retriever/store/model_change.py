"""While one embedding model takes the place of another: which sections the new one has read, and what the former had.

The chunks of both are rows of one table. Those that the new model's cut does not have are `former`: the former model's
vectors find them, and nothing else does. A vector is kept by model and text, so no row needs to say whose it is.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from retriever.store import reading, writing
from retriever.store.reading import keys_as_json
from retriever.types import Chunk

_Cut = tuple[int, int, str, bytes]
"""First line, last line, text, and the hash of what the encoder reads."""


@dataclass(frozen=True, slots=True)
class Former:
    """The model that another one takes the place of."""

    fingerprint: str
    settings: dict[str, Any]
    """The index sections of the settings that the index was made with."""


def former_model(connection: sqlite3.Connection) -> Former | None:
    """The model whose vectors stand in for what the new one has not read; None when nothing is being changed."""
    content = json.loads(reading.meta(connection, "former") or "null")
    return None if content is None else Former(**content)


def put_former(connection: sqlite3.Connection, former: Former | None) -> None:
    """Notes that a change has begun; with None that it is over."""
    content = None if former is None else {"fingerprint": former.fingerprint, "settings": former.settings}
    writing.set_meta(connection, "former", json.dumps(content))


def recut(connection: sqlite3.Connection, chunks: Iterable[Chunk], former: str) -> None:
    """Puts the new model's chunks beside those of the former, whose fingerprint is given.

    A section that both cut alike keeps its rows; what neither of them has goes.
    """
    wanted: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        wanted[chunk.node_id].append(chunk)
    there = _rows_by_node(connection)
    for node_id in sorted(there.keys() | wanted.keys()):
        _recut_node(connection, wanted.get(node_id, []), there.get(node_id, {}))
    connection.execute(
        "DELETE FROM chunks WHERE former AND text_hash NOT IN (SELECT text_hash FROM vectors WHERE fingerprint = ?)",
        (former,),
    )


def _rows_by_node(connection: sqlite3.Connection) -> dict[str, dict[bool, list[tuple[int, _Cut]]]]:
    """Node ids to their former chunks (True) and their others, each with its key, in the order of the text."""
    rows = connection.execute(
        "SELECT node_id, former, chunk_key, chunks.first_line, chunks.last_line, chunks.text, text_hash FROM chunks"
        " JOIN nodes USING (node_key) ORDER BY chunk_key"
    )
    found: dict[str, dict[bool, list[tuple[int, _Cut]]]] = defaultdict(lambda: {True: [], False: []})
    for node_id, former, key, *cut in rows:
        found[node_id][bool(former)].append((key, (cut[0], cut[1], cut[2], cut[3])))
    return found


def _recut_node(
    connection: sqlite3.Connection, chunks: Sequence[Chunk], there: dict[bool, list[tuple[int, _Cut]]]
) -> None:
    cut = [_cut(chunk) for chunk in chunks]
    alike = next((former for former, rows in there.items() if rows and [row for _, row in rows] == cut), None)
    if alike is not False:
        keys = [key for rows in there.values() for key, _ in rows]
        _mark(connection, keys, former=True)
        if alike:
            _mark(connection, [key for key, _ in there[True]], former=False)
        else:
            writing.put_chunks(connection, chunks)


def _cut(chunk: Chunk) -> _Cut:
    return chunk.span.first, chunk.span.last, chunk.text, writing.text_hash(chunk.embedded_text)


def _mark(connection: sqlite3.Connection, keys: Iterable[int], *, former: bool) -> None:
    query = "UPDATE chunks SET former = ? WHERE chunk_key IN (SELECT value FROM json_each(?))"
    connection.execute(query, (int(former), keys_as_json(keys)))


def unread_nodes(connection: sqlite3.Connection, fingerprint: str) -> list[int]:
    """The keys of the sections of which the model has not read every chunk, in the order of the documents."""
    return [
        row[0] for row in connection.execute(f"SELECT DISTINCT node_key {_UNREAD} ORDER BY node_key", (fingerprint,))
    ]


def unread_among(connection: sqlite3.Connection, fingerprint: str, node_ids: Iterable[str]) -> set[str]:
    """Those of the sections of which the model has not read every chunk."""
    query = f"SELECT DISTINCT node_id {_UNREAD} AND node_id IN (SELECT value FROM json_each(?))"
    return {row[0] for row in connection.execute(query, (fingerprint, json.dumps(list(node_ids))))}


def read_share(connection: sqlite3.Connection, fingerprint: str) -> float:
    """Of how many sections with a text the model has read any, 0 to 1."""
    row = connection.execute(
        "SELECT count(DISTINCT node_key) FILTER (WHERE vectors.text_hash IS NOT NULL), count(DISTINCT node_key)"
        " FROM chunks LEFT JOIN vectors ON vectors.text_hash = chunks.text_hash AND fingerprint = ?",
        (fingerprint,),
    ).fetchone()
    return row[0] / row[1] if row[1] else 1.0


def texts_read(connection: sqlite3.Connection, fingerprint: str) -> int:
    """How many texts the model has read: rises with every step of a change."""
    query = "SELECT count(*) FROM vectors WHERE fingerprint = ?"
    return int(connection.execute(query, (fingerprint,)).fetchone()[0])


def remove_former(connection: sqlite3.Connection, fingerprint: str) -> None:
    """Ends a change: only the chunks, vectors and tokens of this model stay."""
    connection.execute("DELETE FROM chunks WHERE former")
    for table in ("vectors", "tokens"):
        connection.execute(f"DELETE FROM {table} WHERE fingerprint <> ?", (fingerprint,))
    put_former(connection, None)


_UNREAD = (
    "FROM chunks JOIN nodes USING (node_key)"
    " LEFT JOIN vectors ON vectors.text_hash = chunks.text_hash AND fingerprint = ?"
    " WHERE NOT former AND vectors.text_hash IS NULL"
)
