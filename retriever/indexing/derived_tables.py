"""What a snapshot's files are for a folder, two tables are in PostgreSQL: the words of each document, as rows of it.

They go with their document. A question reads those of its own words, in one snapshot of the database.
"""

from collections import Counter
from itertools import chain

import numpy as np

from retriever.indexing.derived import NO_PROGRESS, Derived, Difference
from retriever.indexing.snapshot import read_texts, tokenize_texts
from retriever.lexical import tokens as tokenizer
from retriever.lexical.bm25 import FORMAT
from retriever.lexical.spelling import list_words
from retriever.lexical.table_index import POSTING, encode_term, signed_letters
from retriever.protocols import Progress
from retriever.store import reading, writing
from retriever.store.database import Connection

VERSION = f"{FORMAT} {tokenizer.RULES}"
DOCUMENTS_AT_ONCE = 500  # whose words are in memory


class DerivedTables(Derived):
    """The postings of an index in PostgreSQL; the server keeps its graph of near vectors up to date."""

    def is_whole(self, connection: Connection) -> bool:
        """Return whether the postings were made by the rules of this version."""
        return reading.meta(connection, "lexical_version") == VERSION

    def build(
        self,
        connection: Connection,
        fingerprint: str,
        difference: Difference | None,
        progress: Progress = NO_PROGRESS,
    ) -> int:
        """Write the words of new documents; those of documents that are gone went with their rows."""
        if difference is None:
            documents = list(reading.prefixes(connection))
            for table in ("postings", "words"):
                connection.execute(f"DELETE FROM {table}")
            writing.set_meta(connection, "lexical_version", VERSION)
        else:
            documents = list(difference.documents)
        for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
            write_words(connection, documents[start : start + DOCUMENTS_AT_ONCE], progress)
        writing.set_meta(connection, "fingerprint", fingerprint)
        # Never the number of another state: what other processes keep of one, they keep by it.
        (number,) = connection.execute("SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)").fetchone()
        writing.set_meta(connection, "snapshot", str(number))
        return int(number)


def write_words(connection: Connection, documents: list[int], progress: Progress) -> None:
    """Write the words of documents, by their keys, in place of what was there: as BM25 reads them, and as written."""
    for table in ("postings", "words"):
        connection.executemany(f"DELETE FROM {table} WHERE document_key = ?", ((key,) for key in documents))
    texts = read_texts(connection, documents)
    tokens, words = tokenize_texts(texts, progress), list_words({key: item.written for key, item in texts.items()})
    of_documents: dict[int, list[int]] = {}
    for key in texts:
        of_documents.setdefault(key >> writing.NODE_BITS, []).append(key)
    for document, keys in of_documents.items():
        postings: dict[str, list[tuple[int, int, int]]] = {}
        for key in keys:
            for term, count in Counter(tokens[key]).items():
                postings.setdefault(term, []).append((key, count, len(tokens[key])))
        size = (len(keys), sum(len(tokens[key]) for key in keys), document)
        connection.execute("UPDATE documents SET sections = ?, length = ? WHERE document_key = ?", size)
        blocks = ((document, encode_term(term), np.array(held, POSTING).tobytes()) for term, held in postings.items())
        writing.insert(connection, "postings", "document_key, term, block", blocks)
        written = Counter(chain.from_iterable(words[key] for key in keys))
        rows = ((document, own := encode_term(word), count, signed_letters(own)) for word, count in written.items())
        writing.insert(connection, "words", "document_key, word, sections, letters", rows)
