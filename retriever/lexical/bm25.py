"""BM25 over nodes: rank_bm25.BM25Okapi's scores, kept as columns and mapped into memory.

BM25Okapi scores a node by a sum over the question's tokens, and what a token adds depends on the node alone. So each
posting carries that number (`weights.npy`), and a question costs as much as its words are common: 0.04 ms instead of
131 ms at 100,000 nodes. The numbers are derived from the class itself; a test holds them to `get_scores`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from math import log1p
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from retriever.files import writing_to
from retriever.lexical.languages import LANGUAGES, detect_question, mark_language
from retriever.lexical.postings import (
    IntArray,
    Postings,
    load_column,
    load_postings,
    merge_postings,
    no_postings,
    save_column,
    save_postings,
)
from retriever.lexical.properties import mark_property

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class QuestionTerm:
    """What the documents know of a word of the question."""

    documents: int  # how many nodes hold it; 0 for a word that no document has
    # ln(1 + (n - documents + .5) / (documents + .5)), above 0: its inverse document frequency in the form that no word
    # makes negative (Lucene's). BM25Okapi's own may be, and a share of a sum needs parts above 0. A word that no
    # document has counts like one in a single node: it is at least as rare, and a typo must not outweigh the rest.
    rarity: float


# (node key, BM25Okapi score), best first, ties by key; only nodes with at least one word of the question. The score has
# no upper bound, and can be 0 or below in small folders where every node holds the word.
KeyRanking: TypeAlias = tuple[tuple[int, float], ...]


class LexicalIndex:
    """The open index: read-only, safe to share between threads."""

    def __init__(self, postings: Postings, weights: FloatArray, nodes: int | None = None) -> None:
        """Take postings; `nodes` is how many there are of all, where these are the postings of a few terms."""
        self._postings = postings
        self._weights = weights
        self._nodes = len(postings.keys) if nodes is None else nodes
        self._allowed: npt.NDArray[np.bool_] | None = None  # by row, which nodes may be found
        self._starts = postings.starts.data  # a view gives plain Python numbers, four times faster than an array

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map the index into memory, 1 ms whatever its size; SnapshotError if it cannot be read."""
        return cls(load_postings(folder), load_column(folder, "weights", np.float64))

    def __len__(self) -> int:
        return len(self._postings.keys)

    @property
    def keys(self) -> IntArray:
        """Return the keys of all nodes, ascending."""
        return self._postings.keys

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Those of `LANGUAGES` that documents are in: a text is compared with a question in all of them."""
        return tuple(name for name in LANGUAGES if self._postings.find(mark_language(name)) is not None)

    def detect_question(self, question: str) -> tuple[str, ...]:
        """The languages that a question is read in, beside English; the same for each question where there is none."""
        return detect_question(question, self.languages) if self.languages else ()

    def restrict(self, rows: npt.NDArray[np.bool_]) -> Self:
        """Return the same index, in which only some nodes are found; how rare a word is stays that of all nodes.

        Args:
            rows: of `keys`, which are found.
        """
        part = copy(self)
        part._allowed = rows
        return part

    def find_holding(self, terms: Collection[str]) -> IntArray:
        """Return the keys of the nodes that hold every one of the terms, ascending; of none where no term is given."""
        self._load(terms)
        columns = [self._postings.rows[self._column(self._postings.find(term))] for term in dict.fromkeys(terms)]
        rows = min(columns, key=len, default=np.empty(0, np.int32))
        for column in columns:
            rows = rows[_locate(rows, column)[0]]
        return self._postings.keys[rows]

    def search(self, tokens: Sequence[str], limit: int) -> KeyRanking:
        """The best nodes, `limit` at most, that hold at least one of the tokens; a repeated token counts as often."""
        return self.search_weighted(Counter(tokens), limit)

    def search_weighted(self, counts: Mapping[str, float], limit: int, *, with_ties: bool = False) -> KeyRanking:
        """As `search`, for tokens that count as often as `counts` says, which need not be a whole number.

        With ties, all nodes come that have the score of the last: keys say in which order documents came, no more.
        """
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        self._load(counts)
        columns = [(column, count) for token, count in counts.items() for column in self._find(token)]
        scores = np.zeros(len(self))
        for column, count in columns:
            weights = self._weights[column]
            np.add.at(scores, self._postings.rows[column], weights if count == 1 else count * weights)
        rows = self._candidates(scores, [column for column, _ in columns], limit)
        # Equal scores in the order of the rows, which is that of the keys.
        order = np.argsort(-scores[rows], kind="stable")
        if with_ties and len(order) > limit:
            limit = int((scores[rows] >= scores[rows[order[limit - 1]]]).sum())
        order = order[:limit]
        return tuple(zip(self._postings.keys[rows[order]].tolist(), scores[rows[order]].tolist(), strict=True))

    def coverage(self, tokens: Sequence[str], node_keys: Sequence[int]) -> list[float]:
        """Which share of the question each node speaks of, 0 to 1: the rarity of its words over that of all words."""
        self._load(tokens)
        wanted = np.array(node_keys, np.int64)
        there, rows = _locate(wanted, self._postings.keys)
        covered = np.zeros(len(rows))
        total = 0.0
        for token in dict.fromkeys(tokens):
            columns = self._find(token)
            rarity = self._describe(columns).rarity
            covered += rarity * np.any([_locate(rows, self._postings.rows[column])[0] for column in columns], axis=0)
            total += rarity
        shares: list[float] = (covered * there / total if total else covered).tolist()
        return shares

    def describe(self, tokens: Collection[str]) -> dict[str, QuestionTerm]:
        """Return what is known of each of the tokens, in their order."""
        self._load(tokens)
        return {token: self._describe(self._find(token)) for token in tokens}

    def _load(self, terms: Iterable[str]) -> None:
        """Read the postings of terms, where they are not all there."""

    def _column(self, number: int | None) -> slice:
        if number is None:
            return slice(0, 0)
        return slice(self._starts[number], self._starts[number + 1])

    def _find(self, token: str) -> tuple[slice, slice]:
        """Return the postings of a word in texts, and in properties."""
        return (
            self._column(self._postings.find(token)),
            self._column(self._postings.find(mark_property(token))),
        )

    def _describe(self, columns: Sequence[slice]) -> QuestionTerm:
        documents = max(column.stop - column.start for column in columns)
        frequency = max(1, documents)
        return QuestionTerm(documents, log1p((max(1, self._nodes) - frequency + 0.5) / (frequency + 0.5)))

    def _candidates(self, scores: FloatArray, columns: Sequence[slice], limit: int) -> IntArray:
        """Rows among which the `limit` best are, ascending; each holds a word of the question."""
        is_candidate = np.zeros(len(scores), dtype=np.bool_)  # np.unique would import numpy.ma: 7 ms
        for column in columns:
            is_candidate[self._postings.rows[column]] = True
        if self._allowed is not None:
            is_candidate &= self._allowed
        rows = np.flatnonzero(is_candidate)
        if len(rows) <= limit:
            return rows
        found = scores[rows]
        floor: np.float64 = np.partition(found, len(found) - limit)[len(found) - limit]
        best: IntArray = rows[found >= floor]
        return best


def build_lexical(folder: Path, documents: Mapping[int, Sequence[str]]) -> None:
    """Make the index of these tokens, by node key, in a folder that does not exist yet; StorageError."""
    _save(folder, merge_postings(no_postings(), (), documents))


def patch_lexical(source: Path, target: Path, removed: Collection[int], added: Mapping[int, Sequence[str]]) -> None:
    """Make a new index out of an older one: the same, byte for byte, as building it from all documents.

    `removed` and `added` by node key; a changed node is in both. Raises SnapshotError when `source` cannot be read;
    StorageError.
    """
    _save(target, merge_postings(LexicalIndex.open(source)._postings, removed, added))


def _locate(
    wanted: npt.NDArray[np.integer], ascending: npt.NDArray[np.integer]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Return whether each value is in an ascending array, and where it is or would be."""
    places = np.searchsorted(ascending, wanted)
    there = np.zeros(len(wanted), np.bool_)
    inside = places < len(ascending)
    there[inside] = ascending[places[inside]] == wanted[inside]
    return there, places


def _save(folder: Path, postings: Postings) -> None:
    weights = compute_weights(postings)
    with writing_to(folder):
        folder.mkdir(parents=True)
    save_postings(postings, folder)
    save_column(folder, "weights", weights)


def compute_weights(postings: Postings) -> FloatArray:
    """Return (p,) float64: what each posting adds to `BM25Okapi.get_scores` for one occurrence in the question."""
    # The formula is that of `get_scores`, operation by operation; its constants and the inverse document frequencies,
    # with their floor for words that most nodes hold, come from an instance that is fed counts instead of texts.
    if not len(postings.rows):
        return np.empty(0)
    from rank_bm25 import BM25Okapi

    class Counted(BM25Okapi):  # type: ignore[misc]  # rank_bm25 ships no types
        def _initialize(self, corpus: Postings) -> dict[int, int]:
            self.corpus_size = len(corpus.keys)
            self.avgdl = int(corpus.lengths.sum()) / self.corpus_size
            return dict(enumerate(np.diff(corpus.starts).tolist()))

    bm25 = Counted(postings)
    sizes = np.diff(postings.starts)
    norms = normalize_lengths(postings.lengths, bm25.avgdl)[postings.rows]
    idf = np.repeat(np.fromiter(bm25.idf.values(), np.float64, len(sizes)), sizes)
    return weigh_postings(idf, postings.counts, norms)


K1, B = 1.5, 0.75  # of BM25Okapi


def normalize_lengths(lengths: npt.NDArray[np.integer], mean_length: float) -> FloatArray:
    """Return (n,) float64: what the length of a node stands for beside a count, as `get_scores` computes it."""
    return np.asarray(K1 * (1 - B + B * lengths / mean_length), np.float64)


def weigh_postings(idf: FloatArray | float, counts: npt.NDArray[np.integer], norms: FloatArray) -> FloatArray:
    """(p,) float64: what each posting adds, as `get_scores` computes it; of `norms`, those of the nodes, it is made."""
    norms += counts  # in place: a large index has many postings
    np.divide(counts * (K1 + 1), norms, out=norms)
    norms *= idf
    return norms
