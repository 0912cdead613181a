"""Whether what is in index.sqlite is what was written there, and can be.

SQLite checks how its pages hang together, the checksums every value in them; what somebody else wrote with the right
checksums may make no sense all the same.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing

from pageindex.links import LinkKind
from pageindex.node import NodeKind
from retriever.store.by_text import NORM_TOLERANCE
from retriever.store.checksums import COVERED, DamagedRow, rows_that_differ
from retriever.store.migrating import made_in_memory

MAX_NAMED = 5
"""So many broken rows of a kind are named; more of them say nothing new."""
MAX_CHARS = 160
"""SQLite lists every cell of a broken page."""


def find_damage(connection: sqlite3.Connection) -> Iterator[str]:
    """Everything that is wrong, a clause each; nothing for an index that is whole. Reads all of it."""
    try:
        broken = list(_broken_pages(connection))
        yield from broken
        if not broken:
            for rows in (_meta, _documents, _nodes, _chunks, _links, _vectors, _tokens, _checksums, _schema):
                yield from list(rows(connection))[:MAX_NAMED]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        yield str(error)


def damaged_rows(connection: sqlite3.Connection) -> list[DamagedRow]:
    """The rows of all tables that differ from their checksums."""
    return [row for table in COVERED for row in rows_that_differ(connection, table)]


def documents_of(connection: sqlite3.Connection, row: DamagedRow) -> list[tuple[int, str]]:
    """The keys and paths of the documents that a row is made of; none for a row that no document can give back."""
    query = _DOCUMENTS_OF.get(row.table)
    return connection.execute(query, row.key[:1]).fetchall() if query else []


def _broken_pages(connection: sqlite3.Connection) -> Iterator[str]:
    for (found,) in connection.execute(f"PRAGMA integrity_check({MAX_NAMED})"):
        if found != "ok":
            yield " ".join(str(found).removeprefix("*** in database main ***").split())[:MAX_CHARS]
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(MAX_NAMED):
        yield f"a row of {table} belongs to no row of {parent}"


def _meta(connection: sqlite3.Connection) -> Iterator[str]:
    kinds: dict[str, Callable[[str], object]] = {
        "generation": int,
        "settings": lambda text: json.loads(text).items(),
        "recipe": json.loads,
        "documents": lambda text: json.loads(text).items(),
        "unrelated": json.loads,
        "former": json.loads,
        "texts": int,
    }
    for key, value in connection.execute("SELECT key, value FROM meta"):
        if key in kinds and not _is_read(kinds[key], value):
            yield f"the value of {key} makes no sense"


def _documents(connection: sqlite3.Connection) -> Iterator[str]:
    rows = connection.execute("SELECT path, size, digest, boilerplate, aliases, warnings FROM documents")
    for path, size, digest, share, *lists in rows:
        sound = size >= 0 and len(digest) == 64 and 0 <= share <= 1 and all(_is_read(_texts, text) for text in lists)
        if not sound:
            yield f"the row of {path} makes no sense"


def _nodes(connection: sqlite3.Connection) -> Iterator[str]:
    rows = connection.execute(
        "SELECT node_id, documents.path, prefix, nodes.kind, breadcrumb, first_line, last_line FROM nodes"
        " JOIN documents USING (document_key) JOIN folders USING (folder_key)"
    )
    kinds = set(map(str, NodeKind))
    for node_id, path, prefix, kind, breadcrumb, first, last in rows:
        named = node_id.startswith(prefix + path)
        placed = first is last is None or (isinstance(first, int) and isinstance(last, int) and 1 <= first <= last)
        if not (named and placed and kind in kinds and _is_read(_texts, breadcrumb)):
            yield f"the row of {node_id} makes no sense"


def _chunks(connection: sqlite3.Connection) -> Iterator[str]:
    """A chunk is lines of its node's text, a table's header again before them where it was parted."""
    rows = connection.execute(
        "SELECT node_id, chunks.text, nodes.text, length(text_hash), chunks.first_line, chunks.last_line"
        " FROM chunks JOIN nodes USING (node_key)"
    )
    for node_id, text, whole, length, first, last in rows:
        inside = text in whole or all(line in whole for line in text.split("\n"))
        if not (inside and length == 16 and 1 <= first <= last):
            yield f"a chunk of {node_id} is not in its text"


def _links(connection: sqlite3.Connection) -> Iterator[str]:
    known = set(map(str, LinkKind))
    for (kind,) in connection.execute("SELECT DISTINCT kind FROM links"):
        if kind not in known:
            yield f"there is no link of the kind {kind!r}"


def _vectors(connection: sqlite3.Connection) -> Iterator[str]:
    import numpy as np

    lengths: dict[str, int] = {}
    for fingerprint, key, data in connection.execute("SELECT fingerprint, text_hash, vector FROM vectors"):
        vector = np.frombuffer(data[: len(data) // 4 * 4], "<f4").astype(float)
        with np.errstate(all="ignore"):
            norm = float(np.linalg.norm(vector))
        right = len(data) == lengths.setdefault(fingerprint, len(data)) and len(key) == 16
        if not (right and abs(norm - 1) <= NORM_TOLERANCE):
            yield f"a vector of {fingerprint} has {len(data)} bytes and the length {norm:.3f}"


def _tokens(connection: sqlite3.Connection) -> Iterator[str]:
    rows = connection.execute("SELECT fingerprint, length(bits) FROM tokens WHERE length(bits) % 8")
    for fingerprint, length in rows:
        yield f"tokens of {fingerprint} have {length} bytes"


def _checksums(connection: sqlite3.Connection) -> Iterator[str]:
    for row in damaged_rows(connection):
        paths = [path for _, path in documents_of(connection, row)]
        yield f"a row of {row.table} differs from its checksum{f' ({paths[0]})' if paths else ''}"


def _schema(connection: sqlite3.Connection) -> Iterator[str]:
    """SQLite believes what its schema says, and that has no checksum: it is compared with a new one."""
    with closing(made_in_memory()) as new:
        for kind, name in new.execute("SELECT type, name FROM sqlite_master").fetchall():
            if _described(connection, kind, name) != _described(new, kind, name):
                yield f"the {kind} {name} is not defined as it should be"


def _described(connection: sqlite3.Connection, kind: str, name: str) -> list[list[tuple[object, ...]]]:
    listed = connection.execute("SELECT type, name FROM sqlite_master WHERE type = ? AND name = ?", (kind, name))
    parts = ("table_xinfo", "foreign_key_list", "index_list") if kind == "table" else ("index_xinfo",)
    return [listed.fetchall(), *(connection.execute(f"PRAGMA {part}({name})").fetchall() for part in parts)]


def _is_read(reader: Callable[[str], object], text: str) -> bool:
    try:
        reader(text)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False
    return True


def _texts(text: str) -> None:
    """A JSON list of texts.

    Raises:
        ValueError: it is something else.
    """
    content = json.loads(text)
    if not isinstance(content, list) or not all(isinstance(item, str) for item in content):
        raise ValueError(text)


_OF_NODES = "SELECT DISTINCT document_key, path FROM documents JOIN nodes USING (document_key)"
_OF_CHUNKS = f"{_OF_NODES} JOIN chunks USING (node_key)"
_DOCUMENTS_OF = {
    "documents": "SELECT document_key, path FROM documents WHERE document_key = ?",
    "nodes": f"{_OF_NODES} WHERE node_key = ?",
    "links": f"{_OF_NODES} WHERE node_key = ?",
    "chunks": f"{_OF_CHUNKS} WHERE chunk_key = ?",
    "vectors": f"{_OF_CHUNKS} JOIN vectors USING (text_hash) WHERE vectors.rowid = ?",
    "tokens": f"{_OF_CHUNKS} JOIN tokens USING (text_hash) WHERE tokens.rowid = ?",
}
"""By table, whose documents a row belongs to, by the first value of its key."""
