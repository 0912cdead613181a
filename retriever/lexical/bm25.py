"""Which node holds which term how often, as .npy files mapped into memory, and the scores of BM25+ by them.

Rows are nodes in the order of their keys; postings are sorted by term, then by row. One set of documents therefore has
one form, whether it was counted at once or patched a hundred times.

A node is scored by a sum over the question's tokens, and what a token adds depends on the node and its length alone. So
a question costs as much as its words are common: 2 ms instead of rank_bm25's 131 ms at 100,000 nodes. A test holds the
numbers to those of `rank_bm25.BM25Plus`; its delta is 0 here: it is added to all nodes, and so changes no order. They
are never negative, so that a word counts in a folder of two notes as well.
"""

import os
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from math import log, log1p
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from pageindex.corpus import open_regular
from retriever.errors import SnapshotError
from retriever.lexical.languages import LANGUAGES, detect_question, mark_language
from retriever.lexical.sections import mark_property
from retriever.store.files import writing_to

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Postings:
    """Counts of terms in n nodes: v terms, p postings (pairs of a term and a node that holds it)."""

    keys: IntArray  # (n,) int64, ascending: the node of each row
    lengths: IntArray  # (n,) int64: how many tokens the node has
    vocabulary: npt.NDArray[np.uint8]  # the UTF-8 of all terms, one after another, in the order of their bytes
    term_starts: IntArray  # (v + 1,) int64: term t is `vocabulary[term_starts[t]:term_starts[t + 1]]`
    starts: IntArray  # (v + 1,) int64: the postings of term t are `starts[t]:starts[t + 1]`
    rows: npt.NDArray[np.int32]  # (p,) int32, ascending within a term
    counts: npt.NDArray[np.int32]  # (p,) int32, at least 1: how often the node holds the term

    def terms(self) -> list[bytes]:
        vocabulary = self.vocabulary.tobytes()
        ends = self.term_starts.tolist()
        return [vocabulary[first:last] for first, last in pairwise(ends)]

    @cached_property
    def _views(self) -> tuple[memoryview, memoryview]:
        return self.vocabulary.data, self.term_starts.data  # give plain numbers, faster than arrays

    def term(self, number: int) -> bytes:
        """Return the UTF-8 of one term."""
        letters, starts = self._views
        return letters[starts[number] : starts[number + 1]].tobytes()

    def place(self, wanted: bytes) -> int:
        """Return the first term that is not before `wanted` in the order of bytes, by binary search."""
        return bisect_left(range(len(self.term_starts) - 1), wanted, key=self.term)

    def find(self, term: str) -> int | None:
        """Return the place of a term in the vocabulary; None where it is not in it."""
        wanted = term.encode()
        place = self.place(wanted)
        return place if place < len(self.term_starts) - 1 and self.term(place) == wanted else None


# The columns that are not int64.
_DTYPES: dict[str, type[np.generic]] = {"vocabulary": np.uint8, "rows": np.int32, "counts": np.int32}


def no_postings() -> Postings:
    empty = {field.name: np.empty(0, _DTYPES.get(field.name, np.int64)) for field in fields(Postings)}
    return Postings(**empty | {"term_starts": np.zeros(1, np.int64), "starts": np.zeros(1, np.int64)})


def merge_postings(older: Path | None, removed: Collection[int], added: Mapping[int, Sequence[str]]) -> Postings:
    """Return the postings of a folder without the nodes `removed` and with those `added`; None: of no others.

    The others are not counted again. SnapshotError where the folder cannot be read.
    """
    previous = load_postings(older) if older else no_postings()
    # A pair of a term and a row is one number, its code: `term * n + row`. Codes ascend as postings do, so that two
    # sets of postings are merged by merging their codes.
    dropped = np.isin(previous.keys, np.fromiter(removed, np.int64, len(removed)))

    # The rows: nodes that stay and new ones, by key.
    new_keys = np.array(sorted(added), np.int64)
    keys = np.sort(np.concatenate([previous.keys[~dropped], new_keys]))
    tokens = [added[key] for key in new_keys.tolist()]
    new_lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    lengths = np.empty(len(keys), np.int64)
    lengths[np.searchsorted(keys, previous.keys[~dropped])] = previous.lengths[~dropped]
    lengths[np.searchsorted(keys, new_keys)] = new_lengths

    # The terms, all of them in the order of their bytes.
    new_terms = {token: token.encode() for token in dict.fromkeys(chain.from_iterable(tokens))}
    old_terms = previous.terms()
    terms = sorted(old_terms + sorted(set(new_terms.values()) - set(old_terms)))  # two ascending runs: in linear time
    places = {term: place for place, term in enumerate(terms)}

    # The postings: those that stay, in the new numbering, and the counts of the new ones put between them.
    place_of_old = np.fromiter((places[term] for term in old_terms), np.int64, len(old_terms))
    row_of_old = np.searchsorted(keys, previous.keys)
    stays = ~dropped[previous.rows]
    codes = (np.repeat(place_of_old, np.diff(previous.starts)) * len(keys) + row_of_old[previous.rows])[stays]
    code_of = {token: places[term] * len(keys) for token, term in new_terms.items()}
    found = np.fromiter(map(code_of.__getitem__, chain.from_iterable(tokens)), np.int64, new_lengths.sum())
    found += np.repeat(np.searchsorted(keys, new_keys), new_lengths)
    new_codes, new_counts = np.unique(found, return_counts=True)
    counts = new_counts.astype(np.int32)
    if len(codes):
        at = np.searchsorted(codes, new_codes)
        counts, new_codes = np.insert(previous.counts[stays], at, counts), np.insert(codes, at, new_codes)
    return _assemble(keys, lengths, terms, new_codes, counts)


def _assemble(
    keys: IntArray, lengths: IntArray, terms: list[bytes], codes: IntArray, counts: npt.NDArray[np.int32]
) -> Postings:
    """Take codes apart again, and drop the terms that no node holds any more."""
    starts = np.searchsorted(codes, np.arange(len(terms) + 1) * len(keys))
    rows = (codes % max(1, len(keys))).astype(np.int32)
    alive = np.diff(starts) > 0
    terms = [term for term, lives in zip(terms, alive.tolist(), strict=True) if lives]
    sizes = np.fromiter(map(len, terms), np.int64, len(terms))
    return Postings(
        keys=keys,
        lengths=lengths,
        vocabulary=np.frombuffer(b"".join(terms), np.uint8),
        term_starts=np.concatenate([[0], np.cumsum(sizes)]),
        starts=np.concatenate([[0], starts[1:][alive]]),
        rows=rows,
        counts=counts,
    )


def build_postings(
    folder: Path, tokens: Mapping[int, Sequence[str]], older: Path | None = None, removed: Collection[int] = ()
) -> None:
    """Write postings into a folder that does not exist yet; out of older ones the same, byte for byte, as from scratch.

    Args:
        folder: of the new postings.
        tokens: of each node, by its key: of all nodes, or of those that the older postings lack.
        older: the folder of postings whose other nodes stay.
        removed: keys of its nodes that go; a changed node is in `tokens` as well.

    Raises:
        SnapshotError: the older postings cannot be read.
        StorageError: the new ones cannot be written.
    """
    postings = merge_postings(older, removed, tokens)
    with writing_to(folder):
        folder.mkdir(parents=True)
        for field in fields(Postings):
            np.save(folder / f"{field.name}.npy", getattr(postings, field.name), allow_pickle=False)


def load_postings(folder: Path) -> Postings:
    """Map the arrays into memory: nothing is read before it is used. SnapshotError if one cannot be read."""
    columns = {}
    for field in fields(Postings):
        path = folder / f"{field.name}.npy"
        try:
            os.close(open_regular(path))  # numpy would wait for a pipe, and follow a link
            # A plain array over the map: slicing numpy's own class for maps is ten times slower.
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
            columns[field.name] = np.asarray(mapped, _DTYPES.get(field.name, np.int64))
        except (OSError, EOFError, ValueError) as error:
            raise SnapshotError(f"{path}: cannot be read ({error}); index the documents again") from error
    return Postings(**columns)


# Scores.

K1, B = 1.5, 0.75  # as in BM25Plus
MOST_TERMS = 256  # whose weights are kept: 400 KB for a word of 50,000 nodes
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

    rows: npt.NDArray[np.integer]  # (p,) ascending: the places of their keys in an array that comes with it
    weights: FloatArray  # (p,): what the term adds to the score of each


# Of a token, in texts and in properties.
TokenPostings: TypeAlias = tuple[PostingList, PostingList]


class Bm25(ABC):
    """BM25 over posting lists, wherever they are kept: read-only."""

    def __init__(self, nodes: int, length: int, languages: Iterable[str]) -> None:
        """Take the number of nodes and of all their tokens, and the languages that documents are in."""
        self._nodes = nodes
        self._mean_length = length / max(1, nodes)
        self.languages = tuple(languages)
        """Of `LANGUAGES`: a text is compared with a question in all of them."""
        self._allowed: IntArray | None = None  # keys, ascending

    @abstractmethod
    def _read(self, tokens: Iterable[str]) -> tuple[IntArray, dict[str, TokenPostings]]:
        """Return node keys, ascending, and the postings of each token by rows of these."""

    def detect_question(self, question: str) -> tuple[str, ...]:
        """Return the languages, beside English, that a question is read in; always none where `languages` is empty."""
        return detect_question(question, self.languages, is_english=self.is_english)

    @cached_property
    def is_english(self) -> bool:
        """Whether documents are in English but for a few; then so is a question that does not say in which it is."""
        others = self.describe([mark_language(name) for name in self.languages]).values()
        return sum(term.documents for term in others) < SHARE_APART * self._nodes

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
        keys, lists = self._read(terms)
        columns = [in_texts.rows for in_texts, _ in lists.values()]
        rows: npt.NDArray[np.integer] = min(columns, key=len, default=np.empty(0, np.int32))
        for column in columns:
            rows = rows[_are_in(rows, column)]
        found: IntArray = keys[rows]
        return found

    def search(self, tokens: Sequence[str], limit: int) -> KeyRanking:
        """Return at most `limit` nodes that hold one of the tokens, best first; a repeated token counts as often."""
        return self.search_weighted(Counter(tokens), limit)[:limit]

    def search_weighted(self, counts: Mapping[str, float], limit: int) -> KeyRanking:
        """Do as `search`, with how often each token counts, which need not be a whole number, in `counts`.

        All nodes with the score of the last are returned too: keys only say in which order documents came.
        """
        keys, lists = self._read(counts)
        scores, is_candidate = np.zeros(len(keys)), np.zeros(len(keys), np.bool_)
        for token, postings in lists.items():
            for rows, weights in postings:
                scores[rows] += counts[token] * weights
                is_candidate[rows] = True
        candidates = np.flatnonzero(is_candidate)  # np.unique would import numpy.ma: 7 ms
        if self._allowed is not None:
            candidates = candidates[_are_in(keys[candidates], self._allowed)]
        if len(candidates) > limit:  # all that score at least as much as the last of the best
            found = scores[candidates]
            candidates = candidates[found >= np.partition(found, len(found) - limit)[len(found) - limit]]
        # Equal scores in the order of the rows, which is that of the keys.
        best = candidates[np.argsort(-scores[candidates], kind="stable")]
        return tuple(zip(keys[best].tolist(), scores[best].tolist(), strict=True))

    def coverage(
        self, tokens: Sequence[str], node_keys: Sequence[int], weights: Mapping[str, float] = MappingProxyType({})
    ) -> list[float]:
        """Return the share of the question that each node covers, 0 to 1: the rarity of its words over that of all.

        Args:
            tokens: of the question.
            node_keys: the sections.
            weights: of tokens that count less than 1.
        """
        keys, lists = self._read(tokens)
        wanted = np.array(node_keys, np.int64)
        rows = keys.searchsorted(wanted)
        covered, total = np.zeros(len(wanted)), 0.0
        for token, postings in lists.items():
            rarity = weights.get(token, 1.0) * self._describe(postings).rarity
            is_held = np.zeros(len(wanted), np.bool_)
            for column in postings:
                if len(column.rows):  # few are in properties
                    is_held |= _are_in(rows, column.rows)
            covered += rarity * is_held
            total += rarity
        shares: list[float] = (covered * _are_in(wanted, keys) / total if total else covered).tolist()
        return shares

    def describe(self, tokens: Collection[str]) -> dict[str, QuestionTerm]:
        """Return what is known of each of the tokens, in their order."""
        return {token: self._describe(postings) for token, postings in self._read(tokens)[1].items()}

    def _describe(self, postings: TokenPostings) -> QuestionTerm:
        documents = max(len(column.rows) for column in postings)
        frequency = max(1, documents)
        return QuestionTerm(documents, log1p((max(1, self._nodes) - frequency + 0.5) / (frequency + 0.5)))

    def _weigh(self, counts: npt.NDArray[np.integer], lengths: npt.NDArray[np.integer]) -> FloatArray:
        """Return what a term adds to the score of each node that holds it, as often as `counts` says.

        Operation by operation as rank_bm25 computes it.
        """
        if not len(counts):
            return np.empty(0)
        idf = log((self._nodes + 1) / len(counts))
        weights: FloatArray = idf * (counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / self._mean_length)))
        return weights


def _are_in(wanted: npt.NDArray[np.integer], ascending: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Return whether each value is in an ascending array."""
    return ascending.searchsorted(wanted, "right") > ascending.searchsorted(wanted)


class LexicalIndex(Bm25):
    """The open index of a snapshot, mapped into memory; safe to share between threads."""

    def __init__(self, postings: Postings) -> None:
        marked = (name for name in LANGUAGES if postings.find(mark_language(name)) is not None)
        super().__init__(len(postings.keys), int(postings.lengths.sum()), marked)
        self._postings = postings
        self._starts = postings.starts.data  # a view gives plain Python numbers, four times faster than an array
        self._read_term = lru_cache(MOST_TERMS)(
            self._find_postings
        )  # one question asks ten times for each of its words

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map the index into memory, 1 ms whatever its size; SnapshotError if it cannot be read."""
        return cls(load_postings(folder))

    def __len__(self) -> int:
        return len(self._postings.keys)

    def _read(self, tokens: Iterable[str]) -> tuple[IntArray, dict[str, TokenPostings]]:
        lists = {token: (self._read_term(token), self._read_term(mark_property(token))) for token in tokens}
        return self._postings.keys, lists

    def _find_postings(self, term: str) -> PostingList:
        number = self._postings.find(term)
        column = slice(0, 0) if number is None else slice(self._starts[number], self._starts[number + 1])
        rows = self._postings.rows[column]
        return PostingList(rows, self._weigh(self._postings.counts[column], self._postings.lengths[rows]))
