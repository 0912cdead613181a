"""What leads to a node, from index.sqlite; what a node leads to is in `reading`."""

import sqlite3


def link_sources(connection: sqlite3.Connection, node_id: str) -> list[tuple[str, int]]:
    """(node id, document key) of each node that links to this one, each once, by document and place."""
    rows = connection.execute(
        "SELECT DISTINCT source.node_id, source.document_key FROM links JOIN nodes AS source"
        " ON source.node_key = links.source_key WHERE links.target_id = ? AND source.node_id <> ?"
        " ORDER BY source.document_key, source.node_key",
        (node_id, node_id),
    )
    return list(rows)
