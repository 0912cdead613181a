"""Changes to index.sqlite. Every function belongs inside a `transaction` of the one writer."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from pageindex.corpus import Skipped
from pageindex.summary import boilerplate
from retriever.store.connection import Connection
from retriever.store.reading import StoredDocument, StoredFolder, keys_of_nodes
from retriever.store.text_vectors import pack_vectors
from retriever.types import Chunk, FloatMatrix

if TYPE_CHECKING:
    from pageindex.document import Document, Placed


def text_hash(text: str) -> bytes:
    """What names a text's vector: 16 bytes."""
    return blake2b(text.encode("utf-8"), digest_size=16).digest()


def set_meta(connection: Connection, key: str, value: str) -> None:
    """A value that the index keeps about itself; the same once more writes nothing, and waits for no disk."""
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        " WHERE meta.value <> excluded.value",
        (key, value),
    )


def add_folder(connection: Connection, folder: StoredFolder) -> StoredFolder:
    (key,) = connection.insert_rows("folders", [{"path": folder.path, "prefix": folder.prefix}])
    return replace(folder, key=key)


def set_place(connection: Connection, folder: StoredFolder) -> None:
    """Where a folder is, and its prefix: with another one, the ids of its nodes begin with that."""
    (old,) = connection.execute("SELECT prefix FROM folders WHERE folder_key = ?", (folder.key,)).fetchone()
    row = (folder.path, folder.prefix, folder.key)
    connection.execute("UPDATE folders SET path = ?, prefix = ? WHERE folder_key = ?", row)
    if old == folder.prefix:
        return
    within = "nodes WHERE document_key IN (SELECT document_key FROM documents WHERE folder_key = ?)"
    for table, columns, condition in (
        ("links", ("target_id",), f"source_key IN (SELECT node_key FROM {within})"),
        ("nodes", ("node_id", "parent_id", "holder_id"), within.removeprefix("nodes WHERE ")),
    ):
        changes = ", ".join(f"{column} = ? || substr({column}, ?)" for column in columns)
        values = (folder.prefix, len(old) + 1) * len(columns)
        connection.execute(f"UPDATE {table} SET {changes} WHERE {condition}", (*values, folder.key))


def put_document(
    connection: Connection,
    folder_key: int,
    stat: StoredDocument,
    document: "Document",
    names: Mapping[str, Iterable[str]],
) -> int:
    """A document with its nodes and its links, these not yet resolved; returns its key (`stat` has none yet)."""
    from pageindex.document import find_holders

    row = {
        "folder_key": folder_key,
        "path": stat.path,
        "size": stat.size,
        "mtime_ns": stat.mtime_ns,
        "ctime_ns": stat.ctime_ns,
        "inode": stat.inode,
        "digest": stat.digest,
        "title": document.title,
        "boilerplate": boilerplate([placed.node for placed in document.nodes]),
        "aliases": json.dumps(document.front_matter.aliases, ensure_ascii=False),
        "warnings": json.dumps(document.warnings, ensure_ascii=False),
        "dated": document.front_matter.dated,
    }
    (document_key,) = connection.insert_rows("documents", [row])
    fields = [(document_key, position, key, value) for position, (key, value) in enumerate(document.fields)]
    connection.executemany("INSERT INTO fields (document_key, position, key, value) VALUES (?, ?, ?, ?)", fields)
    holders = find_holders(document.nodes)
    nodes = [describe_node(document_key, placed, holders.get(placed.node.id)) for placed in document.nodes]
    ids = [placed.node.id for placed in document.nodes]
    node_keys = dict(zip(ids, connection.insert_rows("nodes", nodes), strict=True))
    rows = [(name, node_keys[node_id]) for node_id, own in names.items() for name in own]
    connection.executemany("INSERT INTO names (name, node_key) VALUES (?, ?)", rows)
    links = [
        (node_keys[node_id], position, link.line, link.kind, link.target_path, link.anchor)
        for position, (node_id, link) in enumerate(document.links)
    ]
    columns = "source_key, position, line, kind, target_path, target_anchor"
    connection.executemany(f"INSERT INTO links ({columns}) VALUES (?, ?, ?, ?, ?, ?)", links)
    return document_key


def describe_node(document_key: int, placed: "Placed", holder_id: str | None) -> dict[str, object]:
    """The row of a node; `holder_id` is the node that shows its text where it has none of its own."""
    node = placed.node
    first, last = (node.span.first, node.span.last) if node.span else (None, None)
    return {
        "node_id": node.id,
        "document_key": document_key,
        "parent_id": placed.parent_id,
        "kind": node.kind.value,
        "level": node.level,
        "title": node.title,
        "breadcrumb": json.dumps(node.breadcrumb, ensure_ascii=False),
        "first_line": first,
        "last_line": last,
        "text": node.text,
        "front_matter_lines": node.front_matter_lines,
        "anchor": node.anchor,
        "summary": node.summary,
        "holder_id": holder_id,
    }


def put_chunks(connection: Connection, chunks: Sequence[Chunk]) -> None:
    node_keys = keys_of_nodes(connection, {chunk.node_id for chunk in chunks})
    rows = (
        {
            "node_key": node_keys[chunk.node_id],
            "first_line": chunk.span.first,
            "last_line": chunk.span.last,
            "text": chunk.text,
            "text_hash": text_hash(chunk.embedded_text),
        }
        for chunk in chunks
    )
    connection.insert_rows("chunks", rows)


def remove_documents(connection: Connection, document_keys: Sequence[int]) -> None:
    """The documents with their nodes, links and chunks; vectors stay, for the text may come back."""
    # A cluster has chunks by text, where they do not go with their nodes.
    chunks = "DELETE FROM chunks WHERE node_key IN (SELECT node_key FROM nodes WHERE document_key = ?)"
    for statement in (chunks, "DELETE FROM documents WHERE document_key = ?"):
        connection.executemany(statement, ((key,) for key in document_keys))


def remove_folder(connection: Connection, folder_key: int) -> None:
    """A folder that is no longer in the index, with its documents."""
    rows = connection.execute("SELECT document_key FROM documents WHERE folder_key = ?", (folder_key,)).fetchall()
    remove_documents(connection, [key for (key,) in rows])
    connection.execute("DELETE FROM folders WHERE folder_key = ?", (folder_key,))


def set_stat(connection: Connection, stats: Iterable[StoredDocument]) -> None:
    """New times and inodes of documents whose content is what it was."""
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
    """What of a folder could not be read, in place of what was noted before, but for files that are the `same`."""
    rows: dict[str, tuple[object, ...]] = {
        item.path: (folder_key, item.path, item.size, item.mtime_ns, item.ctime_ns, item.inode, reason)
        for item, reason in unreadable
    }
    rows |= {item.path: (folder_key, item.path, None, None, None, None, item.reason) for item in skipped}
    query = "SELECT folder_key, path, size, mtime_ns, ctime_ns, inode, reason FROM skipped WHERE folder_key = ?"
    noted = connection.execute(query, (folder_key,)).fetchall()
    rows |= {row[1]: row for row in noted if row[1] in same}
    # `index` runs on timers and in hooks: where nothing is new, the file must not change either.
    if set(noted) == set(rows.values()):
        return
    connection.execute("DELETE FROM skipped WHERE folder_key = ?", (folder_key,))
    columns = "folder_key, path, size, mtime_ns, ctime_ns, inode, reason"
    connection.executemany(f"INSERT INTO skipped ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows.values())


def set_link_targets(connection: Connection, folder: StoredFolder) -> None:
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
        "SELECT path, line, target_path, target_anchor, links.kind, target_id, problem, source_key, position FROM links"
        " JOIN nodes ON node_key = source_key JOIN documents USING (document_key) WHERE folder_key = ?",
        (folder.key,),
    ).fetchall()
    resolved = []
    for path, line, target_path, anchor, kind, old_target, old_problem, *key in rows:
        found = resolve_link(Link(line, target_path, anchor, LinkKind(kind)), path, targets)
        problem = found.value if isinstance(found, Broken) and found is not Broken.NOT_A_DOCUMENT else None
        target = None if isinstance(found, Broken) else found
        # One file's new heading leaves nearly all links as they were, and each row written is in the log of the commit.
        if (target, problem) != (old_target, old_problem):
            resolved.append((target, problem, *key))
    connection.executemany(
        "UPDATE links SET target_id = ?, problem = ? WHERE source_key = ? AND position = ?", resolved
    )


def put_vectors(connection: Connection, fingerprint: str, hashes: Sequence[bytes], matrix: FloatMatrix) -> None:
    """Vectors (n, d) by the hashes of their texts; those that are there already stay as they are."""
    rows = ((fingerprint, key, packed) for key, packed in zip(hashes, pack_vectors(matrix), strict=True))
    connection.executemany(
        "INSERT INTO vectors (fingerprint, text_hash, vector) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows
    )


def put_pending(connection: Connection, texts: Mapping[bytes, str]) -> None:
    """Adds texts that are to be embedded, by hash."""
    connection.executemany("INSERT INTO pending (text_hash, text) VALUES (?, ?) ON CONFLICT DO NOTHING", texts.items())


def remove_stale_pending(connection: Connection, fingerprint: str) -> None:
    """Takes out texts that no chunk has any more, and those that have a vector."""
    connection.execute(
        "DELETE FROM pending WHERE text_hash NOT IN (SELECT text_hash FROM chunks)"
        " OR EXISTS (SELECT 1 FROM vectors WHERE fingerprint = ? AND vectors.text_hash = pending.text_hash)",
        (fingerprint,),
    )


def remove_other_models(connection: Connection, fingerprint: str) -> None:
    """Removes what other models than this one made of the texts."""
    connection.execute("DELETE FROM vectors WHERE fingerprint <> ?", (fingerprint,))
