"""BM25 and spellings over an index in PostgreSQL: a question reads the postings of its own words, and nothing else.

A row of `postings` is what one commit brought of a term, or took away (`retriever.indexing.parts`). What is read of the
words of a question becomes a small `LexicalIndex`, so that scores are the same to the last bit.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from math import log
from typing import Self

import numpy as np
import numpy.typing as npt

from retriever.lexical.bm25 import (
    FloatArray,
    LexicalIndex,
    LexicalResult,
    normalize_lengths,
    weigh_postings,
)
from retriever.lexical.languages import LANGUAGES, mark_language
from retriever.lexical.postings import IntArray, Postings
from retriever.lexical.properties import mark_property
from retriever.lexical.spelling import MOST_COMPARED, Spellings, count_edits, letters_of, may_be_mended
from retriever.lexical.tokens import remove_accents
from retriever.store.connection import Connection, Rows

EPSILON = 0.25  # of BM25Okapi: the share of the mean idf that a term of more than half of the sections has
POSTING_BYTES = 16  # a key of 8, a count and a length of 4
MOST_TERMS = 2_000  # whose postings are kept while one state is asked

READ_POSTINGS = "SELECT term, block FROM postings WHERE term = ANY(?) ORDER BY part"
COUNT_SECTIONS = (
    "SELECT term, CAST(sum(sections) AS bigint) FROM postings WHERE term = ANY(?)"
    " GROUP BY term HAVING sum(sections) > 0"
)
READ_SIZE = "SELECT CAST(coalesce(sum(sections), 0) AS bigint), CAST(coalesce(sum(length), 0) AS bigint) FROM parts"


def encode_term(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")


def pack_block(keys: IntArray, counts: npt.NDArray[np.int32], lengths: IntArray) -> bytes:
    """Postings of one term: node keys ascending, how often each holds it (0: no longer), how many tokens it has."""
    return keys.tobytes() + counts.astype(np.int32).tobytes() + lengths.astype(np.int32).tobytes()


def unpack_blocks(blocks: Sequence[bytes]) -> tuple[IntArray, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Keys, counts and lengths of what is in force after all of these blocks of one term, in their order."""
    sizes = [len(block) // POSTING_BYTES for block in blocks]
    parts = list(zip(blocks, sizes, strict=True))
    keys = np.concatenate([np.frombuffer(block, np.int64, size) for block, size in parts])
    counts = np.concatenate([np.frombuffer(block, np.int32, size, 8 * size) for block, size in parts])
    lengths = np.concatenate([np.frombuffer(block, np.int32, size, 12 * size) for block, size in parts])
    if len(blocks) > 1:
        order = np.argsort(keys, kind="stable")
        is_last = np.append(np.diff(keys[order]) > 0, True)  # the youngest word on a section is what holds
        order = order[is_last]
        order = order[counts[order] > 0]
        keys, counts, lengths = keys[order], counts[order], lengths[order]
    return keys, counts, lengths


class TableLexical(LexicalIndex):
    """The index of one state, inside a transaction of that."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sections, self._length = map(int, connection.execute(READ_SIZE).fetchone())
        self._known: dict[str, tuple[IntArray, FloatArray]] = {}
        self._within: IntArray | None = None
        self._assembled: tuple[tuple[str, ...], LexicalIndex] = (), self._assemble(())

    def __len__(self) -> int:
        return self._sections

    @cached_property
    def keys(self) -> IntArray:
        """Return the keys of all nodes that have lines, ascending."""
        rows = self._connection.execute("SELECT node_key FROM nodes WHERE first_line IS NOT NULL ORDER BY node_key")
        return np.array([key for (key,) in rows], np.int64)

    @cached_property
    def languages(self) -> dict[str, int]:
        marks = {encode_term(mark_language(name)): name for name in LANGUAGES}
        counts = self._connection.execute(COUNT_SECTIONS, (list(marks),))
        return dict(sorted(((marks[term], count) for term, count in counts), key=lambda item: -item[1]))

    def restrict(self, rows: npt.NDArray[np.bool_]) -> Self:
        part = super().restrict(rows)
        part._within, part._assembled = self.keys[rows], ((), self._assembled[1])
        return part

    def find_holding(self, terms: Collection[str]) -> IntArray:
        return self._load(terms).find_holding(terms)

    def search_weighted(self, counts: Mapping[str, float], limit: int, *, with_ties: bool = False) -> LexicalResult:
        return self._load(counts).search_weighted(counts, limit, with_ties=with_ties)

    def coverage(self, tokens: Sequence[str], node_keys: Sequence[int]) -> list[float]:
        return self._load(tokens).coverage(tokens, node_keys)

    def rarity(self, tokens: Sequence[str]) -> dict[str, float]:
        return self._load(tokens).rarity(tokens)

    @cached_property
    def _least_idf(self) -> float:
        """Return what a term weighs that most sections hold: read only where a question has one."""
        terms = "SELECT sum(sections) AS n FROM postings GROUP BY term HAVING sum(sections) > 0"
        sizes = self._connection.execute(
            f"SELECT CAST(n AS bigint), count(*) FROM ({terms}) AS terms GROUP BY n ORDER BY n"
        ).fetchall()
        total = sum(count * self._idf(n) for n, count in sizes)
        mean: float = total / sum(count for _, count in sizes)
        return EPSILON * mean

    def _idf(self, sections: int) -> float:
        # As rank_bm25 writes it: another order of the same operations differs in the last bit.
        return log(self._sections - sections + 0.5) - log(sections + 0.5)

    def _load(self, terms: Iterable[str]) -> LexicalIndex:
        """Return a lexical index of these terms alone, in texts and in properties."""
        wanted = tuple(sorted({form for term in terms for form in (term, mark_property(term))}))
        if self._assembled[0] == wanted:
            return self._assembled[1]
        missing = [term for term in wanted if term not in self._known]
        if missing:
            blocks: dict[bytes, list[bytes]] = {}
            for term, block in self._connection.execute(READ_POSTINGS, ([encode_term(term) for term in missing],)):
                blocks.setdefault(term, []).append(block)
            if len(self._known) + len(missing) > MOST_TERMS:
                self._known.clear()
            self._known |= {term: self._weigh(blocks.get(encode_term(term), [])) for term in missing}
        self._assembled = wanted, self._assemble(wanted)
        return self._assembled[1]

    def _weigh(self, blocks: Sequence[bytes]) -> tuple[IntArray, FloatArray]:
        """Return the sections that hold a term, and what it adds to the score of each."""
        if not blocks:
            return np.empty(0, np.int64), np.empty(0)
        keys, counts, lengths = unpack_blocks(blocks)
        idf = self._idf(len(keys)) if len(keys) else 0.0
        idf = idf if idf >= 0 else self._least_idf
        return keys, weigh_postings(idf, counts, normalize_lengths(lengths, self._length / self._sections))

    def _assemble(self, terms: Sequence[str]) -> LexicalIndex:
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
        weights = np.concatenate([own for _, _, own in there] or [np.empty(0)])
        index = LexicalIndex(postings, weights, nodes=self._sections)
        return index if self._within is None else index.restrict(np.isin(keys, self._within))


READ_KNOWN = "SELECT word FROM words WHERE word = ANY(?) GROUP BY word HAVING sum(sections) > 0"
READ_LONGER = (
    "SELECT word, CAST(sum(sections) AS bigint) FROM words WHERE word >= ? AND word < ?"
    " OR ? AND right(encode(word, 'escape'), ?) = ? GROUP BY word HAVING sum(sections) > 0"
)
READ_ALIKE = (
    "SELECT asked.word, near.word, near.sections FROM (SELECT * FROM unnest(CAST(? AS bytea[]), CAST(? AS bigint[]),"
    " CAST(? AS bigint[])) AS given(word, letters, edits)"
    " WHERE coalesce((SELECT sum(sections) FROM words WHERE words.word = given.word), 0) = 0 OFFSET 0) AS asked,"
    " LATERAL (SELECT word, CAST(sum(sections) AS bigint) AS sections FROM words"
    " WHERE length(word) BETWEEN length(asked.word) - edits AND length(asked.word) + edits"
    " AND bit_count(CAST(words.letters # asked.letters AS bit(64))) <= 2 * edits"
    f" GROUP BY word HAVING sum(sections) > 0 ORDER BY word LIMIT {MOST_COMPARED}) AS near"
)


class TableSpellings(Spellings):
    """The words of the documents of one state, asked for one by one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, bool] = {}
        self._alike: dict[str, list[tuple[str, int]]] = {}

    def holds(self, word: str) -> bool:
        forms = [word, remove_accents(word)]
        self.look_up(forms, ())
        return any(self._known[form] for form in forms)

    def look_up(self, words: Iterable[str], unsure: Iterable[str]) -> None:
        missing = sorted({word for word in words if word not in self._known})
        if missing:
            found = self._connection.execute(READ_KNOWN, ([encode_term(word) for word in missing],))
            doubtful = sorted({word for word in unsure if may_be_mended(word)} - self._alike.keys())
            alike = self._read_alike(doubtful) if doubtful else ()
            there = {word for (word,) in found}
            if len(self._known) > MOST_TERMS:
                self._known.clear()
                self._alike.clear()
            self._known |= {word: encode_term(word) in there for word in missing}
            self._alike |= {word: [] for word in doubtful if not self._known.get(word)}
            for word, other, sections in alike:
                self._alike[word.decode()].append((other.decode(), sections))

    def _read_alike(self, words: Sequence[str]) -> Rows:
        """Of those words that no section holds: others of nearly the same length and letters."""
        encoded = [word.encode() for word in words]
        edits = [count_edits(word) for word in words]
        return self._connection.execute(READ_ALIKE, (encoded, list(map(signed_letters, encoded)), edits))

    def _find_longer(self, word: str, as_part: bool) -> Iterator[tuple[str, int]]:
        own = word.encode()
        given = (own, own + b"\xff", as_part, len(word), word)
        for other, sections in self._connection.execute(READ_LONGER, given):
            yield other.decode(), sections

    def _find_alike(self, word: str) -> Iterator[tuple[str, int]]:
        if word not in self._alike:
            found = self._read_alike([word])
            self._alike[word] = [(other.decode(), sections) for _, other, sections in found]
        return iter(self._alike[word])


def signed_letters(word: bytes) -> int:
    """Return `letters_of` as a number that a bigint holds."""
    return int(letters_of(word).astype(np.int64))
