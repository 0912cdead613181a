"""Which node holds which term how often, as rows of the index, and the scores of BM25+ by them.

A node is scored by a sum over the question's tokens, and what a token adds depends on the node and its length alone. So
a question reads the rows of its own words, and costs as much as these are common. A test holds the numbers to those of
`rank_bm25.BM25Plus`; its delta is 0 here: it is added to all nodes, and so changes no order. They are never negative,
so that a word counts in a folder of two notes as well.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from itertools import chain, compress
from math import log, log1p
from struct import Struct
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from retriever.lexical.languages import LANGUAGES, detect_question, mark_language
from retriever.lexical.sections import mark_property
from retriever.store.database import Connection
from retriever.store.reading import GIVEN, select
from retriever.store.writing import NODE_BITS, insert

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

POSTING = np.dtype([("key", "<i8"), ("count", "<i4"), ("length", "<i4")])
"""One section in a block of the table `postings`: how often it holds the term, and how many tokens it has."""
pack_posting = Struct("<qii").pack


def write_postings(connection: Connection, tokens: Mapping[int, Sequence[str]]) -> None:
    """Write the postings of new documents.

    Args:
        connection: of the index.
        tokens: of all sections of these documents, by their keys.
    """
    sizes: defaultdict[int, list[int]] = defaultdict(list)
    blocks: defaultdict[tuple[str, int], bytes] = defaultdict(bytes)
    for key, own in tokens.items():
        document, length = key >> NODE_BITS, len(own)
        sizes[document].append(length)
        for term, count in Counter(own).items():
            blocks[term, document] += pack_posting(key, count, length)
    rows = ((len(lengths), sum(lengths), document) for document, lengths in sizes.items())
    connection.executemany("UPDATE documents SET sections = ?, length = ? WHERE document_key = ?", rows)
    # In the order of the table: its pages are gone through once.
    insert(connection, "postings", "term, document_key, block", ((*place, blocks[place]) for place in sorted(blocks)))


# Scores.

K1, B = 1.5, 0.75  # as in BM25Plus
MOST_KEPT = 4_000_000  # postings in memory: 64 MB
SHARE_APART = 0.25  # of the nodes in other languages, from which a question may be in one that no word of it says


class QuestionTerm(NamedTuple):
    """A word of the question, as the documents have it."""

    documents: int  # how many nodes hold it; 0 for a word that no document has
    # ln(1 + (n - documents + .5) / (documents + .5)), above 0: its inverse document frequency in the form that no word
    # makes negative (Lucene's). A word that no document has counts like one in a single node: it is at least as rare,
    # and a typo must not outweigh the rest.
    rarity: float


# (node key, score above 0), best first, ties by key; only nodes with at least one word of the question. The score has
# no upper bound.
KeyRanking: TypeAlias = tuple[tuple[int, float], ...]


class PostingList(NamedTuple):
    """The nodes that hold a term."""

    keys: IntArray  # (p,) ascending
    weights: FloatArray  # (p,): what the term adds to the score of each


# Of a token, in texts and in properties.
TokenPostings: TypeAlias = tuple[PostingList, PostingList]

READ_POSTINGS = f"SELECT term, CAST(group_concat(block, '') AS BLOB) FROM postings WHERE term {GIVEN} GROUP BY term"


class Bm25:
    """BM25 over the postings of one state, inside a transaction of that: read-only."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        query = (
            "SELECT CAST(coalesce(sum(sections), 0) AS bigint), CAST(coalesce(sum(length), 0) AS bigint) FROM documents"
        )
        self._nodes: int
        self._nodes, length = connection.execute(query).fetchone()
        self._mean_length = length / max(1, self._nodes)
        self._known: dict[str, PostingList] = {}
        marked = self.describe([mark_language(name) for name in LANGUAGES]).values()
        self.languages = tuple(compress(LANGUAGES, (mark.documents for mark in marked)))
        """Of `LANGUAGES`: a text is compared with a question in all of them."""
        self._is_english = sum(mark.documents for mark in marked) < SHARE_APART * self._nodes
        self._allowed: IntArray | None = None  # keys, ascending

    def _read(self, tokens: Iterable[str]) -> dict[str, TokenPostings]:
        """Return the postings of each token."""
        forms = {token: (token, mark_property(token)) for token in tokens}
        missing = [term for term in chain.from_iterable(forms.values()) if term not in self._known]
        if missing:
            blocks = dict(select(self._connection, READ_POSTINGS, missing))
            self._known |= {term: self._weigh(blocks.get(term, b"")) for term in missing}
        lists = {token: (self._known[word], self._known[as_property]) for token, (word, as_property) in forms.items()}
        if missing and sum(len(postings.keys) for postings in self._known.values()) > MOST_KEPT:
            self._known.clear()
        return lists

    def detect_question(self, question: str) -> tuple[str, ...]:
        """Return the languages, beside English, that a question is read in; always none where `languages` is empty."""
        return detect_question(question, self.languages, is_english=self._is_english)

    def restrict(self, node_keys: IntArray) -> Self:
        """Return the same index, in which only some nodes are found; how rare a word is stays that of all nodes.

        Args:
            node_keys: those that are found, ascending.
        """
        part = copy(self)
        part._allowed = node_keys
        return part

    def find_holding(self, terms: Collection[str]) -> IntArray:
        """Return the keys of the nodes that hold every one of the terms, ascending; of none where no term is given."""
        columns = [in_texts.keys for in_texts, _ in self._read(terms).values()]
        found: IntArray = min(columns, key=len, default=np.empty(0, np.int64))
        for column in columns:
            found = found[_are_in(found, column)]
        return found

    def search(self, tokens: Sequence[str], limit: int) -> KeyRanking:
        """Return at most `limit` nodes that hold one of the tokens, best first; a repeated token counts as often."""
        return self.search_weighted(Counter(tokens), limit)[:limit]

    def search_weighted(self, counts: Mapping[str, float], limit: int) -> KeyRanking:
        """Do as `search`, with how often each token counts, which need not be a whole number, in `counts`.

        All nodes with the score of the last are returned too: keys only say in which order documents came.
        """
        lists = self._read(counts)
        columns = [column.keys for pair in lists.values() for column in pair]
        keys = np.sort(np.concatenate(columns or [np.empty(0, np.int64)]), kind="stable")
        keys = keys[np.diff(keys, prepend=-1) > 0]  # np.unique would import numpy.ma: 7 ms
        scores = np.zeros(len(keys))
        for token, postings in lists.items():
            for column in postings:
                scores[keys.searchsorted(column.keys)] += counts[token] * column.weights
        if self._allowed is not None:
            is_allowed = _are_in(keys, self._allowed)
            keys, scores = keys[is_allowed], scores[is_allowed]
        candidates = np.arange(len(keys))
        if len(keys) > limit:  # all that score at least as much as the last of the best
            candidates = np.flatnonzero(scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit])
        # Equal scores in the order of the keys.
        best = candidates[np.argsort(-scores[candidates], kind="stable")]
        return tuple(zip(keys[best].tolist(), scores[best].tolist(), strict=True))

    def coverage(self, tokens: Sequence[str], node_keys: Sequence[int]) -> FloatArray:
        """Return the share of the question that each node covers, 0 to 1: the rarity of its words over that of all.

        Args:
            tokens: of the question.
            node_keys: the sections.
        """
        wanted = np.array(node_keys, np.int64)
        covered, total = np.zeros(len(wanted)), 0.0
        for postings in self._read(tokens).values():
            rarity = self._describe(postings).rarity
            is_held = np.zeros(len(wanted), np.bool_)
            for column in postings:
                is_held |= _are_in(wanted, column.keys)
            covered += rarity * is_held
            total += rarity
        return covered / total if total else covered

    def describe(self, tokens: Collection[str]) -> dict[str, QuestionTerm]:
        """Return what is known of each of the tokens, in their order."""
        return {token: self._describe(postings) for token, postings in self._read(tokens).items()}

    def _describe(self, postings: TokenPostings) -> QuestionTerm:
        documents = max(len(column.keys) for column in postings)
        frequency = max(1, documents)
        return QuestionTerm(documents, log1p((max(1, self._nodes) - frequency + 0.5) / (frequency + 0.5)))

    def _weigh(self, blocks: bytes) -> PostingList:
        """Return the nodes of a term's blocks, and what it adds to the score of each.

        Operation by operation as rank_bm25 computes it.
        """
        if not blocks:
            return PostingList(np.empty(0, np.int64), np.empty(0))
        if len(blocks) % POSTING.itemsize:
            raise sqlite3.DatabaseError("the postings of a word are not as they were written")
        found = np.frombuffer(blocks, POSTING)
        found = found[found["key"].argsort(kind="stable")]
        counts, lengths = found["count"], found["length"]
        idf = log((self._nodes + 1) / len(found))
        weights = idf * (counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / self._mean_length)))
        return PostingList(found["key"].copy(), weights)


def _are_in(wanted: npt.NDArray[np.integer], ascending: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Return whether each value is in an ascending array."""
    return ascending.searchsorted(wanted, "right") > ascending.searchsorted(wanted)
