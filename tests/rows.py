"""Rows of an index in memory, for what is tested without documents on a disk."""

import sqlite3
from collections.abc import Iterable

from retriever.store.database import FileConnection, make_schema
from retriever.store.writing import insert


def open_rows(documents: Iterable[int] = ()) -> FileConnection:
    """An index that holds these documents, by their keys, without sections."""
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=FileConnection)
    make_schema(connection)
    connection.execute("INSERT INTO folders VALUES (1, '/docs', '', 'plain')")
    connection.execute("PRAGMA foreign_keys = ON")
    columns = "document_key, path, folder_key, size, mtime_ns, ctime_ns, inode, digest, title, boilerplate, aliases"
    rows = ((key, f"{key}.md", 1, 0, 0, 0, 0, "", "", 0.0, "[]", "[]") for key in documents)
    insert(connection, "documents", f"{columns}, warnings", rows)
    return connection
