"""Changes to index.sqlite. Every function belongs inside a `transaction` of the one writer."""

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from pageindex.files import Skipped
from retriever.store.reading import StoredDocument, StoredFolder
from retriever.store.text_vectors import pack_vectors
from retriever.types import Chunk, FloatMatrix, TokenBits

if TYPE_CHECKING:
    from pageindex.document import Document, Placed


def text_hash(text: str) -> bytes:
    """What names a text's vector: 16 bytes."""
    return blake2b(text.encode("utf-8"), digest_size=16).digest()


def set_meta(connection: sqlite3.Connection, key: str, value: str) -> None:
    """A value that the index keeps about itself; the same once more writes nothing, and waits for no disk."""
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        " WHERE value <> excluded.value",
        (key, value),
    )


def add_folder(connection: sqlite3.Connection, folder: StoredFolder) -> StoredFolder:
    return replace(folder, key=insert_row(connection, "folders", path=folder.path, prefix=folder.prefix))


def set_forgotten(connection: sqlite3.Connection, folder: StoredFolder) -> None:
    rows = [(folder.key, path) for path in folder.forgotten]
    connection.executemany("INSERT OR IGNORE INTO forgotten (folder_key, path) VALUES (?, ?)", rows)


def put_document(
    connection: sqlite3.Connection,
    folder_key: int,
    stat: StoredDocument,
    document: "Document",
    names: Mapping[str, Iterable[str]],
) -> int:
    """A document with its nodes and its links, these not yet resolved; returns its key (`stat` has none yet)."""
    from pageindex.document import find_holders
    from pageindex.summary import boilerplate  # a question writes no document

    document_key = insert_row(
        connection,
        "documents",
        folder_key=folder_key,
        path=stat.path,
        size=stat.size,
        mtime_ns=stat.mtime_ns,
        ctime_ns=stat.ctime_ns,
        inode=stat.inode,
        digest=stat.digest,
        title=document.title,
        boilerplate=boilerplate([placed.node for placed in document.nodes]),
        aliases=json.dumps(document.front_matter.aliases, ensure_ascii=False),
        warnings=json.dumps(document.warnings, ensure_ascii=False),
        dated=document.front_matter.dated,
    )
    for position, (key, value) in enumerate(document.fields):
        insert_row(connection, "fields", document_key=document_key, position=position, key=key, value=value)
    holders = find_holders(document.nodes)
    node_keys = {
        placed.node.id: put_node(connection, document_key, placed, holders.get(placed.node.id))
        for placed in document.nodes
    }
    rows = [(name, node_keys[node_id]) for node_id, own in names.items() for name in own]
    connection.executemany("INSERT INTO names (name, node_key) VALUES (?, ?)", rows)
    for position, (node_id, link) in enumerate(document.links):
        insert_row(
            connection,
            "links",
            source_key=node_keys[node_id],
            position=position,
            line=link.line,
            kind=link.kind,
            target_path=link.target_path,
            target_anchor=link.anchor,
        )
    return document_key


def put_node(connection: sqlite3.Connection, document_key: int, placed: "Placed", holder_id: str | None) -> int:
    """A node below its parent; `holder_id` is the node that shows its text where it has none of its own. The key."""
    node = placed.node
    first, last = (node.span.first, node.span.last) if node.span else (None, None)
    return insert_row(
        connection,
        "nodes",
        node_id=node.id,
        document_key=document_key,
        parent_id=placed.parent_id,
        kind=node.kind.value,
        level=node.level,
        title=node.title,
        breadcrumb=json.dumps(node.breadcrumb, ensure_ascii=False),
        first_line=first,
        last_line=last,
        text=node.text,
        front_matter_lines=node.front_matter_lines,
        anchor=node.anchor,
        summary=node.summary,
        holder_id=holder_id,
    )


def put_chunks(connection: sqlite3.Connection, chunks: Iterable[Chunk]) -> None:
    connection.executemany(
        "INSERT INTO chunks (node_key, first_line, last_line, text, text_hash)"
        " VALUES ((SELECT node_key FROM nodes WHERE node_id = ?), ?, ?, ?, ?)",
        (
            (chunk.node_id, chunk.span.first, chunk.span.last, chunk.text, text_hash(chunk.embedded_text))
            for chunk in chunks
        ),
    )


def remove_documents(connection: sqlite3.Connection, document_keys: Sequence[int]) -> None:
    """The documents with their nodes, links and chunks; vectors stay, for the text may come back."""
    connection.executemany("DELETE FROM documents WHERE document_key = ?", ((key,) for key in document_keys))


def set_stat(connection: sqlite3.Connection, stats: Iterable[StoredDocument]) -> None:
    """New times and inodes of documents whose content is what it was."""
    connection.executemany(
        "UPDATE documents SET mtime_ns = ?, ctime_ns = ?, inode = ? WHERE document_key = ?",
        ((stat.mtime_ns, stat.ctime_ns, stat.inode, stat.key) for stat in stats),
    )


def set_skipped(
    connection: sqlite3.Connection,
    folder_key: int,
    unreadable: Iterable[tuple[StoredDocument, str]],
    skipped: Iterable[Skipped],
) -> None:
    """What of a folder could not be read, in place of what was noted before; the same once more writes nothing."""
    rows: dict[str, tuple[object, ...]] = {
        item.path: (folder_key, item.path, item.size, item.mtime_ns, item.ctime_ns, item.inode, reason)
        for item, reason in unreadable
    }
    rows |= {item.path: (folder_key, item.path, None, None, None, None, item.reason) for item in skipped}
    query = "SELECT folder_key, path, size, mtime_ns, ctime_ns, inode, reason FROM skipped WHERE folder_key = ?"
    noted = connection.execute(query, (folder_key,)).fetchall()
    if set(noted) == set(rows.values()):
        return
    connection.execute("DELETE FROM skipped WHERE folder_key = ?", (folder_key,))
    columns = "folder_key, path, size, mtime_ns, ctime_ns, inode, reason"
    connection.executemany(f"INSERT INTO skipped ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows.values())


def set_link_targets(connection: sqlite3.Connection, folder: StoredFolder) -> None:
    """Decides anew where the links of a folder's documents lead: any change may have made or broken one."""
    # 40 ms with what they import, when something has changed.
    from pageindex.links import Broken, Link, LinkKind, LinkTargets, note_names, resolve_link

    anchors: dict[str, dict[str, str]] = {}
    query = "SELECT path, anchor, node_id FROM nodes JOIN documents USING (document_key) WHERE folder_key = ?"
    for path, anchor, node_id in connection.execute(f"{query} ORDER BY node_key", (folder.key,)):
        anchors.setdefault(path, {}).setdefault(anchor, node_id)
    aliases = connection.execute("SELECT path, aliases FROM documents WHERE folder_key = ?", (folder.key,))
    targets = LinkTargets(anchors, note_names((path, json.loads(names)) for path, names in aliases))
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
        "UPDATE links SET target_id = ?1, problem = ?2 WHERE source_key = ?3 AND position = ?4"
        " AND (target_id IS NOT ?1 OR problem IS NOT ?2)",
        resolved,
    )


def put_vectors(connection: sqlite3.Connection, fingerprint: str, hashes: Sequence[bytes], matrix: FloatMatrix) -> None:
    """Vectors (n, d) by the hashes of their texts; those that are there already stay as they are."""
    rows = ((fingerprint, key, packed) for key, packed in zip(hashes, pack_vectors(matrix), strict=True))
    connection.executemany("INSERT OR IGNORE INTO vectors (fingerprint, text_hash, vector) VALUES (?, ?, ?)", rows)


def put_pending(connection: sqlite3.Connection, fingerprint: str, texts: Mapping[bytes, str]) -> None:
    """Adds texts that are to be embedded, by hash; takes out what no chunk has any more, and what has a vector."""
    connection.executemany("INSERT OR IGNORE INTO pending (text_hash, text) VALUES (?, ?)", texts.items())
    connection.execute(
        "DELETE FROM pending WHERE text_hash NOT IN (SELECT text_hash FROM chunks)"
        " OR EXISTS (SELECT 1 FROM vectors WHERE fingerprint = ? AND vectors.text_hash = pending.text_hash)",
        (fingerprint,),
    )


def remove_other_models(connection: sqlite3.Connection, fingerprint: str) -> None:
    """Removes what other models than this one made of the texts."""
    for table in ("vectors", "tokens"):
        connection.execute(f"DELETE FROM {table} WHERE fingerprint <> ?", (fingerprint,))


def put_tokens(
    connection: sqlite3.Connection, fingerprint: str, hashes: Sequence[bytes], tokens: Sequence[TokenBits]
) -> None:
    """The tokens of texts by the hashes of the texts; those that are there already stay as they are."""
    rows = ((fingerprint, key, bits.astype("<u8").tobytes()) for key, bits in zip(hashes, tokens, strict=True))
    connection.executemany("INSERT OR IGNORE INTO tokens (fingerprint, text_hash, bits) VALUES (?, ?, ?)", rows)


def insert_row(connection: sqlite3.Connection, table: str, **values: object) -> int:
    columns, marks = ", ".join(values), ", ".join("?" * len(values))
    cursor = connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(values.values()))
    assert cursor.lastrowid is not None
    return cursor.lastrowid


# The summaries that a language model wrote, by the text that it read, and which of them nodes have.


def known(connection: sqlite3.Connection, writer: str) -> dict[bytes, str]:
    """What a language model wrote, by the hash of what it read; empty where it cannot be used."""
    return dict(connection.execute("SELECT text_hash, summary FROM summaries WHERE writer = ?", (writer,)))


def put(connection: sqlite3.Connection, writer: str, text_hash: bytes, summary: str) -> None:
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
