"""Nearest vectors of very many: by the signs of their numbers first, then the best of them by the vectors themselves.

    keys.npy       (n,) the chunk of each vector, ascending
    places.npy     (n,) where index.sqlite has the vector
    signs.npy      (words, n), bit by bit whether a number of the vector is positive: 48 bytes for 384 numbers
    manifest.json  written last: which snapshot the vectors are of, and checksums

The folder is mapped into memory. Each step of a search looks at fewer vectors more closely: how many signs differ from
the question's (the Hamming distance), then what those signs weigh in the question, then the cosines. What is found
depends on the vectors alone, not on the order in which they came.

Charikar, Similarity Estimation Techniques from Rounding Algorithms (STOC 2002), has the signs; a question in a few
bits, compared plane by plane, is of Gao and Long, RaBitQ (SIGMOD 2024), whose random rotation changed nothing here.
"""

import json
import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from retriever.errors import SnapshotError
from retriever.files import writing_to
from retriever.store.columns import load_column, save_column
from retriever.store.manifest import MANIFEST_NAME, check_contents, check_sizes, describe_files
from retriever.types import FloatMatrix
from retriever.vectors.exact import Neighbours, check_queries
from retriever.vectors.manifest import VectorsManifest

WORD = 64  # bits
# After the Hamming distance so many times the square root of the number of vectors are looked at: how far the nearest
# ones fall behind by it grows more slowly. Of the 50 nearest, 999 in 1,000 are among the first 1,500 of 4,534 vectors,
# and among the first 3,200 of 36,272. With both steps .9995 of the 50 nearest of 59,000 are found, and all of the 10.
NEAR = 30
COMPARED = 20  # so many times the wanted ones are compared exactly
WEIGHT_BITS = 4  # of the weight of a sign
BLOCK = 32_768  # vectors: what is made of one word of each fits into the cache of a core
TINY = 1e-30  # in place of the length of a question of zeros, which is near nothing
WORDS_IN_A_BYTE = 3  # whose bits, counted together, are fewer than 256

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
"""(words, n): the bits of n vectors, word by word."""
ReadNumbers = Callable[[IntArray], npt.NDArray[np.int8]]
"""Places, ascending, to the vectors there, (n, d), each of a length of its own; SnapshotError where there is none."""


class SignIndex:
    """The open folder: read-only; used by one thread at a time, as what it reads vectors from."""

    def __init__(self, keys: IntArray, places: IntArray, signs: Words, dimension: int, read: ReadNumbers) -> None:
        self.keys = keys
        self.places = places
        self.signs = signs
        self._dimension = dimension
        self._read = read
        self._rows: IntArray | None = None  # those that may be found

    @classmethod
    def open(cls, folder: Path, snapshot: str, read: ReadNumbers) -> Self:
        """Checks the folder and maps it: 20 ms a million vectors; SnapshotError if it is damaged or of another one."""
        manifest = VectorsManifest.read(folder)
        if manifest.snapshot != snapshot:
            raise SnapshotError(f"{folder}: the signs are of another snapshot; index the documents again")
        try:
            check_sizes(folder, manifest.files)
        except OSError as error:
            raise SnapshotError(f"{folder} cannot be read ({error.strerror}); index the documents again") from error
        check_contents(folder, manifest.files)
        keys, places = load_column(folder, "keys", np.int64), load_column(folder, "places", np.int64)
        signs = load_column(folder, "signs", np.uint64)
        words = count_words(manifest.dimension)
        if not len(keys) == len(places) == manifest.count or len(signs) != words * manifest.count:
            raise SnapshotError(f"{folder}: the signs do not add up; index the documents again")
        return cls(keys, places, signs.reshape(words, -1), manifest.dimension, read)

    def __len__(self) -> int:
        return len(self.keys) if self._rows is None else len(self._rows)

    def restrict(self, rows: npt.NDArray[np.bool_]) -> Self:
        """The same vectors, of which only those of these rows are found."""
        part = copy(self)
        part._rows = np.flatnonzero(rows)
        return part

    def search(self, queries: FloatMatrix, limit: int) -> list[Neighbours]:
        """As `VectorSearch.search`; approximate where there are more than 20 times `limit` vectors."""
        check_queries(queries, limit, self._dimension)
        return [self._search(query, limit) for query in queries]

    def _search(self, query: npt.NDArray[np.float32], limit: int) -> Neighbours:
        wanted = COMPARED * limit
        rows = np.arange(len(self.keys)) if self._rows is None else self._rows
        if len(rows) > wanted:
            asked = pack_signs(query[np.newaxis])
            signs = self.signs if self._rows is None else self.signs.take(rows, axis=1)
            near = _lowest(count_differing(signs, asked), max(wanted, NEAR * math.isqrt(len(rows))))
            differing = signs.take(near, axis=1) ^ asked
            rows = rows[near[_lowest(weigh_differing(differing, query), wanted)]]
        if not len(rows):
            return []
        rows = rows[np.argsort(self.places[rows])]  # as they lie in the file
        numbers = self._read(self.places[rows]).astype(np.float32)
        lengths = np.sqrt(np.vecdot(numbers, numbers)) * max(float(np.linalg.norm(query)), TINY)
        cosines = np.clip(np.vecdot(numbers, query) / lengths, -1, 1)
        best = np.lexsort((self.keys[rows], -cosines))[:limit]
        return [(int(self.keys[rows[place]]), float(cosines[place])) for place in best]

    def verify(self, keys: Sequence[int], matrix: FloatMatrix) -> None:
        """Compares with the truth; SnapshotError where the keys or the signs are those of other vectors."""
        if not np.array_equal(self.keys, keys) or not np.array_equal(self.signs, pack_signs(matrix)):
            raise SnapshotError("the signs are of other vectors than the index has; index the documents again")

    def close(self) -> None:
        """Nothing to release: the maps go with the object."""


def build_signs(
    folder: Path,
    manifest: VectorsManifest,
    keys: IntArray,
    places: IntArray,
    read: ReadNumbers,
    source: Path | None = None,
) -> None:
    """Makes the folder, out of an older one where that has a chunk already: its text, and so its vector, is the same.

    Args:
        folder: is made.
        manifest: which snapshot and encoder these are of, how many, and of which length.
        keys: (n,) of the chunks, ascending; a key stands for one text for ever.
        places: (n,) of their vectors.
        read: gives those that the older folder does not have.
        source: an older folder; one that cannot be used is left out.

    Raises:
        StorageError: the disk takes no more.
        SnapshotError: a vector is not there.
    """
    signs = np.zeros((count_words(manifest.dimension), len(keys)), np.uint64)
    is_new = np.ones(len(keys), np.bool_)
    if source is not None and (older := _open_older(source, manifest)) is not None and len(older.keys):
        at = np.minimum(np.searchsorted(older.keys, keys), len(older.keys) - 1)
        is_new = older.keys[at] != keys
        signs[:, ~is_new] = older.signs[:, at[~is_new]]
    new = np.flatnonzero(is_new)
    new = new[np.argsort(places[new])]
    for first in range(0, len(new), BLOCK):
        rows = new[first : first + BLOCK]
        signs[:, rows] = pack_signs(read(places[rows]))
    with writing_to(folder):
        folder.mkdir(parents=True)
        save_column(folder, "keys", keys)
        save_column(folder, "places", places)
        save_column(folder, "signs", signs.ravel())
        manifest = VectorsManifest(**asdict(manifest) | {"files": describe_files(folder, folder.iterdir())})
        (folder / MANIFEST_NAME).write_text(json.dumps(asdict(manifest)), encoding="utf-8")


def _open_older(source: Path, manifest: VectorsManifest) -> SignIndex | None:
    try:
        older = VectorsManifest.read(source)
        if (older.fingerprint, older.dimension) != (manifest.fingerprint, manifest.dimension):
            return None
        return SignIndex.open(source, older.snapshot, lambda places: np.empty((len(places), 0), np.int8))
    except SnapshotError:
        return None


def count_words(dimension: int) -> int:
    """How many words the signs of so many numbers take."""
    return -(-dimension // WORD)


def pack_signs(matrix: npt.NDArray[np.generic]) -> Words:
    """(words, n): which numbers of (n, d) are positive; bits beyond d are 0."""
    packed = np.packbits(np.asarray(matrix) > 0, axis=1)
    padded = np.zeros((len(matrix), count_words(matrix.shape[1]) * WORD // 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(padded.view(np.uint64).T)


def count_differing(signs: Words, asked: Words) -> npt.NDArray[np.uint16]:
    """(n,) the Hamming distances of n vectors from one, (words, 1)."""
    distances = np.empty(signs.shape[1], np.uint16)
    for first in range(0, len(distances), BLOCK):
        _count_bits(signs[:, first : first + BLOCK] ^ asked, distances[first : first + BLOCK])
    return distances


def weigh_differing(differing: Words, query: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """(n,) how large the question's numbers are where its signs differ from a vector's, in whole steps of their range.

    The product of the question with the signs of a vector is the sum of all its magnitudes, less twice this.
    """
    magnitudes = np.abs(query)
    steps = np.rint(magnitudes * ((2**WEIGHT_BITS - 1) / max(float(magnitudes.max()), TINY))).astype(np.uint8)
    weights, counts = np.zeros(differing.shape[1], np.int32), np.empty(differing.shape[1], np.uint16)
    for bit in range(WEIGHT_BITS):
        _count_bits(differing & pack_signs(steps[np.newaxis] >> bit & 1), counts)
        weights += counts.astype(np.int32) << bit
    return weights


def _count_bits(words: Words, into: npt.NDArray[np.uint16]) -> None:
    """How many bits of each column are set; sums of bytes are four times as fast as those of numbers of two bytes."""
    into[:] = 0
    counts = np.bitwise_count(words)
    for first in range(0, len(counts), WORDS_IN_A_BYTE):
        into += counts[first : first + WORDS_IN_A_BYTE].sum(axis=0, dtype=np.uint8)


def _lowest(values: npt.NDArray[np.integer], count: int) -> IntArray:
    """The places of the `count` lowest of some small numbers from 0, and of all that equal the last of these."""
    if count >= len(values):
        return np.arange(len(values))
    last = np.searchsorted(np.cumsum(np.bincount(values)), count)
    return np.flatnonzero(values <= last)
