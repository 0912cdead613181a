"""Which node holds which term how often: the arrays below the lexical index, merged and kept as .npy files.

Rows are nodes in the order of their keys; postings are sorted by term, then by row. One set of documents therefore has
one form, whether it was counted at once or patched a hundred times.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, pairwise
from pathlib import Path
from tokenize import TokenError

import numpy as np
import numpy.typing as npt

from pageindex.regular_file import require_regular
from retriever.disk import writing_to
from retriever.errors import GenerationError

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Postings:
    """Counts of terms in n nodes: v terms, p postings (pairs of a term and a node that holds it)."""

    keys: IntArray
    """(n,) int64, ascending: the node of each row."""
    lengths: IntArray
    """(n,) int64: how many tokens the node has."""
    vocabulary: npt.NDArray[np.uint8]
    """The UTF-8 of all terms, one after another, in the order of their bytes."""
    term_starts: IntArray
    """(v + 1,) int64: term t is `vocabulary[term_starts[t]:term_starts[t + 1]]`."""
    starts: IntArray
    """(v + 1,) int64: the postings of term t are `starts[t]:starts[t + 1]`."""
    rows: npt.NDArray[np.int32]
    """(p,) int32, ascending within a term."""
    counts: npt.NDArray[np.int32]
    """(p,) int32, at least 1: how often the node holds the term."""

    def terms(self) -> list[bytes]:
        """The UTF-8 of each term, ascending."""
        vocabulary = self.vocabulary.tobytes()
        ends = self.term_starts.tolist()
        return [vocabulary[first:last] for first, last in pairwise(ends)]

    def check(self) -> None:
        """Check that the arrays fit together, in microseconds: their contents are not read.

        Raises:
            GenerationError: they do not.
        """
        sound = (
            len(self.keys) == len(self.lengths)
            and len(self.rows) == len(self.counts)
            and len(self.starts) == len(self.term_starts) >= 1
            and self.starts[0] == self.term_starts[0] == 0
            and self.starts[-1] == len(self.rows)
            and self.term_starts[-1] == len(self.vocabulary)
        )
        if not sound:
            raise GenerationError("the lexical index does not add up; index the documents again")

    def check_contents(self) -> None:
        """Check every number that can be checked without the documents.

        Raises:
            GenerationError: one is out of order, out of range, or the counts of a node do not sum to its length.
        """
        self.check()
        terms = self.terms()
        sound = (
            bool(np.all(np.diff(self.keys) > 0))
            and all(first < second for first, second in pairwise(terms))
            and bool(np.all(np.diff(self.starts) > 0))
            and bool(np.all((self.rows >= 0) & (self.rows < max(1, len(self.keys))) & (self.counts > 0)))
        )
        if sound:
            codes = _codes(_owners(self.starts), self.rows, len(self.keys))
            sums = np.bincount(self.rows, weights=self.counts, minlength=len(self.keys))
            sound = bool(np.all(np.diff(codes) > 0)) and np.array_equal(sums, self.lengths)
        if not sound:
            raise GenerationError("the lexical index is damaged; index the documents again")


_DTYPES: dict[str, type[np.generic]] = {"vocabulary": np.uint8, "rows": np.int32, "counts": np.int32}
"""The columns that are not int64."""


def no_postings() -> Postings:
    """Of no documents."""
    empty = {field.name: np.empty(0, _DTYPES.get(field.name, np.int64)) for field in fields(Postings)}
    return Postings(**empty | {"term_starts": np.zeros(1, np.int64), "starts": np.zeros(1, np.int64)})


def merged(previous: Postings, removed: Collection[int], added: Mapping[int, Sequence[str]]) -> Postings:
    """The postings without some nodes and with others; nodes that stay are not counted again.

    Args:
        previous: what is there.
        removed: keys of nodes to drop; a changed node is dropped and added.
        added: the tokens of each new node, by its key.

    Raises:
        GenerationError: a key to drop is not there, or a key to add is: `previous` is of other documents.
    """
    kept = _kept_rows(previous, removed, added)
    new_keys = np.array(sorted(added), np.int64)
    keys = np.sort(np.concatenate([previous.keys[kept], new_keys]))
    tokens = [added[key] for key in new_keys.tolist()]
    new_lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    lengths = np.empty(len(keys), np.int64)
    lengths[np.searchsorted(keys, previous.keys[kept])] = previous.lengths[kept]
    lengths[np.searchsorted(keys, new_keys)] = new_lengths

    old_terms = previous.terms()
    numbers, fresh = _numbered(tokens)
    terms = sorted(old_terms + sorted(fresh.keys() - set(old_terms)))  # two ascending runs: merged in linear time
    places = {term: place for place, term in enumerate(terms)}
    old_codes, old_counts = _moved(previous, kept, _placed(old_terms, places), keys)
    new_rows = np.repeat(np.searchsorted(keys, new_keys), new_lengths)
    new_codes, new_counts = np.unique(
        _codes(_placed(list(fresh), places)[numbers], new_rows, len(keys)), return_counts=True
    )
    at = np.searchsorted(old_codes, new_codes)
    codes = np.insert(old_codes, at, new_codes)
    return _assembled(keys, lengths, terms, codes, np.insert(old_counts, at, new_counts.astype(np.int32)))


def _kept_rows(
    previous: Postings, removed: Collection[int], added: Mapping[int, Sequence[str]]
) -> npt.NDArray[np.bool_]:
    """(n,) bool: the rows of `previous` that stay."""
    dropped = np.isin(previous.keys, np.fromiter(removed, np.int64, len(removed)))
    taken = np.isin(np.fromiter(added, np.int64, len(added)), previous.keys[~dropped])
    if dropped.sum() != len(set(removed)) or taken.any():
        raise GenerationError("the lexical index is of other documents than the change; index the documents again")
    return ~dropped


def _numbered(documents: Sequence[Sequence[str]]) -> tuple[IntArray, dict[bytes, int]]:
    """The number of each token in the order of the documents, and the terms in the order of their numbers."""
    numbers: dict[str, int] = {}
    sequence = np.fromiter(
        (numbers.setdefault(token, len(numbers)) for token in chain.from_iterable(documents)), np.int64
    )
    # A lone surrogate is no UTF-8, but no reason to fail either.
    return sequence, {term.encode("utf-8", "surrogatepass"): number for term, number in numbers.items()}


def _placed(terms: Sequence[bytes], places: Mapping[bytes, int]) -> IntArray:
    return np.fromiter((places[term] for term in terms), np.int64, len(terms))


def _moved(
    previous: Postings, kept: npt.NDArray[np.bool_], places: IntArray, keys: IntArray
) -> tuple[IntArray, npt.NDArray[np.int32]]:
    """The codes and counts of the postings that stay, in the new numbering of terms and rows."""
    new_row = np.searchsorted(keys, previous.keys)
    codes = _codes(places[_owners(previous.starts)], new_row[previous.rows], len(keys))
    if kept.all():
        return codes, previous.counts
    stays = kept[previous.rows]
    return codes[stays], previous.counts[stays]


def _codes(terms: IntArray, rows: npt.NDArray[np.integer], node_count: int) -> IntArray:
    """One number for a pair of term and row, in the order of the pairs."""
    return terms * node_count + rows


def _owners(starts: IntArray) -> IntArray:
    """(p,) int64: the term of each posting."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _assembled(
    keys: IntArray, lengths: IntArray, terms: list[bytes], codes: IntArray, counts: npt.NDArray[np.int32]
) -> Postings:
    """Take codes apart again, and drop the terms that no node holds any more."""
    starts = np.searchsorted(codes, np.arange(len(terms) + 1) * len(keys))
    rows = (codes - _owners(starts) * len(keys)).astype(np.int32)
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


def save_column(folder: Path, name: str, values: npt.NDArray[np.generic]) -> None:
    """Write one array to `name`.npy.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    with writing_to(folder):
        np.save(folder / f"{name}.npy", values, allow_pickle=False)


def load_column(folder: Path, name: str, dtype: type[np.generic]) -> npt.NDArray[np.generic]:
    """Map `name`.npy into memory: nothing is read before it is used.

    Raises:
        GenerationError: there is no such file, or it is no whole one-dimensional array of this type.
    """
    path = folder / f"{name}.npy"
    try:
        require_regular(path)
        # A plain array over the map: slicing numpy's own class for maps is ten times slower.
        values: npt.NDArray[np.generic] = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, EOFError, ValueError, TypeError, SyntaxError, TokenError, OverflowError) as error:
        # All but the first come from a header that is cut or overwritten.
        raise GenerationError(f"{path}: cannot be read ({error}); index the documents again") from error
    if values.ndim != 1 or values.dtype != dtype:
        raise GenerationError(f"{path}: holds something else; index the documents again")
    return values


def save(postings: Postings, folder: Path) -> None:
    """Write one file for each array into a folder that exists.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    for field in fields(Postings):
        save_column(folder, field.name, getattr(postings, field.name))


def load(folder: Path) -> Postings:
    """Map the arrays into memory.

    Raises:
        GenerationError: a file is missing or damaged, or the arrays do not fit together.
    """
    columns = {
        field.name: load_column(folder, field.name, _DTYPES.get(field.name, np.int64)) for field in fields(Postings)
    }
    postings = Postings(**columns)  # type: ignore[arg-type]  # load_column has checked each type
    postings.check()
    return postings
