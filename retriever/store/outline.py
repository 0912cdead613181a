"""The nodes of an index without their texts, and where links lead: what is needed to look around."""

import json
import sqlite3
from collections.abc import Iterable

from pageindex.node import Node, NodeKind, Span
from pageindex.tree import DocumentTree


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
