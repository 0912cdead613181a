"""What documents say of themselves before a question is asked, by the nodes that a search found."""

import json
import sqlite3
from collections.abc import Iterable


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
