"""The data derived from the rows of an index: words, which are rows as well, and what a place keeps beside them."""

from collections.abc import Iterator, Sequence
from secrets import token_hex

from retriever.errors import SnapshotError
from retriever.lexical.bm25 import write_postings
from retriever.lexical.sections import read_texts, tokenize_text
from retriever.lexical.spelling import write_words
from retriever.store import reading, writing
from retriever.store.database import Connection
from retriever.store.files import SNAPSHOT_DIGITS
from retriever.trace import NoProgress
from retriever.types import Progress

NO_PROGRESS = NoProgress()
DOCUMENTS_AT_ONCE = 500  # whose words are in memory


class Derived:
    """The words of the documents; writing methods are for the one writer, inside its transaction."""

    def build(
        self, connection: Connection, documents: Sequence[int] | None = None, progress: Progress = NO_PROGRESS
    ) -> str:
        """Write the words of new documents, and name the next state; return its name.

        Those of documents that are gone went with their rows.

        Args:
            connection: in the transaction that names the state.
            documents: keys of those that are new since the state in force; None to write the words of all anew.
            progress: told how far it is.
        """
        if documents is None:
            for table in ("postings", "words"):
                connection.execute(f"DELETE FROM {table}")
            documents = reading.document_keys(connection)
        progress.start("words", len(documents), "files")
        for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
            texts = read_texts(connection, documents[start : start + DOCUMENTS_AT_ONCE])
            write_words(connection, {key: item.written for key, item in texts.items()})
            write_postings(connection, {key: tokenize_text(item) for key, item in texts.items()})
            progress.advance("words", start)
        progress.finish("words")
        # Never the name of another state: what other processes keep of one, they keep by it.
        name = token_hex(SNAPSHOT_DIGITS // 2)
        writing.set_meta(connection, "snapshot", name)
        return name

    def update_graph(self, connection: Connection, progress: Progress = NO_PROGRESS) -> None:
        """Bring the graph of near vectors to the state in force, outside of a transaction."""
        return

    def remove_old(self, current: str) -> None:
        """Remove what was kept of the states before the current one; who reads one keeps it open."""
        return

    def examine(self, connection: Connection) -> Iterator[tuple[str, SnapshotError | None]]:
        """Compare it with the rows; yield what was looked at, and why it cannot be used, if so."""
        (found,) = connection.execute("SELECT CAST(coalesce(sum(sections), 0) AS bigint) FROM documents").fetchone()
        wanted = reading.counts(connection).sections
        yield "words", None if found == wanted else SnapshotError(f"the words are of {found:,} of {wanted:,}")
