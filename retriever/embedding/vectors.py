"""Nearest vectors: by looking at all of them, and in ChromaDB.

An exact scan takes 3 ms a question at 20,000 vectors of 384 numbers, 30 ms at 200,000. A folder of ChromaDB is written
by one writer, then only read:

    chroma.sqlite3    what is in it
    UUID/             the files of vectors

Neither the current folder nor the environment configures it, and it opens no folder that is not whole.
"""

import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from retriever.errors import ReadOnlyError, RetrieverError, SnapshotError, StorageError
from retriever.types import FloatMatrix, WholeMatrix

if TYPE_CHECKING:
    from types import ModuleType

    from chromadb.api.client import Client


BLOCK = 512  # vectors that are made float32 at once, which fit into the cache of a core


class VectorSearch(ABC):
    """Vectors by keys, and those that are nearest to a question."""

    @abstractmethod
    def search(self, query: FloatMatrix, limit: int) -> list[int]:
        """Return the keys of the vectors that are nearest to a query, (1, d), in any order; all if `limit` is more."""

    def close(self) -> None:
        """Release files and memory."""
        return


class ExactIndex(VectorSearch):
    """The exact cosine similarity to every vector; safe to share between threads."""

    def __init__(self, keys: Sequence[int], matrix: "FloatMatrix | WholeMatrix") -> None:
        """Search an (n, d) matrix, a key for each row, ascending; rows of any length but 0."""
        self._keys = keys
        self._matrix = matrix
        self._lengths = self._measure(lambda block: np.linalg.norm(block, axis=1))

    def search(self, query: FloatMatrix, limit: int) -> list[int]:
        """Return the keys, best first, ties by key.

        >>> index = ExactIndex([7, 8, 9], np.array([[1, 0], [0, 1], [2, 0]], np.float32))
        >>> index.search(np.array([[1, 0]]), 2), index.search(np.array([[0, 1]]), 9)
        ([7, 9], [8, 7, 9])
        """
        # Not as a product of matrices: OpenBLAS runs that on all cores, and its threads then wait in a loop for another
        # one, 20 ms of processor time for each question. This is one thread, and no slower.
        nearness = self._measure(lambda block: np.vecdot(block, query[0])) / self._lengths
        least = np.partition(nearness, -limit)[-limit] if limit < len(nearness) else -np.inf
        rows = np.flatnonzero(nearness >= least)
        best = rows[np.argsort(-nearness[rows], kind="stable")][:limit]
        return [self._keys[row] for row in best]

    def _measure(self, measure: Callable[[FloatMatrix], npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
        """Return a number for each vector."""
        starts = range(0, len(self._matrix), BLOCK)
        blocks = (self._matrix[start : start + BLOCK].astype(np.float32, copy=False) for start in starts)
        return np.concatenate([np.empty(0, np.float32), *map(measure, blocks)])


# In ChromaDB.

FULLEST_BATCH = 5_000  # vectors: ChromaDB takes 5,461 at once, and smaller batches take longer for each

# Readers of one folder share what ChromaDB opened for the first of them, and it counts them without a lock: of two that
# open it at the same time it would forget one, files and memory.
_lock = threading.Lock()


@cache
def import_chromadb() -> "ModuleType":
    """Import the package in a folder of ours, for 0.6 s: it reads `.env` in the current one, and obeys it.

    A folder of documents could otherwise send every text to a host of its choice, or keep the package from loading.
    """
    with chdir(Path(__file__).parent), ExitStack() as stack:
        try:
            Path.home()
        except RuntimeError:  # its modules ask where it would be, for what is not used here
            os.environ["HOME"] = os.devnull
            stack.callback(os.environ.pop, "HOME")
        import chromadb
    return chromadb


@contextmanager
def chroma_errors(folder: Path, *, writing: bool = False) -> Iterator[None]:
    """Turn whatever ChromaDB raises into a SnapshotError; when `writing`, into a StorageError.

    >>> class PanicException(BaseException):
    ...     pass
    >>> with chroma_errors(Path("chroma")):
    ...     raise PanicException("out of memory")
    Traceback (most recent call last):
        ...
    retriever.errors.SnapshotError: chroma: ChromaDB failed (out of memory); index the documents again
    >>> with chroma_errors(Path("chroma")):
    ...     raise SystemExit
    Traceback (most recent call last):
        ...
    SystemExit
    """
    try:
        yield
    except BaseException as error:
        # A panic of the Rust code is derived from BaseException, in a module that cannot be imported.
        is_failure = isinstance(error, Exception) or type(error).__name__ == "PanicException"
        if not is_failure or isinstance(error, RetrieverError):
            raise
        if writing:  # it says in many ways that the disk takes no more
            cure = "free some space, or keep the index elsewhere (--index)"
            raise StorageError(f"{folder}: ChromaDB cannot write ({error}); {cure}") from error
        raise SnapshotError(f"{folder}: ChromaDB failed ({error}); index the documents again") from error


@contextmanager
def open_client(folder: Path) -> "Iterator[Client]":
    """Open a folder of ChromaDB's, or make one."""
    with _lock:
        chromadb = import_chromadb()
        # Its own constructor would ask the environment and files for each setting, which takes 8 ms besides.
        settings = chromadb.Settings.model_construct(anonymized_telemetry=False)
        client: Client = chromadb.PersistentClient(folder, settings=settings)
    try:
        yield client
    finally:
        with _lock:
            client.close()


class VectorIndex(VectorSearch):
    """The open folder: read-only for the caller, safe to share between threads, not to be used after a fork."""

    def __init__(self, folder: Path, fingerprint: str, size: int) -> None:
        """Open it and load the vectors: 20 ms at 5,000, 70 ms at 20,000, 260 ms at 100,000.

        Args:
            folder: as `write_vectors` made it.
            fingerprint: of the encoder.
            size: of the files of vectors, as `write_vectors` returned it.

        Raises:
            SnapshotError: it is damaged, or of another encoder; ReadOnlyError.
        """
        self._folder = folder
        if measure_vectors(folder) != size:  # ChromaDB would take a file that is cut for fewer vectors, or other ones
            raise SnapshotError(f"{folder}: a file is missing or cut; index the documents again")
        if not os.access(folder, os.W_OK):
            raise ReadOnlyError(f"{folder} is read-only, and ChromaDB writes to what it opens")
        with ExitStack() as stack, chroma_errors(folder):
            client = stack.enter_context(open_client(folder))
            self._collection = client.get_collection(fingerprint, embedding_function=None)
            self._collection.count()  # which loads them
            self._opened = stack.pop_all()

    def search(self, query: FloatMatrix, limit: int) -> list[int]:
        """Do as `VectorSearch.search`; at 100,000 vectors of real text it misses about one in a thousand.

        Raises:
            SnapshotError: the vectors are damaged.
        """
        with chroma_errors(self._folder):
            (ids,) = self._collection.query(query_embeddings=query, n_results=limit, include=[])["ids"]
        return list(map(int, ids))

    def close(self) -> None:
        """Release files and memory."""
        self._opened.close()


def measure_vectors(folder: Path) -> int:
    """Return the bytes of the files of vectors in a folder."""
    return sum(path.stat().st_size for path in folder.glob("*/*"))


def write_vectors(folder: Path, fingerprint: str, keys: Sequence[int], matrix: "FloatMatrix | WholeMatrix") -> int:
    """Make a folder of vectors, and return the bytes of their files: 0.35 ms a vector.

    Args:
        folder: it is not there yet.
        fingerprint: of the encoder.
        keys: of the chunks that they stand for.
        matrix: (n, d), of any length.

    Raises:
        StorageError: it cannot be written.

    >>> from tempfile import TemporaryDirectory
    >>> vectors = np.array([[1, 0], [0, 3], [2, 1]], np.float32)
    >>> with TemporaryDirectory() as place:
    ...     folder = Path(place, "chroma")
    ...     size = write_vectors(folder, "model", [5, 7, 9], vectors)
    ...     with closing(VectorIndex(folder, "model", size)) as index:
    ...         index.search(np.array([[0, 1]], np.float32), 2)
    ...     {path.stat().st_mode & 0o077 for path in (folder, *folder.rglob("*"))}  # for this user alone
    [7, 9]
    {0}
    """
    with chroma_errors(folder, writing=True):
        folder.mkdir(mode=0o700, parents=True)
        with open_client(folder) as client:
            collection = client.create_collection(
                fingerprint,
                configuration={
                    "hnsw": {
                        "space": "cosine",
                        # Both 200: recall@10 of 1.000 at 100,000 clustered vectors (defaults: .999), and a query for
                        # 100 needs them.
                        "ef_construction": 200,
                        "ef_search": 200,
                        # Nothing stays in a log, which each opening would replay into files made of the memory of that
                        # process.
                        "sync_threshold": 1,
                        "batch_size": 1,
                    }
                },
                embedding_function=None,
            )
            for first in range(0, len(keys), FULLEST_BATCH):
                batch = slice(first, first + FULLEST_BATCH)
                rows = matrix[batch].astype(np.float32)
                collection.add(ids=[str(key) for key in keys[batch]], embeddings=rows)
            collection.count()  # what is logged goes to the vector files now, not in a reader
        # The log is empty now, and six sevenths of the file's pages are free: it had held each vector once more.
        with closing(sqlite3.connect(folder / "chroma.sqlite3")) as database:
            database.execute("VACUUM")
        for path in folder.rglob("*"):  # ChromaDB obeys the umask
            path.chmod(0o700 if path.is_dir() else 0o600)
        return measure_vectors(folder)
