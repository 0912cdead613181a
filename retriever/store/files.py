"""What files were like when they were indexed."""

import sqlite3
from collections.abc import Iterable

from retriever.store.reading import StoredDocument, keys_as_json


def documents_by_key(connection: sqlite3.Connection, document_keys: Iterable[int]) -> dict[int, StoredDocument]:
    """The documents of these keys."""
    rows = connection.execute(
        "SELECT document_key, path, size, mtime_ns, digest, ctime_ns, inode FROM documents"
        " WHERE document_key IN (SELECT value FROM json_each(?))",
        (keys_as_json(document_keys),),
    )
    return {row[0]: StoredDocument(*row) for row in rows}
