"""Changes to index.sqlite. Every function belongs inside a `transaction` of the one writer."""

import json
import os
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING

from pageindex.corpus import Skipped
from retriever.store.database import Connection
from retriever.store.reading import StoredDocument, StoredFolder
from retriever.store.text_vectors import pack_vectors
from retriever.types import Chunk, FloatMatrix

if TYPE_CHECKING:
    from pageindex.document import Document
    from pageindex.node import Unit

# A document's rows stand together, and the document of a row is known from its key: a node's is (document_key << 20)
# plus its place in the document, a chunk's (node_key << 16) plus its place in the node.
NODE_BITS, CHUNK_BITS = 20, 16
MAX_NODES, MAX_CHUNKS = 1 << NODE_BITS, 1 << CHUNK_BITS


def text_hash(text: str) -> bytes:
    """Return the 16 bytes that name a text: its vector, its copies."""
    return blake2b(text.encode("utf-8"), digest_size=16).digest()


def set_meta(connection: Connection, key: str, value: str) -> None:
    """Set a value that the index keeps about itself; the same value again writes nothing, and waits for no disk."""
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        " WHERE meta.value <> excluded.value",
        (key, value),
    )


def put_folder(connection: Connection, folder: StoredFolder) -> StoredFolder:
    """Write the prefix and the dialect of a folder, and return it; a new one, whose key is 0, gets its key."""
    query = "UPDATE folders SET prefix = ?, dialect = ? WHERE folder_key = ?"
    if not folder.key:
        query = "INSERT INTO folders (prefix, dialect, path) VALUES (?, ?, ?) RETURNING folder_key"
    found = connection.execute(query, (folder.prefix, folder.dialect, folder.key or folder.path))
    return folder if folder.key else replace(folder, key=found.fetchone()[0])


def insert(connection: Connection, table: str, columns: str, rows: Iterable[Sequence[object]]) -> None:
    """Add rows, with these columns."""
    marks = ", ".join("?" * (columns.count(",") + 1))
    connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)


def put_document(
    connection: Connection,
    folder_key: int,
    stat: StoredDocument,
    document: "Document",
    names: Mapping[str, Iterable[str]],
    chunks: Iterable[Sequence[Chunk]],
) -> int:
    """Write a document with its nodes, their names and chunks, and its links, not yet resolved; return its key."""
    from pageindex.summary import boilerplate

    share = boilerplate([placed.node for placed in document.nodes])
    aliases, warnings = (
        json.dumps(names, ensure_ascii=False) for names in (document.front_matter.aliases, document.warnings)
    )
    columns = "folder_key, path, size, mtime_ns, ctime_ns, inode, digest, title, boilerplate, aliases, warnings, dated"
    _, *seen = stat
    document_key: int
    (document_key,) = connection.execute(
        f"INSERT INTO documents ({columns}) VALUES ({', '.join('?' * 12)}) RETURNING document_key",
        (folder_key, *seen, document.title, share, aliases, warnings, document.front_matter.dated),
    ).fetchone()
    fields = [(document_key, position, key, value) for position, (key, value) in enumerate(document.fields)]
    insert(connection, "fields", "document_key, position, key, value", fields)
    node_keys = put_nodes(connection, document_key, document)
    rows = [(name, node_keys[node_id]) for node_id, own in names.items() for name in own]
    insert(connection, "names", "name, node_key", rows)
    pieces = [
        (
            (node_keys[chunk.node_id] << CHUNK_BITS) + place,
            node_keys[chunk.node_id],
            chunk.span.first,
            chunk.span.last,
            text_hash(chunk.text),
        )
        for own in chunks
        for place, chunk in enumerate(own)
    ]
    insert(connection, "chunks", "chunk_key, node_key, first_line, last_line, text_hash", pieces)
    links = [
        (node_keys[node_id], position, link.line, link.kind, link.target_path, link.anchor)
        for position, (node_id, link) in enumerate(document.links)
    ]
    insert(connection, "links", "source_key, position, line, kind, target_path, target_anchor", links)
    return document_key


def put_nodes(connection: Connection, document_key: int, document: "Document") -> dict[str, int]:
    """Write the nodes of a document; return their keys, by their ids."""
    from pageindex.document import find_holders

    holders = find_holders(document.nodes)
    node_keys, rows = {}, []
    for place, placed in enumerate(document.nodes):
        node, key = placed.node, (document_key << NODE_BITS) + place
        node_keys[node.id] = key
        words = " ".join(node.body.split())
        row = (
            key,
            document_key,
            placed.parent_id,
            holders.get(node.id),
            node.id,
            node.kind.value,
            node.level,
            node.title,
            json.dumps(node.breadcrumb, ensure_ascii=False),
            node.span and node.span.first,
            node.span and node.span.last,
            node.text,
            node.front_matter_lines,
            node.anchor,
            node.summary,
            pack_units(node.units),
            text_hash(words) if words else None,
        )
        rows.append(row)
    columns = (
        "node_key, document_key, parent_id, holder_id, node_id, kind, level, title, breadcrumb, first_line, last_line,"
        " text, front_matter_lines, anchor, summary, units, body_hash"
    )
    insert(connection, "nodes", columns, rows)
    return node_keys


def pack_units(units: "Sequence[Unit]") -> bytes:
    """Return units as bytes: a third of their texts, which are in `text` as well."""
    rows = [(kind.value, span.first, span.last, *rest) for kind, span, *rest in units]
    return zlib.compress(json.dumps(rows, ensure_ascii=False).encode())


def remove_documents(connection: Connection, document_keys: Sequence[int]) -> None:
    """Remove documents with their nodes, links and chunks; vectors stay, for the text may come back."""
    # A cluster has chunks by text, where they do not go with their nodes.
    chunks = "DELETE FROM chunks WHERE node_key IN (SELECT node_key FROM nodes WHERE document_key = ?)"
    for statement in (chunks, "DELETE FROM documents WHERE document_key = ?"):
        connection.executemany(statement, ((key,) for key in document_keys))


def set_stat(connection: Connection, stats: Iterable[StoredDocument]) -> None:
    """Set new times and inodes of documents whose content is unchanged."""
    connection.executemany(
        "UPDATE documents SET mtime_ns = ?, ctime_ns = ?, inode = ? WHERE document_key = ?",
        ((stat.mtime_ns, stat.ctime_ns, stat.inode, stat.key) for stat in stats),
    )


def set_skipped(
    connection: Connection,
    folder_key: int,
    unreadable: Iterable[tuple[StoredDocument, str]],
    skipped: Iterable[Skipped],
    same: Collection[str],
) -> None:
    """Replace the notes on what of a folder could not be read, but keep those of the paths in `same`."""
    columns = "folder_key, path, size, mtime_ns, ctime_ns, inode, reason"
    rows: dict[str, tuple[object, ...]] = {}
    for (_, path, *seen, _), reason in unreadable:
        rows[path] = (folder_key, path, *seen, reason)
    for item in skipped:
        rows[item.path] = (folder_key, item.path, None, None, None, None, item.reason)
    noted = connection.execute(f"SELECT {columns} FROM skipped WHERE folder_key = ?", (folder_key,)).fetchall()
    rows |= {row[1]: row for row in noted if row[1] in same}
    # `index` runs on timers and in hooks: where nothing is new, the file must not change either.
    if set(noted) == set(rows.values()):
        return
    connection.execute("DELETE FROM skipped WHERE folder_key = ?", (folder_key,))
    insert(connection, "skipped", columns, rows.values())


def set_link_targets(connection: Connection, folder: StoredFolder) -> None:
    """Resolve all links of a folder's documents anew: any change may have made or broken one."""
    # 40 ms with what they import, when something has changed.
    from pageindex.links import Link, LinkKind, LinkTargets, name_places, note_names, resolve_link

    anchors: dict[str, dict[str, str]] = {}
    query = "SELECT path, anchor, node_id FROM nodes JOIN documents USING (document_key) WHERE folder_key = ?"
    for path, anchor, node_id in connection.execute(f"{query} ORDER BY node_key", (folder.key,)):
        anchors.setdefault(path, {}).setdefault(anchor, node_id)
    aliases = connection.execute("SELECT path, aliases FROM documents WHERE folder_key = ?", (folder.key,))

    @cache
    def read_places(path: str) -> dict[str, str]:
        query = "SELECT node_id, breadcrumb, nodes.title, text FROM nodes JOIN documents USING (document_key)"
        order = "ORDER BY kind DESC, node_key"  # sections, then the file, which may have the title of one
        rows = connection.execute(f"{query} WHERE folder_key = ? AND path = ? {order}", (folder.key, path))
        return name_places((node_id, (*json.loads(above), title), text) for node_id, above, title, text in rows)

    def exists(path: str) -> bool:
        return os.path.exists(f"{folder.path}/{path}")  # noqa: PTH110 - Path raises for a name that is too long

    names = note_names((path, json.loads(names)) for path, names in aliases)
    targets = LinkTargets(anchors, names, read_places, exists)
    rows = connection.execute(
        "SELECT path, line, target_path, target_anchor, links.kind, target_id, problem, source_key, position FROM links"
        " JOIN nodes ON node_key = source_key JOIN documents USING (document_key) WHERE folder_key = ?",
        (folder.key,),
    ).fetchall()
    resolved = []
    for path, line, target_path, anchor, kind, target, problem, *key in rows:
        found = resolve_link(Link(line, target_path, anchor, LinkKind(kind)), path, targets)
        # One file's new heading leaves nearly all links as they were, and each row written is in the log of the commit.
        if found != (target, problem):
            resolved.append((*found, *key))
    connection.executemany(
        "UPDATE links SET target_id = ?, problem = ? WHERE source_key = ? AND position = ?", resolved
    )


def put_vectors(connection: Connection, fingerprint: str, hashes: Sequence[bytes], matrix: FloatMatrix) -> None:
    """Write vectors (n, d) under the hashes of their texts; those that are there already stay as they are."""
    rows = ((fingerprint, key, packed) for key, packed in zip(hashes, pack_vectors(matrix), strict=True))
    connection.executemany(
        "INSERT INTO vectors (fingerprint, text_hash, vector) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows
    )


def put_pending(connection: Connection, texts: Mapping[bytes, str]) -> None:
    """Add texts that are to be embedded, by hash."""
    connection.executemany("INSERT INTO pending (text_hash, text) VALUES (?, ?) ON CONFLICT DO NOTHING", texts.items())


def take_pending(connection: Connection, hashes: Sequence[bytes]) -> set[bytes]:
    """Take texts out of those that are to be embedded, by hash; return those that were still among them."""
    query = f"DELETE FROM pending WHERE text_hash IN ({', '.join('?' * len(hashes))}) RETURNING text_hash"
    return {key for (key,) in connection.execute(query, hashes).fetchall()}


def remove_stale_pending(connection: Connection, fingerprint: str) -> None:
    """Remove pending texts that no chunk has any more, and those that have a vector."""
    connection.execute(
        "DELETE FROM pending WHERE text_hash NOT IN (SELECT text_hash FROM chunks)"
        " OR EXISTS (SELECT 1 FROM vectors WHERE fingerprint = ? AND vectors.text_hash = pending.text_hash)",
        (fingerprint,),
    )


def remove_other_models(connection: Connection, fingerprint: str) -> None:
    """Remove the vectors of all other models, and what was measured with them."""
    connection.execute("DELETE FROM vectors WHERE fingerprint <> ?", (fingerprint,))
    connection.execute("DELETE FROM backgrounds")
