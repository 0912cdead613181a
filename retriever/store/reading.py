"""The rows of index.sqlite, as values. Call inside one `transaction` what must belong together."""

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from pageindex.node import Node, NodeKind, Span, Unit, UnitKind
from retriever.store.database import Connection, Rows


@dataclass(frozen=True)
class StoredFolder:
    key: int
    path: str  # absolute
    prefix: str  # before the path in the ids of its nodes; empty for the first folder of an index
    dialect: str  # of Markdown, in which its documents are read
    # Documents that are not to be indexed again, relative to the folder; `drafts/` stands for all below it.
    forgotten: tuple[str, ...] = ()

    def forgets(self, path: str) -> bool:
        """Return whether a document is not to be indexed again.

        >>> folder = StoredFolder(1, "/notes", "", "", ("tea.md", "drafts/"))
        >>> [folder.forgets(path) for path in ("tea.md", "old/tea.md", "drafts/a.md", "drafts.md")]
        [True, False, True, False]
        """
        return any(path.startswith(item) if item.endswith("/") else path == item for item in self.forgotten)


class StoredDocument(NamedTuple):  # as `SourceFile`, which it is compared with
    """A document as it was when it was indexed."""

    key: int  # 0 while it has none, and of a file that could not be read
    path: str  # relative to its folder
    size: int  # bytes
    mtime_ns: int  # 0 when it could not be trusted
    ctime_ns: int  # 0 when it could not be trusted: then only the content shows whether the file has changed
    inode: int
    digest: str = ""  # none of what could not be read


class StoredNode(NamedTuple):
    node: Node
    key: int
    document_key: int
    holder_id: str | None  # of a node without text of its own: the one that is shown in its place


class OutlineNode(NamedTuple):
    """A node without its text: where it stands."""

    kind: NodeKind
    span: Span | None
    document_key: int
    holder_id: str | None
    parent_id: str | None  # none for the file's own node
    id: str
    title: str


@dataclass(frozen=True)
class Counts:
    documents: int
    sections: int  # nodes with lines of their own
    chunks: int


# In a query of `select`: one of the values that it is given.
GIVEN = "IN (SELECT value FROM json_each(?))"
_NODES = (
    "SELECT node_id, kind, path, nodes.title, level, breadcrumb, first_line, last_line, text, front_matter_lines,"
    " anchor, summary, units, node_key, document_key, holder_id FROM nodes JOIN documents USING (document_key)"
)


def select(connection: Connection, query: str, values: Iterable[int | str], *before: object) -> Rows:
    """Return the rows of a query with GIVEN as its last parameter."""
    return connection.execute(query, (*before, connection.pack_list(list(values))))


@dataclass(frozen=True)
class StoredState:
    """The state in force: two that are equal have the same rows for everybody who sees the same folders."""

    snapshot: str
    """The name of the state in force; empty before the first."""
    fingerprint: str
    """Of the encoder; empty without vectors."""
    embedded_share: float
    """The share of the texts of all chunks that have a vector, 0 to 1: below 1 while a first indexing goes on."""
    folders: tuple[str, ...]
    """The folders that may be seen, absolute, in the order in which they came."""


def read_state(connection: Connection) -> StoredState:
    """Read what is in force."""
    query = "SELECT key, value FROM meta WHERE key IN ('snapshot', 'fingerprint')"
    named = dict(connection.execute(f"{query} UNION ALL SELECT 'pending', CAST(count(*) AS text) FROM pending"))
    pending = int(named["pending"])
    folders = connection.execute("SELECT path FROM folders ORDER BY folder_key")
    fingerprint, share = named.get("fingerprint", ""), 1.0
    if fingerprint and pending:
        (texts,) = connection.execute("SELECT count(DISTINCT text_hash) FROM chunks").fetchone()
        share = 1 - pending / texts
    return StoredState(named.get("snapshot", ""), fingerprint, share, tuple(path for (path,) in folders))


def meta(connection: Connection, key: str) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def sample_texts(connection: Connection) -> Iterator[str]:
    """Yield the texts of four hundred sections from all of the index, by chance and the same each time."""
    query = "SELECT text FROM nodes WHERE body_hash IS NOT NULL ORDER BY body_hash LIMIT 400"
    return (text for (text,) in connection.execute(query))


def folders(connection: Connection) -> tuple[StoredFolder, ...]:
    """Return the indexed folders, in the order in which they were added."""
    forgotten = connection.execute("SELECT folder_key, path FROM forgotten ORDER BY path").fetchall()
    rows = connection.execute("SELECT folder_key, path, prefix, dialect FROM folders ORDER BY folder_key")
    return tuple(
        StoredFolder(folder, path, prefix, dialect, tuple(own for key, own in forgotten if key == folder))
        for folder, path, prefix, dialect in rows
    )


def files(connection: Connection, folder_key: int) -> dict[str, StoredDocument]:
    """Return the documents of a folder, and its files that could not be read, by path and in the order of the paths."""
    query = (
        "SELECT document_key, path, size, mtime_ns, ctime_ns, inode, digest FROM documents WHERE folder_key = ?"
        " UNION ALL SELECT 0, path, size, mtime_ns, ctime_ns, inode, '' FROM skipped"
        " WHERE folder_key = ? AND size IS NOT NULL ORDER BY path"
    )
    rows = connection.execute(query, (folder_key, folder_key))
    return {row[1]: StoredDocument._make(row) for row in rows}


def document_keys(connection: Connection) -> list[int]:
    """Return the keys of all documents, in the order of folder and path."""
    return [key for (key,) in connection.execute("SELECT document_key FROM documents ORDER BY folder_key, path")]


def counts(connection: Connection) -> Counts:
    query = (
        "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM nodes WHERE first_line IS NOT NULL),"
        " (SELECT count(*) FROM chunks)"
    )
    return Counts(*connection.execute(query).fetchone())


def chunk_counts(connection: Connection) -> dict[int, int]:
    """Return how many chunks each folder has; folders without any are left out."""
    return dict(
        connection.execute(
            "WITH wanted AS (SELECT node_key, count(*) AS own FROM chunks GROUP BY node_key)"
            " SELECT folder_key, CAST(sum(own) AS bigint) FROM wanted JOIN nodes USING (node_key)"
            " JOIN documents USING (document_key) GROUP BY folder_key"
        )
    )


def nodes_of_documents(connection: Connection, document_keys: Iterable[int]) -> Iterator[StoredNode]:
    """Return all nodes of these documents, document by document, in document order."""
    query = f"{_NODES} WHERE document_key {GIVEN} ORDER BY document_key, node_key"
    return map(_read_node, select(connection, query, document_keys))


def outlines(connection: Connection, document_keys: Iterable[int]) -> Iterator[OutlineNode]:
    """Do as `nodes_of_documents`, without the texts: in a seventh of the time."""
    query = "SELECT kind, first_line, last_line, document_key, holder_id, parent_id, node_id, title FROM nodes"
    rows = select(connection, f"{query} WHERE document_key {GIVEN} ORDER BY document_key, node_key", document_keys)
    for kind, first, last, *place in rows:
        yield OutlineNode(NodeKind(kind), _read_span(first, last), *place)


def nodes(connection: Connection, node_ids: Iterable[str]) -> dict[str, Node]:
    """Return the nodes of these ids, by their ids, in any order; ids that are not there are left out."""
    rows = select(connection, f"{_NODES} WHERE node_id {GIVEN}", node_ids)
    return {stored.node.id: stored.node for stored in map(_read_node, rows)}


def shown_texts(connection: Connection, node_keys: Iterable[int]) -> Iterator[tuple[int, int, str, tuple[Unit, ...]]]:
    """Yield (node key, document key, title, units) of these nodes, by key, as a scan needs."""
    query = f"SELECT node_key, document_key, title, units FROM nodes WHERE node_key {GIVEN}"
    for node_key, document_key, title, packed in select(connection, f"{query} ORDER BY node_key", node_keys):
        yield node_key, document_key, title, unpack_units(packed)


def rankable_keys(connection: Connection, document_keys: Iterable[int]) -> list[int]:
    query = f"SELECT node_key FROM nodes WHERE first_line IS NOT NULL AND document_key {GIVEN} ORDER BY node_key"
    return [row[0] for row in select(connection, query, document_keys)]


def shown_nodes(connection: Connection, node_keys: Iterable[int]) -> dict[int, str]:
    """Map node keys to the id that a search shows."""
    query = f"SELECT node_key, coalesce(holder_id, node_id) FROM nodes WHERE node_key {GIVEN}"
    return dict(select(connection, query, node_keys))


def traits(connection: Connection, node_ids: Iterable[str]) -> list[tuple[str, float, bytes | None]]:
    """Return (id, how much of a list of links or a log its document is, 0 to 1, hash of its text) of these nodes.

    Copies of a text have its hash; nodes without text have none.
    """
    query = "SELECT node_id, boilerplate, body_hash FROM nodes JOIN documents USING (document_key)"
    return select(connection, f"{query} WHERE node_id {GIVEN}", node_ids).fetchall()


def nodes_named(connection: Connection, name: str, limit: int) -> list[tuple[str, int]]:
    """Return (id that a search shows, how many titles are above) of the nodes with a name, highest headings first.

    Without those of which there is nothing to show: empty files.
    """
    rows = connection.execute(
        "SELECT coalesce(holder_id, node_id), breadcrumb FROM names JOIN nodes USING (node_key) WHERE name = ?"
        " AND (first_line IS NOT NULL OR holder_id IS NOT NULL) ORDER BY level, node_key LIMIT ?",
        (name, limit),
    )
    return [(node_id, len(read_titles(breadcrumb))) for node_id, breadcrumb in rows]


def nodes_called(connection: Connection, part: str, limit: int) -> list[tuple[str, str, str]]:
    """Return (id that a search shows, name, title) of nodes whose name has this part, shortest first."""
    rows = connection.execute(
        "SELECT coalesce(holder_id, node_id), name, title FROM names JOIN nodes USING (node_key) WHERE name LIKE ?"
        " AND (first_line IS NOT NULL OR holder_id IS NOT NULL) ORDER BY length(name), name, level, node_key LIMIT ?",
        (f"%{part}%", limit),
    )
    return rows.fetchall()


def keys_of_nodes(connection: Connection, node_ids: Iterable[str]) -> dict[str, int]:
    return dict(select(connection, f"SELECT node_id, node_key FROM nodes WHERE node_id {GIVEN}", node_ids))


def link_targets(connection: Connection, node_ids: Iterable[str]) -> dict[str, int]:
    """Map the nodes that working links of these nodes lead to, in the order of the links, to their document keys."""
    query = (
        "WITH wanted AS (SELECT node_key, position, target_id FROM nodes"
        f" JOIN links ON source_key = node_key WHERE node_id {GIVEN})"
        " SELECT node_id, document_key FROM wanted"
        " JOIN nodes ON node_id = target_id ORDER BY wanted.node_key, position"
    )
    return dict(select(connection, query, node_ids))


def _read_node(row: tuple[Any, ...]) -> StoredNode:
    node_id, kind, path, title, level, breadcrumb, first, last, text, lines, anchor, summary, units, *keys = row
    above, span = read_titles(breadcrumb), _read_span(first, last)
    node = Node(
        node_id, NodeKind(kind), path, title, level, above, span, text, lines, anchor, summary, unpack_units(units)
    )
    return StoredNode(node, *keys)


def _read_span(first: int | None, last: int) -> Span | None:
    return None if first is None else Span(first, last)


@lru_cache(maxsize=64)  # the sections of one question, which two stages read
def unpack_units(packed: bytes) -> tuple[Unit, ...]:
    """Return the units that `pack_units` has written."""
    rows = json.loads(zlib.decompress(packed))
    return tuple(Unit(UnitKind(kind), Span(first, last), *rest) for kind, first, last, *rest in rows)


@lru_cache(maxsize=1024)  # siblings have one breadcrumb, and to read it is a third of the work on a row
def read_titles(breadcrumb: str) -> tuple[str, ...]:
    """Return the titles of a stored breadcrumb, outermost first."""
    return tuple(json.loads(breadcrumb))


def link_sources(connection: Connection, node_ids: Iterable[str]) -> dict[str, int]:
    """Map the nodes that link to any of these, by document and place, to their document keys."""
    sources = f"SELECT source_key FROM links WHERE target_id {GIVEN}"
    query = f"SELECT node_id, document_key FROM nodes WHERE node_key IN ({sources}) ORDER BY node_key"
    return dict(select(connection, query, node_ids))


def link_ids(connection: Connection, document_key: int) -> dict[tuple[str, str, str], str]:
    """Map (kind, path, anchor), as a document writes its links, to the node it leads to; without broken links."""
    rows = connection.execute(
        "SELECT links.kind, target_path, target_anchor, target_id FROM nodes JOIN links ON source_key = node_key"
        " WHERE document_key = ? AND target_id IS NOT NULL",
        (document_key,),
    )
    return {(kind, path, anchor): target for kind, path, anchor, target in rows}


# What indexing found wrong with documents.


def skipped(connection: Connection) -> tuple[tuple[str, str], ...]:
    """Return (id of a file or folder, why it was left out), in the order of folders and paths."""
    query = "SELECT prefix || skipped.path, reason FROM skipped JOIN folders USING (folder_key)"
    return tuple(connection.execute(f"{query} ORDER BY folder_key, skipped.path"))


def warnings(connection: Connection) -> tuple[tuple[str, str], ...]:
    """Return (id of a document, what of it is not as it should be), in the order of folders and paths."""
    query = "SELECT prefix || documents.path, warnings FROM documents JOIN folders USING (folder_key)"
    rows = connection.execute(f"{query} WHERE warnings <> '[]' ORDER BY folder_key, documents.path")
    return tuple((path, warning) for path, warnings in rows for warning in json.loads(warnings))


def broken_links(connection: Connection) -> tuple[tuple[str, int, str, str], ...]:
    """Return (id of the document, line, target as written, why) of each link that leads nowhere, by path and line."""
    rows = connection.execute(
        "SELECT prefix || documents.path, line, target_path, target_anchor, problem FROM links"
        " JOIN nodes ON nodes.node_key = source_key JOIN documents USING (document_key) JOIN folders USING (folder_key)"
        " WHERE problem IS NOT NULL ORDER BY documents.path, folder_key, line, position"
    )
    return tuple((path, line, f"{to}#{anchor}" if anchor else to, problem) for path, line, to, anchor, problem in rows)


# What documents say of themselves before a question is asked, by the nodes that a search found.


def fields(connection: Connection, document_keys: Iterable[int]) -> dict[int, list[tuple[str, str]]]:
    """Map document keys to (key, value) of front matter and tags, in their order; without those that have none."""
    query = f"SELECT document_key, key, value FROM fields WHERE document_key {GIVEN} ORDER BY document_key, position"
    found: dict[int, list[tuple[str, str]]] = {}
    for document_key, key, value in select(connection, query, document_keys):
        found.setdefault(document_key, []).append((key, value))
    return found
