"""BM25 and spellings over an index in PostgreSQL: a question reads the postings of its own words, and nothing else.

Scores are those of an index in a folder, to the last bit.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from math import log

import numpy as np

from retriever.lexical.bm25 import Bm25, FloatArray, PostingList, TokenPostings, weigh_postings
from retriever.lexical.languages import LANGUAGES, mark_language
from retriever.lexical.postings import IntArray
from retriever.lexical.properties import mark_property
from retriever.lexical.spelling import Spellings
from retriever.lexical.tokens import remove_accents
from retriever.store.database import Connection

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


def encode_term(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")


class TableLexical(Bm25):
    """The index of one state, inside a transaction of that."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        marks = {name: encode_term(mark_language(name)) for name in LANGUAGES}
        sections, self._length, marked = connection.execute(READ_SIZE, (list(marks.values()),)).fetchone()
        super().__init__(sections, (name for name, mark in marks.items() if mark in marked))
        self._known: dict[str, tuple[IntArray, FloatArray]] = {}

    def _read(self, tokens: Iterable[str]) -> tuple[IntArray, dict[str, TokenPostings]]:
        """Read the keys of the nodes that hold one of the tokens, and each token's postings in the whole index."""
        forms = {token: (token, mark_property(token)) for token in tokens}
        terms = [*chain.from_iterable(forms.values())]
        if len(self._known) > MOST_TERMS:
            self._known.clear()
        missing = [term for term in terms if term not in self._known]
        if missing:
            blocks = dict(self._connection.execute(READ_POSTINGS, ([encode_term(term) for term in missing],)))
            self._known |= {term: self._weigh(blocks.get(encode_term(term), b"")) for term in missing}
        keys = np.unique(np.concatenate([self._known[term][0] for term in terms] or [np.empty(0, np.int64)]))
        rows = {term: np.searchsorted(keys, self._known[term][0]) for term in terms}
        lists = {term: PostingList(rows[term], self._known[term][1]) for term in terms}
        return keys, {token: (lists[word], lists[as_property]) for token, (word, as_property) in forms.items()}

    def _weigh(self, block: bytes) -> tuple[IntArray, FloatArray]:
        """Return the sections that hold a term, and what it adds to the score of each."""
        found = np.frombuffer(block, POSTING)
        if not len(found):
            return np.empty(0, np.int64), np.empty(0)
        idf = log((self._nodes + 1) / len(found))  # as rank_bm25 writes it
        return found["key"], weigh_postings(idf, found["count"], found["length"], self._length / self._nodes)


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
            there = {word for (word,) in self._connection.execute(query, ([encode_term(word) for word in missing],))}
            if len(self._known) > MOST_TERMS:
                self._known.clear()
            self._known |= {word: encode_term(word) in there for word in missing}

    def _find_longer(self, word: str, *, as_part: bool = False) -> Iterator[tuple[str, int]]:
        query = (
            "SELECT word, CAST(sum(sections) AS bigint) FROM words WHERE word >= ? AND word < ?"
            " OR ? AND right(encode(word, 'escape'), ?) = ? GROUP BY word ORDER BY word"
        )
        own = word.encode()
        found = self._connection.execute(query, (own, own + b"\xff", as_part, len(word), word))
        return ((other.decode(), sections) for other, sections in found)
