"""Changes to index.sqlite. Every function belongs inside a `transaction` of the one writer."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from pageindex.boilerplate import boilerplate
from pageindex.corpus import Skipped
from retriever.store.checksums import inserting, updating
from retriever.store.reading import StoredDocument, StoredFolder
from retriever.types import Chunk, FloatMatrix, TokenBits

if TYPE_CHECKING:
    from pageindex.document import Document
    from pageindex.links import LinkTargets


def text_hash(text: str) -> bytes:
    """What names a text's vector: 16 bytes."""
    return blake2b(text.encode("utf-8"), digest_size=16).digest()


def set_meta(connection: sqlite3.Connection, key: str, value: str) -> None:
    """A value that the index keeps about itself; the same once more writes nothing, and waits for no disk."""
    connection.execute(
        f"{inserting('meta')} ON CONFLICT (key) DO UPDATE"
        " SET value = excluded.value, checksum = excluded.checksum WHERE value <> excluded.value",
        (key, value),
    )


def add_folder(connection: sqlite3.Connection, folder: StoredFolder) -> StoredFolder:
    """A folder that is not there yet, with its key."""
    row = (folder.path, folder.prefix)
    return replace(folder, key=_insert(connection, "folders", row))


def put_document(connection: sqlite3.Connection, folder_key: int, stat: StoredDocument, document: "Document") -> int:
    """A document with its nodes and its links, these not yet resolved; returns its key (`stat` has none yet)."""
    lists = [json.dumps(names, ensure_ascii=False) for names in (document.front_matter.aliases, document.warnings)]
    nodes = [placed.node for placed in document.nodes]
    said = (document.title, boilerplate(nodes), *lists, document.front_matter.dated)
    row = (folder_key, stat.path, stat.size, stat.mtime_ns, stat.digest, *said)
    document_key = _insert(connection, "documents", row)
    node_keys = {}
    for placed in document.nodes:
        node = placed.node
        first, last = (node.span.first, node.span.last) if node.span else (None, None)
        breadcrumb = json.dumps(node.breadcrumb, ensure_ascii=False)
        place = (
            node.id,
            document_key,
            placed.parent_id,
            node.kind.value,
            node.level,
            node.title,
            breadcrumb,
            first,
            last,
        )
        content = (node.text, node.front_matter_lines, node.anchor, node.summary)
        node_keys[node.id] = _insert(connection, "nodes", (*place, *content))
    for position, (node_id, link) in enumerate(document.links):
        link_row = (node_keys[node_id], position, link.line, link.kind, link.target_path, link.anchor)
        _insert(connection, "links", (*link_row, None, None))
    return document_key


def put_chunks(connection: sqlite3.Connection, chunks: Iterable[Chunk]) -> None:
    """The chunks of nodes that are there."""
    node_key = "SELECT node_key FROM nodes WHERE node_id = ?"
    for chunk in chunks:
        (node,) = connection.execute(node_key, (chunk.node_id,)).fetchone()
        row = (node, chunk.span.first, chunk.span.last, chunk.text, text_hash(chunk.embedded_text), 0)
        _insert(connection, "chunks", row)


def remove_documents(connection: sqlite3.Connection, document_keys: Sequence[int]) -> None:
    """The documents with their nodes, links and chunks; vectors stay, for the text may come back."""
    connection.executemany("DELETE FROM documents WHERE document_key = ?", ((key,) for key in document_keys))


def set_stat(connection: sqlite3.Connection, stats: Iterable[StoredDocument]) -> None:
    """New sizes and times of documents whose content is what it was."""
    connection.executemany(
        f"{updating('documents', size='?1', mtime_ns='?2')} WHERE document_key = ?3",
        ((stat.size, stat.mtime_ns, stat.key) for stat in stats),
    )


def set_skipped(
    connection: sqlite3.Connection,
    folder_key: int,
    unreadable: Iterable[tuple[StoredDocument, str]],
    skipped: Iterable[Skipped],
) -> None:
    """What of a folder could not be read, in place of what was noted before; the same once more writes nothing."""
    rows = {item.path: (folder_key, item.path, item.size, item.mtime_ns, reason) for item, reason in unreadable}
    rows |= {item.path: (folder_key, item.path, 0, 0, item.reason) for item in skipped}
    query = "SELECT folder_key, path, size, mtime_ns, reason FROM skipped WHERE folder_key = ? ORDER BY path"
    noted = connection.execute(query, (folder_key,)).fetchall()
    if noted == sorted(rows.values()):
        return
    connection.execute("DELETE FROM skipped WHERE folder_key = ?", (folder_key,))
    connection.executemany(inserting("skipped"), rows.values())


def set_link_targets(connection: sqlite3.Connection, folder: StoredFolder) -> None:
    """Decides anew where the links of a folder's documents lead: any change may have made or broken one."""
    from pageindex.links import (  # 40 ms with what they import, when something has changed
        Broken,
        Link,
        LinkKind,
        resolve_link,
    )

    targets = _link_targets(connection, folder)
    rows = connection.execute(
        "SELECT path, line, target_path, target_anchor, links.kind, source_key, position FROM links"
        " JOIN nodes ON node_key = source_key JOIN documents USING (document_key) WHERE folder_key = ?",
        (folder.key,),
    ).fetchall()
    resolved = []
    for path, line, target_path, anchor, kind, *key in rows:
        found = resolve_link(Link(line, target_path, anchor, LinkKind(kind)), path, targets)
        problem = found.value if isinstance(found, Broken) and found is not Broken.NOT_A_DOCUMENT else None
        resolved.append((None if isinstance(found, Broken) else found, problem, *key))
    connection.executemany(
        f"{updating('links', target_id='?1', problem='?2')} WHERE source_key = ?3 AND position = ?4"
        " AND (target_id IS NOT ?1 OR problem IS NOT ?2)",
        resolved,
    )


def _link_targets(connection: sqlite3.Connection, folder: StoredFolder) -> "LinkTargets":
    from pageindex.links import LinkTargets, note_names

    anchors: dict[str, dict[str, str]] = {}
    rows = connection.execute(
        "SELECT path, anchor, node_id FROM nodes JOIN documents USING (document_key)"
        " WHERE folder_key = ? ORDER BY node_key",
        (folder.key,),
    )
    for path, anchor, node_id in rows:
        anchors.setdefault(path, {}).setdefault(anchor, node_id)
    aliases = connection.execute("SELECT path, aliases FROM documents WHERE folder_key = ?", (folder.key,))
    return LinkTargets(anchors, note_names((path, json.loads(names)) for path, names in aliases))


def put_vectors(connection: sqlite3.Connection, fingerprint: str, hashes: Sequence[bytes], matrix: FloatMatrix) -> None:
    """Vectors (n, d) by the hashes of their texts; those that are there already stay as they are."""
    rows = ((fingerprint, key, row.astype("<f4").tobytes()) for key, row in zip(hashes, matrix, strict=True))
    connection.executemany(inserting("vectors", "INSERT OR IGNORE"), rows)


def put_tokens(
    connection: sqlite3.Connection, fingerprint: str, hashes: Sequence[bytes], tokens: Sequence[TokenBits]
) -> None:
    """The tokens of texts by the hashes of the texts; those that are there already stay as they are."""
    rows = ((fingerprint, key, bits.astype("<u8").tobytes()) for key, bits in zip(hashes, tokens, strict=True))
    connection.executemany(inserting("tokens", "INSERT OR IGNORE"), rows)


def _insert(connection: sqlite3.Connection, table: str, row: tuple[object, ...]) -> int:
    cursor = connection.execute(inserting(table), row)
    assert cursor.lastrowid is not None
    return cursor.lastrowid
