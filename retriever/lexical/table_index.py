"""BM25 and spellings over an index in PostgreSQL: a question reads the postings of its own words, and nothing else.

What is read of the words of a question becomes a small `LexicalIndex`, so that scores are the same to the last bit.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import accumulate, islice
from math import log
from typing import Self

import numpy as np
import numpy.typing as npt

from retriever.lexical.bm25 import FloatArray, LexicalIndex, normalize_lengths, weigh_postings
from retriever.lexical.languages import LANGUAGES, mark_language
from retriever.lexical.postings import IntArray, Postings, no_postings
from retriever.lexical.properties import mark_property
from retriever.lexical.spelling import MOST_COMPARED, Spellings, count_edits, letters_of
from retriever.lexical.tokens import remove_accents
from retriever.store.database import Connection

EPSILON = 0.25  # of BM25Okapi: the share of the mean idf that a term of more than half of the sections has
MOST_TERMS = 2_000  # whose postings are kept while one state is asked
POSTING = np.dtype([("key", "<i8"), ("count", "<i4"), ("length", "<i4")])
"""One section in a block of `postings`: how often it holds the term, and how many tokens it has."""

READ_POSTINGS = (
    "SELECT term, string_agg(block, '' ORDER BY document_key) FROM postings WHERE term = ANY(?) GROUP BY term"
)
READ_SIZE = "SELECT CAST(coalesce(sum(sections), 0) AS bigint), CAST(coalesce(sum(length), 0) AS bigint) FROM documents"


def encode_term(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")


class TableLexical(LexicalIndex):
    """The index of one state, inside a transaction of that."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        sections, self._length = map(int, connection.execute(READ_SIZE).fetchone())
        super().__init__(no_postings(), np.empty(0), sections)
        self._known: dict[str, tuple[IntArray, FloatArray]] = {}
        self._loaded: list[str] = []
        self._within: IntArray | None = None

    @cached_property
    def keys(self) -> IntArray:
        """Return the keys of all nodes that have lines, ascending."""
        rows = self._connection.execute("SELECT node_key FROM nodes WHERE first_line IS NOT NULL ORDER BY node_key")
        return np.array([key for (key,) in rows], np.int64)

    @cached_property
    def languages(self) -> tuple[str, ...]:
        marks = {name: encode_term(mark_language(name)) for name in LANGUAGES}
        query = "SELECT DISTINCT term FROM postings WHERE term = ANY(?)"
        there = {term for (term,) in self._connection.execute(query, (list(marks.values()),))}
        return tuple(name for name, mark in marks.items() if mark in there)

    def restrict(self, rows: npt.NDArray[np.bool_]) -> Self:
        part = copy(self)
        part._within, part._loaded = self.keys[rows], []
        return part

    @cached_property
    def _least_idf(self) -> float:
        """Return what a term weighs that most sections hold: read only where a question has one."""
        sections = f"SELECT CAST(sum(length(block)) / {POSTING.itemsize} AS bigint) AS n FROM postings GROUP BY term"
        query = f"SELECT n, count(*) FROM ({sections}) AS terms GROUP BY n ORDER BY n"
        sizes = self._connection.execute(query).fetchall()
        total = sum(count * self._idf(n) for n, count in sizes)
        mean: float = total / sum(count for _, count in sizes)
        return EPSILON * mean

    def _idf(self, sections: int) -> float:
        # As rank_bm25 writes it: another order of the same operations differs in the last bit.
        return log(self._nodes - sections + 0.5) - log(sections + 0.5)

    def _load(self, terms: Iterable[str]) -> None:
        """Let these be the postings of these terms alone, in texts and in properties."""
        wanted = sorted({form for term in terms for form in (term, mark_property(term))})
        if self._loaded == wanted:
            return
        if len(self._known) > MOST_TERMS:
            self._known.clear()
        missing = [term for term in wanted if term not in self._known]
        if missing:
            blocks = dict(self._connection.execute(READ_POSTINGS, ([encode_term(term) for term in missing],)))
            self._known |= {term: self._weigh(blocks.get(encode_term(term), b"")) for term in missing}
        self._assemble(wanted)
        self._loaded = wanted

    def _weigh(self, block: bytes) -> tuple[IntArray, FloatArray]:
        """Return the sections that hold a term, and what it adds to the score of each."""
        found = np.frombuffer(block, POSTING)
        if not len(found):
            return np.empty(0, np.int64), np.empty(0)
        idf = self._idf(len(found))
        idf = idf if idf >= 0 else self._least_idf
        norms = normalize_lengths(found["length"], self._length / self._nodes)
        return found["key"], weigh_postings(idf, found["count"], norms)

    def _assemble(self, terms: Sequence[str]) -> None:
        encoded = sorted((encode_term(term), term) for term in terms)
        there = [(name, *self._known[term]) for name, term in encoded if len(self._known[term][0])]
        keys = np.sort(np.concatenate([keys for _, keys, _ in there] or [np.empty(0, np.int64)]))
        keys = keys[np.append(True, np.diff(keys) > 0)] if len(keys) else keys
        postings = Postings(
            keys=keys,
            lengths=np.empty(0, np.int64),
            vocabulary=np.frombuffer(b"".join(name for name, _, _ in there), np.uint8),
            term_starts=np.array([0, *accumulate(len(name) for name, _, _ in there)]),
            starts=np.array([0, *accumulate(len(own) for _, own, _ in there)]),
            rows=np.concatenate([np.searchsorted(keys, own) for _, own, _ in there] or [keys]).astype(np.int32),
            counts=np.empty(0, np.int32),
        )
        super().__init__(postings, np.concatenate([own for _, _, own in there] or [np.empty(0)]), self._nodes)
        self._allowed = None if self._within is None else np.isin(keys, self._within)


class TableSpellings(Spellings):
    """The words of the documents of one state, asked for as they are needed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, bool] = {}
        self._asked: tuple[str, Iterator[tuple[str, int]]] = "", iter(())

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

    def _find_longer(self, word: str, as_part: bool) -> Iterator[tuple[str, int]]:
        own, ends = word.encode(), "right(encode(word, 'escape'), ?) = ?"
        self._asked = word, self._ask_alike(word)  # which is looked at next: both are waited for once
        return self._count("word >= ? AND word < ? OR ? AND " + ends, (own, own + b"\xff", as_part, len(word), word))

    def _find_alike(self, word: str) -> Iterator[tuple[str, int]]:
        (asked, found), self._asked = self._asked, ("", iter(()))
        return found if asked == word else self._ask_alike(word)

    def _ask_alike(self, word: str) -> Iterator[tuple[str, int]]:
        edits, size = count_edits(word), len(word)
        alike = "length(word) BETWEEN ? AND ? AND bit_count(CAST(letters # ? AS bit(64))) <= ?"
        given = size - edits, size + edits, signed_letters(word.encode()), 2 * edits
        return islice(self._count(alike, given), MOST_COMPARED)

    def _count(self, condition: str, given: Sequence[object]) -> Iterator[tuple[str, int]]:
        """Return words, and how many sections hold each."""
        query = f"SELECT word, CAST(sum(sections) AS bigint) FROM words WHERE {condition} GROUP BY word ORDER BY word"
        return ((word.decode(), sections) for word, sections in self._connection.execute(query, given))


def signed_letters(word: bytes) -> int:
    """Return `letters_of` as a number that a bigint holds."""
    return int(letters_of(word).astype(np.int64))
