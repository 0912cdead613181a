"""ChromaDB, imported and opened so that nothing but this module configures it; its errors as ours.

`import chromadb` and its `Settings` read `.env` in the current folder and the environment, and obey them: a folder of
documents could send every text to a host of its choice, or have a module of its own imported. Both are closed here by
two documented parameters of pydantic's settings: no `.env` file, and a prefix for names of variables that no variable
can have. The current folder and the environment of the process stay as they are, for the sake of its other threads.
"""

import math
import shutil
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from retriever.errors import EncoderError, SnapshotError, StorageError
from retriever.files import require_space, writing_to
from retriever.types import FloatMatrix
from retriever.vectors.exact import ChunkVectors, ExactIndex, Neighbours, check_queries
from retriever.vectors.inventory import Inventory, remove_unflushed

if TYPE_CHECKING:
    from types import ModuleType

    from chromadb import Collection as ChromaCollection
    from chromadb import Metadata
    from chromadb.api.client import Client
    from chromadb.api.collection_configuration import CreateHNSWConfiguration


Result = TypeVar("Result")

_UNCONFIGURED: dict[str, Any] = {"_env_file": None, "_env_prefix": "=", "_secrets_dir": None}
"""No name of an environment variable holds an equals sign."""

_RUST_API = "chromadb.api.rust.RustBindingsAPI"

_REFUSED = ("disk is full", "disk full", "readonly database", "no space left", "file too large", "read-only file")
"""What Chroma says, in one exception or another, when the disk takes no more or nothing at all."""

_NEARLY_FULL = 16_000_000
"""Bytes. A failure with less than this free is the disk's, whatever Chroma says of it."""

_importing = threading.Lock()


def open_client(folder: Path, *, writing: bool = False) -> "Client":
    """Open a folder of Chroma's, or make one; every call needs its `close()` before the folder is moved or removed.

    Raises:
        SnapshotError: it cannot be opened.
        StorageError: when `writing`: the disk is full or read-only.
    """
    chromadb = _chromadb()
    path = str(folder.absolute())  # vector files are opened later, by this name: the current folder may change
    with chroma_errors(folder, writing=writing):
        settings = chromadb.config.Settings(
            **_UNCONFIGURED,
            is_persistent=True,
            persist_directory=path,
            chroma_api_impl=_RUST_API,
            chroma_product_telemetry_impl="chromadb.telemetry.product.posthog.Posthog",
            anonymized_telemetry=False,
            allow_reset=False,
            migrations="apply",
        )
        client: Client = chromadb.PersistentClient(path, settings=settings)
    api = type(client._server)  # the only witness of where data goes
    if f"{api.__module__}.{api.__qualname__}" != _RUST_API:
        client.close()
        raise SnapshotError(f"{folder}: ChromaDB was opened as {api.__qualname__}, not as a folder")
    return client


def in_time(seconds: float, folder: Path, work: Callable[[], Result], *, writing: bool = True) -> Result:
    """What Chroma returns, or an error when it takes longer.

    On a full disk one of its connections may sleep for 1,000 s while another keeps the journal (measured). The thread
    that waits for it is left behind, and ends with the process; the folder that it wrote to is never published.

    Raises:
        StorageError: a write did not finish in time.
        SnapshotError: nothing was written, and it did not answer in time.
    """
    done: list[Result] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # whatever it is, the caller gets it
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True, name="ChromaDB")
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not done and not writing:
        raise SnapshotError(f"{folder}: ChromaDB did not answer within {seconds:g} s; index the documents again")
    if not done:
        raise StorageError(
            f"{folder}: ChromaDB did not finish within {seconds:g} s, as on a full disk; free some space, or keep the"
            " index elsewhere (--index)"
        )
    return done[0]


@contextmanager
def chroma_errors(folder: Path, *, writing: bool = False) -> Iterator[None]:
    """Turn whatever Chroma raises into a SnapshotError (when `writing` and the disk refused: a StorageError)."""
    from chromadb.errors import ChromaError

    try:
        yield
    except (ChromaError, OSError, RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise _translated(error, folder, writing) from error
    except BaseException as error:
        # A panic of the Rust code: derived from BaseException, in a module that cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise _translated(error, folder, writing) from error


def _translated(error: BaseException, folder: Path, writing: bool) -> SnapshotError | StorageError:
    if writing and (any(phrase in str(error).lower() for phrase in _REFUSED) or _nearly_full(folder)):
        return StorageError(
            f"{folder}: the disk is full or read-only ({error}); free some space, or keep the index elsewhere (--index)"
        )
    return SnapshotError(f"{folder}: ChromaDB failed ({error}); index the documents again")


def _nearly_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _NEARLY_FULL
    except OSError:
        return False  # then what Chroma said is all there is


@cache
def _chromadb() -> "ModuleType":
    with _importing, _settings_unconfigured():
        import chromadb
        import chromadb.config
    return chromadb


@contextmanager
def _settings_unconfigured() -> Iterator[None]:
    """While chromadb is imported, its settings (and no others) are made of their defaults alone."""
    if "chromadb" in sys.modules:  # imported by someone else; our own client is made of explicit settings either way
        yield
        return
    from pydantic_settings import BaseSettings

    original = BaseSettings.__init__

    @wraps(original)
    def initialise(settings: BaseSettings, **values: Any) -> None:  # noqa: ANN401 - passed on as they came
        ours = _UNCONFIGURED if type(settings).__module__.startswith("chromadb.") else {}
        original(settings, **(values | ours))

    BaseSettings.__init__ = initialise  # type: ignore[method-assign, assignment]  # for the time of the import
    try:
        yield
    finally:
        BaseSettings.__init__ = original  # type: ignore[method-assign]


# Chunk vectors in ChromaDB: a folder is built or patched by one writer, then only read.

_HNSW: "CreateHNSWConfiguration" = {
    "space": "cosine",
    # Both 200: recall@10 of 1.000 at 100,000 clustered vectors (defaults: .999), and a query for 100 needs them.
    "ef_construction": 200,
    "ef_search": 200,
    # Operations that stay in a log, replayed at each opening until there are so many. 1,000 (the default) makes a
    # patched folder 0.1 s slower to open, "never" costs 0.7 s at 5,000 vectors and 4.5 s at 20,000; building takes
    # the same time with all of them, because a batch of thousands goes to the vector files at once.
    "sync_threshold": 100,
    "batch_size": 100,
}
_FULLEST_BATCH = 5_000
"""Chroma takes 5,461 at once; smaller ones are dearer for each vector."""

_ANSWERS_WITHIN_S = 30.0
"""Opening and searching take less than a second at 100,000 vectors; what takes so long has stopped."""

_sharing = threading.Lock()
"""Readers of one folder share what Chroma opened for the first of them, and Chroma counts them without a lock: of two
that open it at the same time it would forget one, files and memory."""


class VectorIndex:
    """The open folder: read-only for the caller, safe to share between threads, not to be used after a fork."""

    def __init__(self, folder: Path, client: "Client", collection: "ChromaCollection", inventory: Inventory) -> None:
        self._folder = folder
        self._client = client
        self._collection = collection
        self._inventory = inventory

    @classmethod
    def open(cls, folder: Path, fingerprint: str) -> Self:
        """Open it and load the vectors: 20 ms at 5,000, 70 ms at 20,000, 260 ms at 100,000.

        Raises:
            SnapshotError: it is missing, damaged, cut, not writable, or of another encoder.
        """
        inventory = Inventory.read(folder)
        inventory.check_files(folder)
        with _sharing:
            client = in_time(_ANSWERS_WITHIN_S, folder, lambda: open_client(folder), writing=False)
        try:
            with chroma_errors(folder):
                collection = client.get_collection(fingerprint, embedding_function=None)
                in_time(
                    _ANSWERS_WITHIN_S, folder, lambda: _check_collection(collection, inventory, folder), writing=False
                )
        except BaseException:
            client.close()
            raise
        return cls(folder, client, collection, inventory)

    def __len__(self) -> int:
        """How many vectors it holds."""
        return self._inventory.count

    def search(self, queries: FloatMatrix, limit: int) -> list[Neighbours]:
        """As `VectorSearch.search`; approximate: at 100,000 vectors of real text it misses about one in a thousand."""
        if not len(self):
            return [[] for _ in queries]
        check_queries(queries, limit, self._inventory.dimension)
        most = min(limit, len(self))
        with chroma_errors(self._folder):
            found = in_time(
                _ANSWERS_WITHIN_S,
                self._folder,
                lambda: self._collection.query(query_embeddings=queries, n_results=most, include=["distances"]),
                writing=False,
            )
            return [
                _ranked(ids, distances) for ids, distances in zip(found["ids"], found["distances"] or [], strict=True)
            ]

    def verify(self, keys: Sequence[int], matrix: FloatMatrix) -> None:
        """Compare with the truth: every key is there, no other is, and sampled vectors find what the exact scan finds.

        Raises:
            SnapshotError: they differ.
        """
        with chroma_errors(self._folder):
            stored = set(self._collection.get(include=[])["ids"])
        if stored != set(map(str, keys)):
            raise SnapshotError("the vectors are of other chunks than the index; index the documents again")
        sample = matrix[:: max(1, len(matrix) // 50)]
        if not len(sample):
            return
        nearest = [found[0][1] for found in self.search(sample, 1)]
        truth = [found[0][1] for found in ExactIndex(keys, matrix).search(sample, 1)]
        # The best similarity, not the key: equal texts of different chunks are equally near.
        agreeing = np.isclose(nearest, truth, atol=1e-4).mean()
        if agreeing < 0.95:
            raise SnapshotError(f"{agreeing:.0%} of the vectors find themselves; index the documents again")

    def close(self) -> None:
        """Release files and memory; a second call does nothing."""
        with _sharing:
            self._client.close()


def build_vectors(folder: Path, fingerprint: str, chunks: ChunkVectors) -> None:
    """Make a collection of these vectors in a new folder: 0.35 ms each, on two cores.

    A folder that an error leaves behind has no inventory: it opens as nothing, and can be removed.

    Args:
        folder: does not exist yet.
        fingerprint: of the encoder.
        chunks: may be none.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
        SnapshotError: Chroma failed otherwise.
    """
    require_space(folder, _estimated_size(chunks))
    with writing_to(folder):
        folder.mkdir(parents=True)
    in_time(_longest(len(chunks)), folder, lambda: _fill(folder, fingerprint, chunks))
    remove_unflushed(folder)
    Inventory.of(folder, len(chunks), chunks.dimension).write(folder)


def patch_vectors(source: Path, target: Path, fingerprint: str, removed: Collection[int], added: ChunkVectors) -> None:
    """Make a new folder out of an older one, which is only read (readers may have it open).

    Args:
        source: the older folder.
        target: does not exist yet.
        fingerprint: of the encoder of both.
        removed: keys of chunks to drop, distinct; all of them are there.
        added: none of them is there, but for those in `removed`.

    Raises:
        EncoderError: the added vectors are not as long as the others.
        StorageError: the disk is full or the folder cannot be written.
        SnapshotError: `source` cannot be opened, or holds other chunks than the change says: build anew.
    """
    inventory = Inventory.read(source)
    inventory.check_files(source)
    if inventory.count and len(added) and added.dimension != inventory.dimension:
        raise EncoderError(f"the index holds vectors of {inventory.dimension} numbers, not {added.dimension}")
    require_space(target, _size_on_disk(source) + _estimated_size(added))
    inventory.copy(source, target)

    def change() -> int:
        with closing(open_client(target, writing=True)) as client, chroma_errors(target, writing=True):
            collection = client.get_collection(fingerprint, embedding_function=None)
            _check_collection(collection, inventory, source)
            _remove(collection, removed)
            if _present(collection, added.keys):
                raise SnapshotError(f"{source}: holds chunks that the change adds; index the documents again")
            _add(collection, added)
            return collection.count()

    count = in_time(_longest(inventory.count + len(added)), target, change)
    expected = inventory.count - len(removed) + len(added)
    if count != expected:
        raise SnapshotError(f"{target}: {count} vectors after a change that leaves {expected}; build it anew")
    Inventory.of(target, count, added.dimension if len(added) else inventory.dimension).write(target)


def _fill(folder: Path, fingerprint: str, chunks: ChunkVectors) -> None:
    with closing(open_client(folder, writing=True)) as client, chroma_errors(folder, writing=True):
        collection = client.create_collection(fingerprint, configuration={"hnsw": _HNSW}, embedding_function=None)
        _add(collection, chunks)
        collection.count()  # whatever is logged goes to the vector files now, not in a reader


def _longest(count: int) -> float:
    """Seconds after which a write of so many vectors has stopped: twenty times what is measured, on a busy machine."""
    return 60.0 + count / 100


def _estimated_size(chunks: ChunkVectors) -> int:
    """Bytes that Chroma takes for these vectors, at most.

    Each is in its log and in its graph (measured: 4,160 bytes of 384 numbers, half of which goes again); SQLite's
    journal may take as much once more.
    """
    return 2_000_000 + 2 * len(chunks) * (8 * chunks.dimension + 1_200)


def _size_on_disk(folder: Path) -> int:
    try:
        return sum(file.stat().st_size for file in folder.rglob("*"))
    except OSError as error:
        raise SnapshotError(f"{folder}: cannot be read ({error}); index the documents again") from error


def _check_collection(collection: "ChromaCollection", inventory: Inventory, folder: Path) -> None:
    """Check what `get_collection` does not: the kind of distance and the number of vectors (which loads them)."""
    space = collection.configuration_json["hnsw"]["space"]
    count = collection.count()
    if space != "cosine" or count != inventory.count:
        raise SnapshotError(
            f"{folder}: {count} vectors compared by {space} instead of {inventory.count} by cosine; "
            "index the documents again"
        )


def _add(collection: "ChromaCollection", chunks: ChunkVectors) -> None:
    """Add in batches of equal size, so that no small one at the end stays in the log."""
    ids = [str(key) for key in chunks.keys]
    # A file name that is no UTF-8 holds lone surrogates, which Chroma cannot store.
    nodes = [node_id.encode("utf-8", "backslashreplace").decode("utf-8") for node_id in chunks.node_ids]
    batches = -(-len(ids) // _FULLEST_BATCH)
    for number in range(batches):
        part = slice(len(ids) * number // batches, len(ids) * (number + 1) // batches)
        metadatas: list[Metadata] = [{"node": node} for node in nodes[part]]
        collection.add(ids=ids[part], embeddings=chunks.matrix[part], metadatas=metadatas)


def _in_batches(keys: Collection[int]) -> list[list[str]]:
    """The ids of these chunks, in lists that one statement of Chroma's SQLite takes."""
    ids = [str(key) for key in sorted(keys)]
    return [ids[first : first + _FULLEST_BATCH] for first in range(0, len(ids), _FULLEST_BATCH)]


def _remove(collection: "ChromaCollection", keys: Collection[int]) -> None:
    for ids in _in_batches(keys):
        collection.delete(ids=ids)


def _present(collection: "ChromaCollection", keys: Collection[int]) -> bool:
    """Whether one of these chunks is there; `add` would leave its old vector without a word."""
    return any(collection.get(ids=ids, include=[])["ids"] for ids in _in_batches(keys))


def _ranked(ids: Sequence[str], distances: Sequence[float]) -> Neighbours:
    """Chroma's distance is 1 - cosine; its rounding may pass 2 or 0 by a little."""
    if any(math.isnan(distance) for distance in distances):
        raise SnapshotError("the vectors are damaged; index the documents again")
    similarities = [
        (int(key), max(-1.0, min(1.0, 1.0 - distance))) for key, distance in zip(ids, distances, strict=True)
    ]
    return sorted(similarities, key=lambda found: (-found[1], found[0]))
