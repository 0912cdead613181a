"""Takes single damaged rows out of an index whose pages are whole, with the documents that they belong to.

Indexing then reads these documents again, and embeds the texts whose vectors went. Killed in between, the index lacks
them until the next command that indexes.
"""

from collections import Counter
from contextlib import closing
from pathlib import Path

from retriever.display.phrases import counted
from retriever.errors import IndexDamagedError
from retriever.indexing.generation import renew_generation
from retriever.store import reading, writing
from retriever.store.checking import damaged_rows, documents_of, find_damage
from retriever.store.checksums import deleting
from retriever.store.database import create_database, foreign_errors, transaction

LOSABLE = frozenset({"documents", "nodes", "chunks", "vectors", "tokens", "summaries", "skipped", "queries", "opened"})
"""Tables whose rows the documents give back, or of which one less is no other answer.

A link is not among them: the flipped bit may lie in the number of its node, and then another document has lost it.
"""


class _Unmendable(Exception):
    """Something else is damaged as well."""


def mend(index: Path) -> str:
    """Removes what is damaged, for the one writer; says what, or nothing where more than single rows is damaged.

    Raises:
        StorageError: the disk is full or read-only.
    """
    try:
        with foreign_errors(index), closing(create_database(index)) as connection, transaction(connection):
            rows = damaged_rows(connection)
            if not rows or any(row.table not in LOSABLE for row in rows):
                raise _Unmendable
            documents = {key for row in rows for key, _ in documents_of(connection, row)}
            for row in rows:
                connection.execute(deleting(row.table), row.key)
            writing.remove_documents(connection, sorted(documents))
            if any(True for _ in find_damage(connection)):
                raise _Unmendable
            if reading.generation_number(connection):
                renew_generation(connection, index)
    except (_Unmendable, IndexDamagedError):
        return ""
    tables = Counter(row.table for row in rows)
    listed = ", ".join(f"{count:,} of {table}" for table, count in sorted(tables.items()))
    return f"{counted(len(rows), 'row')} ({listed})"
