"""Chunk vectors in ChromaDB: a folder is written by one writer, then only read.

    chroma.sqlite3, UUID/    ChromaDB's own
    manifest.json            ours, written last: which snapshot the vectors are of, how many, and checksums

Neither the current folder nor the environment configures it, and no vector file reaches it unread.
"""

import json
import math
import shutil
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import chdir, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar

from pageindex.corpus import read_file, require_regular
from retriever.errors import EncoderError, SnapshotError, StorageError
from retriever.files import require_space, writing_to
from retriever.store.checksums import MANIFEST_NAME, MAX_MANIFEST_BYTES, check_contents, check_names, describe_files
from retriever.types import FloatMatrix
from retriever.vectors.exact import ChunkVectors, Neighbours, check_queries

if TYPE_CHECKING:
    from types import ModuleType

    from chromadb import Collection as ChromaCollection
    from chromadb import Metadata
    from chromadb.api.client import Client
    from chromadb.api.collection_configuration import CreateHNSWConfiguration

Result = TypeVar("Result")
LoadVectors: TypeAlias = Callable[[Sequence[int]], ChunkVectors]
"""Keys of chunks to their vectors, a batch at a time: all of them would be a gigabyte at 650,000 chunks."""

DATABASE_NAME = "chroma.sqlite3"
RUST_API = "chromadb.api.rust.RustBindingsAPI"
# What ChromaDB says, in one exception or another, when the disk takes no more or nothing at all.
REFUSALS = ("disk is full", "disk full", "readonly database", "no space left", "file too large", "read-only file")
NEARLY_FULL = 16_000_000  # bytes: a failure with less than this free is the disk's, whatever ChromaDB says of it
FULLEST_BATCH = 5_000  # vectors: ChromaDB takes 5,461 at once; smaller batches are dearer for each vector
ANSWERS_WITHIN_S = 30.0  # opening and searching take less than a second at 100,000 vectors; what takes this has stopped

_HNSW: "CreateHNSWConfiguration" = {
    "space": "cosine",
    # Both 200: recall@10 of 1.000 at 100,000 clustered vectors (defaults: .999), and a query for 100 needs them.
    "ef_construction": 200,
    "ef_search": 200,
    # Nothing stays in a log, which each opening would replay into files made of the memory of that process.
    "sync_threshold": 1,
    "batch_size": 1,
}


@dataclass(frozen=True, slots=True)
class VectorsManifest:
    snapshot: str  # the manifest hash of the snapshot whose chunks these are
    fingerprint: str  # of the encoder
    count: int  # how many vectors
    dimension: int  # the length of a vector
    database_bytes: int = 0  # of chroma.sqlite3, which opening changes, but never makes smaller
    files: dict[str, tuple[int, int]] = field(default_factory=dict)  # size and CRC-32 of the vector files

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest; SnapshotError when it is damaged, or missing because the folder was not finished."""
        try:
            values = json.loads(read_file(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES))
            found = cls(
                str(values["snapshot"]),
                str(values["fingerprint"]),
                int(values["count"]),
                int(values["dimension"]),
                int(values["database_bytes"]),
                dict(values["files"]),
            )
            check_names(found.files)
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise SnapshotError(f"{folder}: not a whole folder of vectors; index the documents again") from error
        return found

    def write(self, folder: Path) -> None:
        """Write the manifest, with the checksums of the files as they are: the folder is whole now."""
        with writing_to(folder):
            size, files = (folder / DATABASE_NAME).stat().st_size, describe_files(folder, _list_vector_files(folder))
            content = asdict(self) | {"database_bytes": size, "files": files}
            (folder / MANIFEST_NAME).write_text(json.dumps(content), encoding="utf-8")

    def check(self, folder: Path) -> None:
        """Read every vector file; SnapshotError where one is not as it was written."""
        # ChromaDB writes its vector files without a checksum. It reads a missing one as "no vectors", silently, and a
        # changed byte may end the process with a signal (measured). So every one of them is read before ChromaDB sees
        # it: 50 ms at 100,000 vectors, and ChromaDB then finds them in the system's cache.
        try:
            for file in folder.rglob("*"):  # a pipe would block SQLite and ChromaDB, a link lead elsewhere
                if file.is_symlink() or not file.is_dir():
                    require_regular(file)
            names = {file.relative_to(folder).as_posix() for file in _list_vector_files(folder)}
            is_cut = (folder / DATABASE_NAME).stat().st_size < self.database_bytes
        except OSError as error:
            raise SnapshotError(f"{folder} cannot be read ({error.strerror}); index the documents again") from error
        if is_cut or names != self.files.keys():
            raise SnapshotError(f"{folder}: a file is missing, cut, or one too many; index the documents again")
        check_contents(folder, self.files)


def _list_vector_files(folder: Path) -> list[Path]:
    return sorted(file for segment in folder.iterdir() if segment.is_dir() for file in segment.iterdir())


_importing = threading.Lock()
# Readers of one folder share what ChromaDB opened for the first of them, and it counts them without a lock: of two that
# open it at the same time it would forget one, files and memory.
_sharing = threading.Lock()


@cache
def import_chromadb() -> "ModuleType":
    """Import the package in a folder of ours, for 0.6 s: it reads `.env` in the current one, and obeys it.

    A folder of documents could otherwise send every text to a host of its choice, or keep the package from loading.

    Raises:
        SnapshotError: a variable of the environment keeps it from loading.
    """
    with _importing, chdir(Path(__file__).parent):
        try:
            import chromadb
        except ValueError as error:  # pydantic's
            raise SnapshotError(f"ChromaDB cannot be loaded; correct its variables: {error}") from error
    return chromadb


def open_client(folder: Path, *, writing: bool = False) -> "Client":
    """Open a folder of ChromaDB's, or make one; call `close()` before the folder is moved or removed."""
    chromadb = import_chromadb()
    path = str(folder.absolute())  # vector files are opened later, by this name: the current folder may change
    with chroma_errors(folder, writing=writing):
        settings = chromadb.Settings(
            # Parameters of pydantic's settings: no file, and a prefix of variables that no variable can have.
            _env_file=None,
            _env_prefix="=",
            _secrets_dir=None,
            is_persistent=True,
            persist_directory=path,
            chroma_api_impl=RUST_API,
            chroma_product_telemetry_impl="chromadb.telemetry.product.posthog.Posthog",
            anonymized_telemetry=False,
            allow_reset=False,
            migrations="apply",
        )
        client: Client = chromadb.PersistentClient(path, settings=settings)
    api = type(client._server)  # the only witness of where data goes
    if f"{api.__module__}.{api.__qualname__}" != RUST_API:
        client.close()
        raise SnapshotError(f"{folder}: ChromaDB was opened as {api.__qualname__}, not as a folder")
    return client


def run_in_time(seconds: float, folder: Path, work: Callable[[], Result], *, writing: bool = True) -> Result:
    """Return what `work` returns; an error when it takes longer: StorageError when `writing`, else SnapshotError."""
    # On a full disk one of its connections may sleep for 1,000 s while another keeps the journal (measured). The thread
    # that waits for it is left behind, and ends with the process; the folder that it wrote to is never published.
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
    """Turn whatever ChromaDB raises into a SnapshotError (when `writing` and the disk refused: a StorageError)."""
    from chromadb.errors import ChromaError

    try:
        yield
    except BaseException as error:
        known = (ChromaError, OSError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, sqlite3.Error)
        # A panic of the Rust code is derived from BaseException, in a module that cannot be imported.
        if not isinstance(error, known) and type(error).__name__ != "PanicException":
            raise
        is_full = False
        with suppress(OSError):  # then what ChromaDB said is all there is
            is_full = shutil.disk_usage(folder).free < NEARLY_FULL
        if writing and (is_full or any(phrase in str(error).lower() for phrase in REFUSALS)):
            raise StorageError(
                f"{folder}: the disk is full or read-only ({error}); free some space, or keep the index elsewhere"
                " (--index)"
            ) from error
        raise SnapshotError(f"{folder}: ChromaDB failed ({error}); index the documents again") from error


class VectorIndex:
    """The open folder: read-only for the caller, safe to share between threads, not to be used after a fork."""

    def __init__(
        self, folder: Path, client: "Client", collection: "ChromaCollection", manifest: VectorsManifest
    ) -> None:
        self._folder = folder
        self._client = client
        self._collection = collection
        self._manifest = manifest

    @classmethod
    def open(cls, folder: Path, fingerprint: str, snapshot: str = "") -> Self:
        """Open it and load the vectors: 20 ms at 5,000, 70 ms at 20,000, 260 ms at 100,000."""
        manifest = VectorsManifest.read(folder)
        if manifest.snapshot != snapshot:
            raise SnapshotError(f"{folder}: the vectors are of another snapshot; index the documents again")
        manifest.check(folder)
        with _sharing:
            client = run_in_time(ANSWERS_WITHIN_S, folder, lambda: open_client(folder), writing=False)

        def open_collection() -> "ChromaCollection":
            with chroma_errors(folder):
                collection = client.get_collection(fingerprint, embedding_function=None)
                check_collection(collection, manifest, folder)
                return collection

        try:
            return cls(folder, client, run_in_time(ANSWERS_WITHIN_S, folder, open_collection, writing=False), manifest)
        except BaseException:
            client.close()
            raise

    def __len__(self) -> int:
        return self._manifest.count

    def search(self, queries: FloatMatrix, limit: int) -> list[Neighbours]:
        """As `VectorSearch.search`; approximate: at 100,000 vectors of real text it misses about one in a thousand."""
        if not len(self):
            return [[] for _ in queries]
        check_queries(queries, limit, self._manifest.dimension)

        def query() -> list[Neighbours]:
            with chroma_errors(self._folder):
                most = min(limit, len(self))
                found = self._collection.query(query_embeddings=queries, n_results=most, include=["distances"])
            nearest: list[Neighbours] = []
            for ids, distances in zip(found["ids"], found["distances"] or [], strict=True):
                if any(math.isnan(distance) for distance in distances):
                    raise SnapshotError("the vectors are damaged; index the documents again")
                # The distance is 1 - cosine; its rounding may pass 2 or 0 by a little.
                cosines = [max(-1.0, min(1.0, 1.0 - distance)) for distance in distances]
                nearest.append(sorted(zip(map(int, ids), cosines, strict=True), key=lambda item: (-item[1], item[0])))
            return nearest

        return run_in_time(ANSWERS_WITHIN_S, self._folder, query, writing=False)

    def close(self) -> None:
        with _sharing:
            self._client.close()


def check_collection(collection: "ChromaCollection", manifest: VectorsManifest, folder: Path) -> None:
    """Check what `get_collection` does not: the kind of distance and the number of vectors (which loads them)."""
    space = collection.configuration_json["hnsw"]["space"]
    count = collection.count()
    if space != "cosine" or count != manifest.count:
        raise SnapshotError(
            f"{folder}: {count} vectors compared by {space} instead of {manifest.count} by cosine; "
            "index the documents again"
        )


def build_vectors(
    folder: Path, fingerprint: str, keys: Sequence[int], dimension: int, load: LoadVectors, snapshot: str = ""
) -> None:
    """Make a collection of the vectors of these chunks, of `dimension` numbers, in 0.35 ms each.

    A folder that an error leaves opens as nothing.
    """
    require_space(folder, estimate_size(len(keys), dimension))
    with writing_to(folder):
        folder.mkdir(parents=True)

    def fill() -> None:
        with closing(open_client(folder, writing=True)) as client, chroma_errors(folder, writing=True):
            collection = client.create_collection(fingerprint, configuration={"hnsw": _HNSW}, embedding_function=None)
            add_chunks(collection, keys, load)
            collection.count()  # whatever is logged goes to the vector files now, not in a reader
        # The log is empty now, and six sevenths of the file's pages are free: it had held each vector once more.
        with chroma_errors(folder, writing=True), closing(sqlite3.connect(folder / DATABASE_NAME)) as database:
            database.execute("VACUUM")

    # Twenty times what is measured, on a busy machine.
    run_in_time(60.0 + len(keys) / 100, folder, fill)
    VectorsManifest(snapshot, fingerprint, len(keys), dimension).write(folder)


def patch_vectors(
    source: Path,
    target: Path,
    keys: Collection[int],
    dimension: int,
    load: LoadVectors,
    snapshot: str = "",
    *,
    most_changed: float = math.inf,
) -> None:
    """Make a new folder out of an older one of the same encoder, which is only read (readers may have it open).

    `keys` are all that the new one is to hold, and stand for one vector for ever, of `dimension` numbers; `load` gives
    those that the older one does not have; `most_changed` is the share of the older ones that may come and go. Raises
    EncoderError when the older vectors have another length; StorageError; SnapshotError when `source` cannot be opened,
    or too much has changed: build anew.
    """
    manifest = VectorsManifest.read(source)
    if manifest.count and manifest.dimension != dimension:
        raise EncoderError(f"the index holds vectors of {manifest.dimension} numbers, not {dimension}")
    manifest.check(source)
    with writing_to(target):
        require_space(target, 2 * sum(file.stat().st_size for file in source.rglob("*")))
        target.mkdir(parents=True)
        for name in manifest.files:
            (target / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, target / name)

    def change() -> None:
        _copy_database(source, target)
        with closing(open_client(target, writing=True)) as client, chroma_errors(target, writing=True):
            collection = client.get_collection(manifest.fingerprint, embedding_function=None)
            check_collection(collection, manifest, source)
            stored = {int(key) for key in collection.get(include=[])["ids"]}
            if len(stored.symmetric_difference(keys)) > most_changed * len(stored):
                raise SnapshotError(f"{source}: too much has changed; build it anew")
            removed = [str(key) for key in sorted(stored - set(keys))]
            for first in range(0, len(removed), FULLEST_BATCH):
                collection.delete(ids=removed[first : first + FULLEST_BATCH])
            added = sorted(set(keys) - stored)
            require_space(target, estimate_size(len(added), dimension))
            add_chunks(collection, added, load)
            if collection.count() != len(keys):
                raise SnapshotError(f"{target}: {collection.count()} vectors instead of {len(keys)}; build it anew")

    run_in_time(60.0 + (manifest.count + len(keys)) / 100, target, change)
    VectorsManifest(snapshot, manifest.fingerprint, len(keys), dimension).write(target)


def _copy_database(source: Path, target: Path) -> None:
    """Copy ChromaDB's database by SQLite itself: readers that open it write to it, and a plain copy could be torn."""
    uri = f"{(source / DATABASE_NAME).absolute().as_uri()}?mode=ro"
    with (
        chroma_errors(target, writing=True),
        closing(sqlite3.connect(uri, uri=True)) as original,
        closing(sqlite3.connect(target / DATABASE_NAME)) as copy,
    ):
        original.backup(copy)


def estimate_size(count: int, dimension: int) -> int:
    """Return the bytes that ChromaDB takes for so many vectors, at most."""
    # Each is in its log and in its graph (measured: 4,160 bytes of 384 numbers, half of which goes again); SQLite's
    # journal may take as much once more.
    return 2_000_000 + 2 * count * (8 * dimension + 1_200)


def add_chunks(collection: "ChromaCollection", keys: Sequence[int], load: LoadVectors) -> None:
    """Add the vectors of these chunks in batches of nearly equal size."""
    batches = -(-len(keys) // FULLEST_BATCH)
    for number in range(batches):
        wanted = keys[len(keys) * number // batches : len(keys) * (number + 1) // batches]
        chunks = load(wanted)
        if len(chunks) != len(wanted):
            raise SnapshotError(f"{len(chunks)} vectors instead of {len(wanted)}; build it anew")
        # A file name that is no UTF-8 holds lone surrogates, which ChromaDB cannot store.
        nodes = [node_id.encode("utf-8", "backslashreplace").decode("utf-8") for node_id in chunks.node_ids]
        metadatas: list[Metadata] = [{"node": node} for node in nodes]
        collection.add(ids=[str(key) for key in chunks.keys], embeddings=chunks.matrix, metadatas=metadatas)
