"""What is in index.sqlite, as values. Call inside one `read_transaction` what must belong together."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pageindex.node import Node, NodeKind, Span
from pageindex.tree import DocumentTree


@dataclass(frozen=True, slots=True)
class StoredFolder:
    """An indexed folder."""

    key: int
    path: str
    """Absolute."""
    prefix: str
    """Before the path in the ids of its nodes; empty for the first folder of an index."""
    forgotten: tuple[str, ...] = ()
    """Documents that are not to be indexed again, relative to the folder; `drafts/` stands for all below it."""

    def forgets(self, path: str) -> bool:
        """Whether the document of that path is not to be indexed."""
        return any(path.startswith(item) if item.endswith("/") else path == item for item in self.forgotten)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as it was when it was indexed."""

    key: int
    """0 while it has none."""
    path: str
    """Relative to its folder."""
    size: int
    """Bytes."""
    mtime_ns: int
    """0 when it could not be trusted."""
    digest: str
    ctime_ns: int = 0
    """0 when it could not be trusted: then only the content tells whether the file is as it was."""
    inode: int = 0


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A node and where it belongs."""

    key: int
    document_key: int
    parent_id: str | None
    """None for the file's own node."""
    node: Node


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk and the node that it was cut from."""

    key: int
    node_id: str
    document_key: int
    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Counts:
    """How much is in an index."""

    documents: int
    sections: int
    """Nodes with lines of their own."""
    chunks: int
    broken_links: int


def meta(connection: sqlite3.Connection, key: str) -> str | None:
    """A value that the index keeps about itself."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def snapshot_number(connection: sqlite3.Connection) -> int:
    """The snapshot in force; 0 before the first."""
    return int(meta(connection, "snapshot") or 0)


def manifest_hash(connection: sqlite3.Connection) -> str:
    """What tells the folder of the snapshot in force from any other; empty before the first."""
    return meta(connection, "manifest_hash") or ""


def index_settings(connection: sqlite3.Connection) -> dict[str, object]:
    """The settings that were given when the folders were indexed: a layer of a profile."""
    content: dict[str, object] = json.loads(meta(connection, "settings") or "{}")
    return content


def folders(connection: sqlite3.Connection) -> tuple[StoredFolder, ...]:
    """The indexed folders, in the order in which they came."""
    forgotten: dict[int, list[str]] = {}
    for key, path in connection.execute("SELECT folder_key, path FROM forgotten ORDER BY path"):
        forgotten.setdefault(key, []).append(path)
    rows = connection.execute("SELECT folder_key, path, prefix FROM folders ORDER BY folder_key")
    return tuple(StoredFolder(key, path, prefix, tuple(forgotten.get(key, ()))) for key, path, prefix in rows)


def documents(connection: sqlite3.Connection, folder_key: int) -> dict[str, StoredDocument]:
    """The documents of a folder by path, in the order of the paths."""
    rows = connection.execute(
        "SELECT document_key, path, size, mtime_ns, digest, ctime_ns, inode FROM documents"
        " WHERE folder_key = ? ORDER BY path",
        (folder_key,),
    )
    return {row[1]: StoredDocument(*row) for row in rows}


def unreadable(connection: sqlite3.Connection, folder_key: int) -> dict[str, StoredDocument]:
    """Files of a folder that could not be read, by path, with what they looked like then."""
    rows = connection.execute(
        "SELECT 0, path, size, mtime_ns, '', ctime_ns, inode FROM skipped"
        " WHERE folder_key = ? AND size IS NOT NULL ORDER BY path",
        (folder_key,),
    )
    return {row[1]: StoredDocument(*row) for row in rows}


def prefixes(connection: sqlite3.Connection) -> dict[int, str]:
    """Document keys to the prefixes of their nodes' ids, by folder and path."""
    rows = connection.execute(
        "SELECT document_key, prefix FROM documents JOIN folders USING (folder_key) ORDER BY folder_key, documents.path"
    )
    return dict(rows)


def document_of_node(connection: sqlite3.Connection, node_id: str) -> int | None:
    """The key of the document that a node belongs to; None for no such node."""
    row = connection.execute("SELECT document_key FROM nodes WHERE node_id = ?", (node_id,)).fetchone()
    return None if row is None else int(row[0])


def folder_of(connection: sqlite3.Connection, document_keys: Iterable[int]) -> dict[int, str]:
    """Document keys to the absolute paths of their folders."""
    rows = connection.execute(
        "SELECT document_key, folders.path FROM documents JOIN folders USING (folder_key)"
        " WHERE document_key IN (SELECT value FROM json_each(?))",
        (keys_as_json(document_keys),),
    )
    return dict(rows)


def skipped(connection: sqlite3.Connection) -> tuple[tuple[str, str], ...]:
    """What could not be read, and why, by path."""
    return tuple(connection.execute("SELECT path, reason FROM skipped ORDER BY folder_key, path"))


def skipped_count(connection: sqlite3.Connection) -> int:
    """How many files could not be read; changes without a new snapshot."""
    query = "SELECT count(*) FROM skipped WHERE path != '.gitignore' AND path NOT LIKE '%/.gitignore'"  # no document
    return int(connection.execute(query).fetchone()[0])


def warnings(connection: sqlite3.Connection) -> tuple[tuple[str, str], ...]:
    """What of the documents could not be decoded or understood, by path."""
    rows = connection.execute(
        "SELECT documents.path, value FROM documents, json_each(warnings)"
        " ORDER BY folder_key, documents.path, json_each.key"
    )
    return tuple(rows)


def broken_links(connection: sqlite3.Connection) -> tuple[tuple[str, int, str, str], ...]:
    """(path, line, target as written, why) of each link that leads nowhere, by path and line."""
    rows = connection.execute(
        "SELECT documents.path, line, target_path, target_anchor, problem FROM links"
        " JOIN nodes ON nodes.node_key = source_key JOIN documents USING (document_key) WHERE problem IS NOT NULL"
        " ORDER BY documents.path, line, position"
    )
    return tuple((path, line, f"{to}#{anchor}" if anchor else to, problem) for path, line, to, anchor, problem in rows)


def duplicates(connection: sqlite3.Connection) -> tuple[tuple[str, ...], ...]:
    """The paths of documents that have the same bytes, by path."""
    rows = connection.execute(
        "SELECT digest, path FROM documents WHERE digest IN"
        " (SELECT digest FROM documents GROUP BY digest HAVING count(*) > 1) ORDER BY path"
    )
    groups: dict[str, list[str]] = {}
    for digest, path in rows:
        groups.setdefault(digest, []).append(path)
    return tuple(map(tuple, groups.values()))


def counts(connection: sqlite3.Connection) -> Counts:
    """How much there is of everything."""
    row = connection.execute(
        "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM nodes WHERE first_line IS NOT NULL),"
        " (SELECT count(*) FROM chunks), (SELECT count(*) FROM links WHERE problem IS NOT NULL)"
    ).fetchone()
    return Counts(*row)


def nodes_of_documents(connection: sqlite3.Connection, document_keys: Iterable[int]) -> Iterator[StoredNode]:
    """All nodes of these documents, document by document, in document order."""
    rows = connection.execute(
        f"SELECT {NODE_COLUMNS} FROM nodes JOIN documents USING (document_key)"
        " WHERE document_key IN (SELECT value FROM json_each(?)) ORDER BY document_key, node_key",
        (keys_as_json(document_keys),),
    )
    return (_stored_node(row) for row in rows)


def rankable_nodes(connection: sqlite3.Connection, node_keys: Iterable[int] | None = None) -> Iterator[StoredNode]:
    """The nodes that have lines of their own, by key: all of them, or those of these keys."""
    query = f"SELECT {NODE_COLUMNS} FROM nodes JOIN documents USING (document_key) WHERE first_line IS NOT NULL"
    if node_keys is None:
        rows = connection.execute(query + " ORDER BY node_key")
    else:
        query += " AND node_key IN (SELECT value FROM json_each(?)) ORDER BY node_key"
        rows = connection.execute(query, (keys_as_json(node_keys),))
    return (_stored_node(row) for row in rows)


def rankable_keys(connection: sqlite3.Connection, document_keys: Iterable[int]) -> list[int]:
    """The keys of these documents' nodes that have lines of their own."""
    rows = connection.execute(
        "SELECT node_key FROM nodes WHERE first_line IS NOT NULL"
        " AND document_key IN (SELECT value FROM json_each(?)) ORDER BY node_key",
        (keys_as_json(document_keys),),
    )
    return [row[0] for row in rows]


def ids_of_nodes(connection: sqlite3.Connection, node_keys: Iterable[int]) -> dict[int, str]:
    """Node keys to node ids; keys that are not there are left out."""
    rows = connection.execute(
        "SELECT node_key, node_id FROM nodes WHERE node_key IN (SELECT value FROM json_each(?))",
        (keys_as_json(node_keys),),
    )
    return dict(rows)


def documents_of_nodes(connection: sqlite3.Connection, node_ids: Iterable[str]) -> list[int]:
    """The keys of the documents of these nodes, each once; ids that are not there are left out."""
    rows = connection.execute(
        "SELECT DISTINCT document_key FROM nodes WHERE node_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(node_ids)),),
    )
    return sorted(row[0] for row in rows)


def link_targets(connection: sqlite3.Connection, document_key: int) -> list[tuple[str, str, int]]:
    """(source id, target id, the target's document key) of each working link of a document, in its order."""
    rows = connection.execute(f"{_LINK_TARGETS} WHERE source.document_key = ? {_LINK_ORDER}", (document_key,))
    return list(rows)


def link_targets_of_nodes(connection: sqlite3.Connection, node_ids: Iterable[str]) -> list[tuple[str, str, int]]:
    """As `link_targets`, of the links of these nodes."""
    rows = connection.execute(
        f"{_LINK_TARGETS} WHERE source.node_id IN (SELECT value FROM json_each(?)) {_LINK_ORDER}",
        (json.dumps(list(node_ids)),),
    )
    return list(rows)


def chunks(connection: sqlite3.Connection, chunk_keys: Iterable[int]) -> dict[int, StoredChunk]:
    """Chunks by key; keys that are not there are left out."""
    rows = connection.execute(
        f"SELECT {CHUNK_COLUMNS} FROM chunks JOIN nodes USING (node_key)"
        " WHERE chunk_key IN (SELECT value FROM json_each(?)) ORDER BY chunk_key",
        (keys_as_json(chunk_keys),),
    )
    return {row[0]: _stored_chunk(row) for row in rows}


def chunks_of_nodes(connection: sqlite3.Connection, node_ids: Iterable[str]) -> Iterator[StoredChunk]:
    """All chunks of these nodes, in the order of the text."""
    rows = connection.execute(
        f"SELECT {CHUNK_COLUMNS} FROM chunks JOIN nodes USING (node_key)"
        " WHERE node_id IN (SELECT value FROM json_each(?)) ORDER BY chunk_key",
        (json.dumps(list(node_ids)),),
    )
    return (_stored_chunk(row) for row in rows)


NODE_COLUMNS = (
    "node_key, document_key, parent_id, node_id, kind, path, nodes.title, level, breadcrumb, first_line, last_line,"
    " text, front_matter_lines, anchor, summary"
)
_LINK_TARGETS = (
    "SELECT source.node_id, target.node_id, target.document_key FROM nodes AS source"
    " JOIN links ON links.source_key = source.node_key JOIN nodes AS target ON target.node_id = links.target_id"
)
_LINK_ORDER = "ORDER BY source.node_key, links.position"
CHUNK_COLUMNS = "chunk_key, node_id, document_key, chunks.first_line, chunks.last_line, chunks.text"


def _stored_node(row: tuple[Any, ...]) -> StoredNode:
    key, document_key, parent_id, node_id, kind, path, title, level, breadcrumb, first, last, *rest = row
    span = None if first is None else Span(first, last)
    node = Node(node_id, NodeKind(kind), path, title, level, _titles(breadcrumb), span, *rest)
    return StoredNode(key, document_key, parent_id, node)


@lru_cache(maxsize=1024)
def _titles(breadcrumb: str) -> tuple[str, ...]:
    """Remembered: siblings have one breadcrumb, and to read it is a third of the work on a row."""
    return tuple(json.loads(breadcrumb))


def _stored_chunk(row: tuple[Any, ...]) -> StoredChunk:
    key, node_id, document_key, first, last, text = row
    return StoredChunk(key, node_id, document_key, Span(first, last), text)


def keys_as_json(keys: Iterable[int]) -> str:
    """A list for json_each: SQLite takes only 32,766 variables in a statement."""
    return json.dumps([int(key) for key in keys])


# What files were like when they were indexed.


def documents_by_key(connection: sqlite3.Connection, document_keys: Iterable[int]) -> dict[int, StoredDocument]:
    """The documents of these keys."""
    rows = connection.execute(
        "SELECT document_key, path, size, mtime_ns, digest, ctime_ns, inode FROM documents"
        " WHERE document_key IN (SELECT value FROM json_each(?))",
        (keys_as_json(document_keys),),
    )
    return {row[0]: StoredDocument(*row) for row in rows}


# What leads to a node, from index.sqlite; what a node leads to is in `reading`.


def link_sources(connection: sqlite3.Connection, node_id: str) -> list[tuple[str, int]]:
    """(node id, document key) of each node that links to this one, each once, by document and place."""
    rows = connection.execute(
        "SELECT DISTINCT source.node_id, source.document_key FROM links JOIN nodes AS source"
        " ON source.node_key = links.source_key WHERE links.target_id = ? AND source.node_id <> ?"
        " ORDER BY source.document_key, source.node_key",
        (node_id, node_id),
    )
    return list(rows)


# The nodes of an index without their texts, and where links lead: what is needed to look around.


def outline_tree(connection: sqlite3.Connection) -> DocumentTree:
    """Every folder, file and section, by folder and path, in document order; no texts, summaries and links."""
    tree = DocumentTree()
    rows = connection.execute(
        "SELECT node_id, parent_id, prefix, documents.path, kind, nodes.title, level, first_line, last_line"
        " FROM folders JOIN documents USING (folder_key) JOIN nodes USING (document_key)"
        " ORDER BY folder_key, documents.path, node_key"
    )
    for node_id, parent_id, prefix, path, kind, title, level, first, last in rows:
        span = None if first is None else Span(first, last)
        node = Node(node_id, NodeKind(kind), path, title, level, (), span, "")
        tree.add(node, parent_id or tree.add_folders(prefix, path))
    return tree


def link_ids(connection: sqlite3.Connection, document_key: int) -> dict[tuple[str, str, str], str]:
    """(kind, path, anchor) as a document writes its links -> the node that each leads to; broken ones are left out."""
    rows = connection.execute(
        "SELECT links.kind, target_path, target_anchor, target_id FROM nodes JOIN links ON source_key = node_key"
        " WHERE document_key = ? AND target_id IS NOT NULL",
        (document_key,),
    )
    return {(kind, path, anchor): target for kind, path, anchor, target in rows}


def backlinks(connection: sqlite3.Connection, node_id: str, limit: int) -> list[str]:
    """The ids of nodes that link to a node, each once, by file and place; `limit` at most."""
    rows = connection.execute(
        "SELECT DISTINCT source.node_id FROM links JOIN nodes AS source ON source.node_key = source_key"
        " WHERE target_id = ? AND source.node_id <> ? ORDER BY source.node_key LIMIT ?",
        (node_id, node_id, limit),
    )
    return [row[0] for row in rows]


def summaries(connection: sqlite3.Connection, node_ids: Iterable[str]) -> dict[str, str]:
    """Node ids -> summaries; ids that are not there are left out."""
    rows = connection.execute(
        "SELECT node_id, summary FROM nodes WHERE node_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(node_ids)),),
    )
    return dict(rows)


# What documents say of themselves before a question is asked, by the nodes that a search found.


def boilerplate(connection: sqlite3.Connection, node_ids: Iterable[str]) -> dict[str, float]:
    """Node ids to how much of a list of links or a log each one's document is, 0 to 1."""
    rows = connection.execute(
        "SELECT node_id, boilerplate FROM nodes JOIN documents USING (document_key)"
        " WHERE node_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(node_ids)),),
    )
    return dict(rows)


def dates(connection: sqlite3.Connection, node_ids: Iterable[str]) -> dict[str, float | None]:
    """Node ids to when each one's document was written, in seconds since 1970: as it says itself, or its file's time.

    None: it says nothing, and its file's time could not be trusted when it was read.
    """
    rows = connection.execute(
        "SELECT node_id, coalesce(dated, nullif(mtime_ns, 0) / 1e9) FROM nodes JOIN documents USING (document_key)"
        " WHERE node_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(node_ids)),),
    )
    return dict(rows)
