"""The nodes of an index without their texts, and where links lead: what is needed to look around."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pageindex.node import NodeKind, Span


@dataclass(frozen=True, slots=True)
class OutlineRow:
    """A file or a section, as the table of contents needs it."""

    node_id: str
    parent_id: str | None
    """None for the file's own node."""
    folder: str
    """The indexed folder, absolute."""
    prefix: str
    """Of its node ids."""
    path: str
    """The file, relative to the indexed folder."""
    kind: NodeKind
    title: str
    span: Span | None


def outline_rows(connection: sqlite3.Connection) -> Iterator[OutlineRow]:
    """Every file and section, by folder and path, in document order: parents before their children."""
    rows = connection.execute(
        "SELECT node_id, parent_id, folders.path, prefix, documents.path, kind, nodes.title, first_line, last_line"
        " FROM folders JOIN documents USING (folder_key) JOIN nodes USING (document_key)"
        " ORDER BY folder_key, documents.path, node_key"
    )
    for node_id, parent_id, folder, prefix, path, kind, title, first, last in rows:
        span = None if first is None else Span(first, last)
        yield OutlineRow(node_id, parent_id, folder, prefix, path, NodeKind(kind), title, span)


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


def summaries(connection: sqlite3.Connection, node_ids: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Node ids to (heading level, summary); ids that are not there are left out."""
    rows = connection.execute(
        "SELECT node_id, level, summary FROM nodes WHERE node_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(node_ids)),),
    )
    return {node_id: (level, summary) for node_id, level, summary in rows}
