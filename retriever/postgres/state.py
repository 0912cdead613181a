"""One state of an index in tables, as searches see it; what a folder has in the files of a snapshot is rows here.

The words of a document are rows of it, which go with it. A question reads those of its own words, in one snapshot of
the database, and nothing else. Scores are those of an index in a folder, to the last bit.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain

import numpy as np

from retriever.errors import SnapshotError
from retriever.lexical.bm25 import Bm25, FloatArray, IntArray, PostingList, TokenPostings
from retriever.lexical.languages import LANGUAGES, mark_language
from retriever.lexical.sections import mark_property, read_texts, tokenize_texts
from retriever.lexical.spelling import Spellings, list_words
from retriever.lexical.tokens import remove_accents
from retriever.places import NO_PROGRESS, Derived, Difference
from retriever.places.view import View
from retriever.settings import APPROXIMATE, VectorChoice
from retriever.store import reading, writing
from retriever.store.database import Connection
from retriever.store.text_vectors import NEAR_TEXTS, NearChunk, near_chunks
from retriever.types import FloatMatrix, Progress

DOCUMENTS_AT_ONCE = 500  # whose words are in memory
MOST_TERMS = 2_000  # whose postings are kept while one state is asked
POSTING = np.dtype([("key", "<i8"), ("count", "<i4"), ("length", "<i4")])
"""One section in a block of `postings`: how often it holds the term, and how many tokens it has."""

READ_POSTINGS = (
    "SELECT term, string_agg(block, '' ORDER BY document_key) FROM postings WHERE term = ANY(?) GROUP BY term"
)
READ_SIZE = (
    "SELECT CAST(coalesce(sum(sections), 0) AS bigint), CAST(coalesce(sum(length), 0) AS bigint),"
    " ARRAY(SELECT DISTINCT term FROM postings WHERE term = ANY(?)) FROM documents"
)


class TableLexical(Bm25):
    """The index of one state, inside a transaction of that."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        marks = {name: mark_language(name).encode() for name in LANGUAGES}
        sections, length, marked = connection.execute(READ_SIZE, (list(marks.values()),)).fetchone()
        super().__init__(sections, length, (name for name, mark in marks.items() if mark in marked))
        self._known: dict[str, tuple[IntArray, FloatArray]] = {}

    def _read(self, tokens: Iterable[str]) -> tuple[IntArray, dict[str, TokenPostings]]:
        """Read the keys of the nodes that hold one of the tokens, and each token's postings in the whole index."""
        forms = {token: (token, mark_property(token)) for token in tokens}
        terms = [*chain.from_iterable(forms.values())]
        if len(self._known) > MOST_TERMS:
            self._known.clear()
        missing = [term for term in terms if term not in self._known]
        if missing:
            blocks = dict(self._connection.execute(READ_POSTINGS, ([term.encode() for term in missing],)))
            for term in missing:
                found = np.frombuffer(blocks.get(term.encode(), b""), POSTING)
                self._known[term] = found["key"], self._weigh(found["count"], found["length"])
        keys = np.unique(np.concatenate([self._known[term][0] for term in terms] or [np.empty(0, np.int64)]))
        rows = {term: np.searchsorted(keys, self._known[term][0]) for term in terms}
        lists = {term: PostingList(rows[term], self._known[term][1]) for term in terms}
        return keys, {token: (lists[word], lists[as_property]) for token, (word, as_property) in forms.items()}


class TableSpellings(Spellings):
    """The words of the documents of one state, asked for as they are needed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, bool] = {}

    def holds(self, word: str) -> bool:
        forms = [word, remove_accents(word)]
        self.look_up(forms)
        return any(self._known[form] for form in forms)

    def look_up(self, words: Iterable[str]) -> None:
        missing = sorted({word for word in words if word not in self._known})
        if missing:
            query = "SELECT DISTINCT word FROM words WHERE word = ANY(?)"
            there = {word for (word,) in self._connection.execute(query, ([word.encode() for word in missing],))}
            if len(self._known) > MOST_TERMS:
                self._known.clear()
            self._known |= {word: word.encode() in there for word in missing}

    def _find(self, beginning: str, ending: str = "", letters: int = 0) -> Iterator[tuple[str, int]]:
        query = (
            "SELECT word, CAST(sum(sections) AS bigint) FROM words WHERE (word >= ? AND word < ?"
            " OR ? <> '' AND right(encode(word, 'escape'), ?) = ?) AND (? = 0 OR abs(length(word) - ?) <= 1)"
            " GROUP BY word ORDER BY word"
        )
        own = beginning.encode()
        values = (own, own + b"\xff", ending, len(ending), ending, letters, letters)
        return ((other.decode(), sections) for other, sections in self._connection.execute(query, values))


class DerivedTables(Derived):
    """The postings of an index in PostgreSQL; the server keeps its graph of near vectors up to date."""

    def is_whole(self, connection: Connection) -> bool:
        """Return whether the postings were made once: they change with their rows."""
        return bool(reading.snapshot(connection))

    def build(
        self, connection: Connection, difference: Difference | None = None, progress: Progress = NO_PROGRESS
    ) -> str:
        """Write the words of new documents; those of documents that are gone went with their rows."""
        if difference is None or not self.is_whole(connection):
            documents = reading.document_keys(connection)
            for table in ("postings", "words"):
                connection.execute(f"DELETE FROM {table}")
        else:
            documents = list(difference.documents)
        for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
            write_words(connection, documents[start : start + DOCUMENTS_AT_ONCE], progress)
        # Never the name of another state: what other processes keep of one, they keep by it.
        name: str = connection.execute("SELECT CAST(pg_current_xact_id() AS text)").fetchone()[0]
        writing.set_meta(connection, "snapshot", name)
        return name

    def examine(self, connection: Connection) -> Iterator[tuple[str, SnapshotError | None]]:
        """Compare how many sections the words are of with the rows."""
        (found,) = connection.execute("SELECT CAST(sum(sections) AS bigint) FROM documents").fetchone()
        wanted = reading.counts(connection).sections
        yield "words", None if found == wanted else SnapshotError(f"the words are of {found or 0:,} of {wanted:,}")


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
        blocks = ((document, term.encode(), np.array(held, POSTING).tobytes()) for term, held in postings.items())
        writing.insert(connection, "postings", "document_key, term, block", blocks)
        written = Counter(chain.from_iterable(words[key] for key in keys))
        rows = ((document, word.encode(), count) for word, count in written.items())
        writing.insert(connection, "words", "document_key, word, sections", rows)


EF_SEARCH = 200  # nodes of the graph that a search keeps in view; pgvector's own is 40
CANDIDATES_FACTOR = 4  # times as many are taken from the graph as are left by their exact cosines


class TableView(View):
    """As `View`; nothing of it can be out of step with the rows, as it is rows itself."""

    def open_lexical(self) -> TableLexical:
        """Return BM25 over the postings in the tables."""
        return TableLexical(self.connection)

    @cached_property
    def spellings(self) -> TableSpellings:  # kept: words are asked for once
        """The words of the documents."""
        return TableSpellings(self.connection)

    def find_nearest(self, vector: FloatMatrix, limit: int, how: VectorChoice) -> list[NearChunk]:
        """Return the nearest texts, which the server finds: by HNSW, or among all and in a part."""
        query, is_exact = str(vector[0].tolist()), self.part is not None or how not in APPROXIMATE
        among, of_part = "EXISTS (SELECT FROM chunks WHERE chunks.text_hash = vectors.text_hash)", []
        if self.part is not None:
            among = "text_hash IN (SELECT text_hash FROM chunks WHERE node_key = ANY(?))"
            of_part = [self.part.node_keys.tolist()]
        candidates = f"SELECT * FROM vectors WHERE fingerprint = ? AND {among}"
        # All vectors, unless the graph is asked: an exact search, or one of a part, compares every one.
        parameters = [query, self.state.fingerprint, *of_part]
        if not is_exact:
            self.connection.execute(f"SET LOCAL hnsw.ef_search = {EF_SEARCH}")
            self.connection.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
            # The planner takes the graph of an encoder where it reads its name, not where that is a parameter.
            name, kind = self.state.fingerprint.replace("'", "''"), f"halfvec({self.dimension})"
            candidates = (
                f"SELECT * FROM vectors WHERE fingerprint = '{name}' AND {among}"
                f" ORDER BY CAST(vector AS {kind}) <=> CAST(? AS {kind}) LIMIT ?"
            )
            parameters = [query, *of_part, query, CANDIDATES_FACTOR * limit]
        nearest = (
            "IN (SELECT min(chunk_key) FROM (SELECT text_hash, CAST(vector AS vector) <=> CAST(? AS vector) AS distance"
            f" FROM ({candidates}) AS candidates ORDER BY distance LIMIT ?) AS near"
            " JOIN chunks USING (text_hash) GROUP BY text_hash)"
        )
        rows = self.connection.execute(NEAR_TEXTS % nearest, (self.state.fingerprint, *parameters, limit))
        return near_chunks(rows, vector, self.common)
