"""The words of the documents, which are rows derived from others."""

from collections.abc import Sequence
from secrets import token_hex

from retriever.lexical.bm25 import write_postings
from retriever.lexical.sections import read_texts, tokenize_text
from retriever.lexical.spelling import write_words
from retriever.store import reading, writing
from retriever.store.database import Connection
from retriever.trace import NO_PROGRESS
from retriever.types import Progress

DOCUMENTS_AT_ONCE = 500  # whose words are in memory


def build_words(
    connection: Connection, documents: Sequence[int] | None = None, progress: Progress = NO_PROGRESS
) -> None:
    """Write the words of new documents, and name the next state; those of documents that are gone went with their rows.

    Args:
        connection: of the one writer, in the transaction that makes the state.
        documents: keys of those that are new since the state in force; None to write the words of all anew.
        progress: told how far it is.
    """
    if documents is None:
        for table in ("postings", "words"):
            connection.execute(f"DELETE FROM {table}")
        documents = reading.document_keys(connection)
    progress.start("indexing words", len(documents), "files")
    for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
        texts = read_texts(connection, documents[start : start + DOCUMENTS_AT_ONCE])
        write_words(connection, {key: item.written for key, item in texts.items()})
        write_postings(connection, {key: tokenize_text(item) for key, item in texts.items()})
        progress.advance("indexing words", start)
    progress.finish("indexing words")
    # Never the name of another state: what other processes keep of one, they keep by it.
    writing.set_meta(connection, "snapshot", token_hex(8))


def examine_words(connection: Connection) -> str:
    """Return why the words cannot be those of the sections; empty where nothing says so."""
    (found,) = connection.execute("SELECT CAST(coalesce(sum(sections), 0) AS bigint) FROM documents").fetchone()
    wanted = reading.counts(connection).sections
    return "" if found == wanted else f"the words are of {found:,} of {wanted:,}"
