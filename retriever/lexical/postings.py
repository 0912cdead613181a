"""Which node holds which term how often: the arrays below the lexical index, merged and kept as .npy files.

Rows are nodes in the order of their keys; postings are sorted by term, then by row. One set of documents therefore has
one form, whether it was counted at once or patched a hundred times.
"""

import os
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pageindex.corpus import open_regular
from retriever.errors import SnapshotError
from retriever.store.files import writing_to

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

    def term(self, number: int) -> bytes:
        """Return the UTF-8 of one term."""
        starts = self.term_starts.data  # views give plain numbers, faster than arrays: a search asks for dozens
        return self.vocabulary.data[starts[number] : starts[number + 1]].tobytes()

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
