"""A snapshot: the folder of what searches need, derived from index.sqlite and never changed once it is in force.

snapshot-17/chroma/ and snapshot-17/lexical/ are made beside snapshot-16, from it or from scratch; the transaction that
holds the new documents names the new snapshot. Whatever dies in between leaves snapshot-16 in force.
"""

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from pageindex.files import open_regular, read_file, require_regular
from pageindex.node import Node
from retriever.errors import SnapshotError
from retriever.files import sync, writing_to
from retriever.store import reading, text_vectors, writing
from retriever.store.locks import READERS_NAME, is_read, share_snapshot

if TYPE_CHECKING:
    from retriever.lexical.bm25 import LexicalIndex
    from retriever.vectors import VectorIndex


MANIFEST_NAME = "manifest.json"
MAX_MANIFEST_BYTES = 1_000_000
"""Of some 20 files, a name and two numbers each."""
REBUILD_SHARE = 0.3
"""A change of more than this share of the nodes is made from scratch: patching costs more, and leaves gaps in HNSW."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot holds."""

    fingerprint: str
    """Of the encoder; empty without vectors."""
    nodes: int
    files: dict[str, tuple[int, int]]
    """Size in bytes and CRC-32 of each file that opening does not change, by its path in the folder."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Keys of what went and what came since the snapshot before."""

    removed_nodes: Sequence[int]
    added_nodes: Sequence[int]
    removed_chunks: Sequence[int]
    """Chunks that were the first of their text, and are not any more."""
    added_chunks: Sequence[int]
    """Chunks that have become the first of their text."""


class Snapshot:
    """An open snapshot: its parts are checked and opened when they are first used, and shared with no other process.

    Args:
        index: the index's folder.
        number: the snapshot's.
        manifest_hash: what `build_snapshot` gave for it: the folder of another snapshot under its name is not it.

    Raises:
        SnapshotError: it is not there, not whole, or was not made by this version.
    """

    def __init__(self, index: Path, number: int, manifest_hash: str) -> None:
        self.number = number
        self.folder = folder_of(index, number)
        try:
            with contextlib.ExitStack() as stack:
                self._lock = stack.enter_context(share_snapshot(self.folder))
                if _hash_manifest(self.folder) != manifest_hash:
                    raise SnapshotError(f"{self.folder} is not what index.sqlite names")
                self.manifest = _read_manifest(self.folder)
                _check_sizes(self.folder, self.manifest)
                stack.pop_all()
        except OSError as error:
            raise SnapshotError(f"{self.folder} cannot be opened: {error.strerror}") from error

    @cached_property
    def lexical(self) -> "LexicalIndex":
        """BM25 over the nodes."""
        from retriever.lexical.bm25 import LexicalIndex

        _check_contents(self.folder, "lexical", self.manifest)
        return LexicalIndex.open(self.folder / "lexical")

    @cached_property
    def vectors(self) -> "VectorIndex":
        """The chunks' vectors in ChromaDB."""
        from retriever.vectors import VectorIndex

        _check_contents(self.folder, "chroma", self.manifest)
        return VectorIndex.open(self.folder / "chroma", self.manifest.fingerprint)

    def close(self) -> None:
        """Lets the snapshot be removed once it is out of force."""
        if "vectors" in self.__dict__:
            self.vectors.close()
        self._lock.close()


def folder_of(index: Path, number: int) -> Path:
    """Where a snapshot is."""
    return index / f"snapshot-{number}"


def lexical_tokens(node: Node) -> list[str]:
    """What BM25 reads of a node: title, breadcrumb, summary and own text."""
    from retriever.lexical.tokens import tokenize

    return tokenize("\n".join((node.title, *node.breadcrumb, node.summary, node.text)))


def build_snapshot(
    connection: sqlite3.Connection, index: Path, number: int, fingerprint: str, difference: Difference | None
) -> str:
    """Makes the folder of a snapshot out of the rows that the connection sees.

    Args:
        connection: in the transaction that will put the snapshot in force.
        index: the index's folder.
        number: the snapshot's; what a dead writer left under that name is removed.
        fingerprint: the encoder's; empty without vectors.
        difference: what is new since snapshot `number` - 1; None to build from scratch.

    Returns:
        Its manifest_hash, which belongs into the row that puts it in force.

    Raises:
        StorageError: the disk is full or read-only.
        SnapshotError: what was built does not add up.
    """
    folder = folder_of(index, number)
    _clear(folder)
    previous = folder_of(index, number - 1)
    if difference is None or not _can_patch(previous, fingerprint, difference):
        _build(connection, folder, fingerprint)
    else:
        try:
            _patch(connection, previous, folder, fingerprint, difference)
        except SnapshotError:  # the older one is damaged: nothing of it is needed
            _clear(folder)
            _build(connection, folder, fingerprint)
    return _finish(folder, fingerprint)


def renew_snapshot(connection: sqlite3.Connection, index: Path) -> int:
    """Makes the next snapshot from scratch, of the rows as they are, and puts it in force; its number.

    The connection is in the transaction that puts it in force; the errors are those of `build_snapshot`.
    """
    number = reading.snapshot_number(connection) + 1
    manifest_hash = build_snapshot(
        connection, index, number, reading.meta(connection, "fingerprint") or "", difference=None
    )
    for key, value in (("snapshot", str(number)), ("manifest_hash", manifest_hash)):
        writing.set_meta(connection, key, value)
    return number


def mark_unusable(index: Path, number: int) -> None:
    """Marks a snapshot as unusable, so that the next writer makes another; where nothing can be written, nothing."""
    with contextlib.suppress(OSError):
        (folder_of(index, number) / MANIFEST_NAME).unlink()


def remove_old_snapshots(index: Path, current: int) -> None:
    """Removes every snapshot but the current one, unless somebody reads it: the next writer tries again."""
    for folder in sorted(index.glob("snapshot-*")):
        if folder != folder_of(index, current) and not is_read(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _clear(folder: Path) -> None:
    """An empty snapshot folder, whatever a dead writer left there."""
    with writing_to(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        (folder / READERS_NAME).touch(mode=0o600)


def _can_patch(previous: Path, fingerprint: str, difference: Difference) -> bool:
    try:
        manifest = _read_manifest(previous)
        _check_sizes(previous, manifest)
    except (OSError, SnapshotError):
        return False
    changed = len(difference.removed_nodes) + len(difference.added_nodes)
    return manifest.fingerprint == fingerprint and changed <= REBUILD_SHARE * manifest.nodes


def _build(connection: sqlite3.Connection, folder: Path, fingerprint: str) -> None:
    from retriever.lexical.bm25 import build_lexical

    build_lexical(folder / "lexical", _tokens(reading.rankable_nodes(connection)))
    if fingerprint:
        from retriever.vectors import ChunkVectors, build_vectors

        build_vectors(
            folder / "chroma", fingerprint, ChunkVectors(*text_vectors.distinct_vectors(connection, fingerprint))
        )


def _patch(
    connection: sqlite3.Connection, previous: Path, folder: Path, fingerprint: str, difference: Difference
) -> None:
    from retriever.lexical.bm25 import patch_lexical

    for part in ("lexical", "chroma"):  # or the checksums of the new snapshot would approve the damage of this one
        _check_contents(previous, part, _read_manifest(previous))
    added = _tokens(reading.rankable_nodes(connection, difference.added_nodes))
    patch_lexical(previous / "lexical", folder / "lexical", difference.removed_nodes, added)
    if fingerprint:
        from retriever.vectors import ChunkVectors, patch_vectors

        added_chunks = ChunkVectors(*text_vectors.chunk_vectors(connection, fingerprint, difference.added_chunks))
        patch_vectors(previous / "chroma", folder / "chroma", fingerprint, difference.removed_chunks, added_chunks)


def _tokens(nodes: Iterable[reading.StoredNode]) -> dict[int, list[str]]:
    return {stored.key: lexical_tokens(stored.node) for stored in nodes}


def _finish(folder: Path, fingerprint: str) -> str:
    """Describes what was built and brings it to the disk; its manifest_hash."""
    from retriever.lexical.bm25 import LexicalIndex

    nodes = len(LexicalIndex.open(folder / "lexical"))
    with writing_to(folder):
        files = {path.relative_to(folder).as_posix(): _described(path) for path in _unchanging(folder)}
        manifest = Manifest(fingerprint, nodes, files)
        (folder / MANIFEST_NAME).write_text(json.dumps(asdict(manifest)), encoding="utf-8")
        for path in folder.rglob("*"):  # ChromaDB and numpy obey the umask
            path.chmod(0o700 if path.is_dir() else 0o600)
        for path in [*folder.rglob("*"), folder, folder.parent]:  # the commit that names them must not be older
            sync(path)
        return _hash_manifest(folder)


def _unchanging(folder: Path) -> list[Path]:
    """The files that readers never change; ChromaDB rewrites its own by opening them, and its inventory has those."""
    files = [*(folder / "lexical").rglob("*"), folder / "chroma" / "inventory.json"]
    return sorted(path for path in files if path.is_file())


def _described(path: Path) -> tuple[int, int]:
    """Size and checksum, at 2 GB/s: what a search may do each time it opens the file."""
    checksum = 0
    block = memoryview(bytearray(1 << 20))
    with FileIO(open_regular(path), "r") as file:
        while length := file.readinto(block):
            checksum = crc32(block[:length], checksum)
        return file.tell(), checksum


def _hash_manifest(folder: Path) -> str:
    """The SHA-256 of the manifest, which has the checksums of all else."""
    return sha256(read_file(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES)).hexdigest()


def _read_manifest(folder: Path) -> Manifest:
    try:
        content = json.loads(read_file(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES))
        if any(not {"", ".", ".."}.isdisjoint(name.split("/")) for name in content["files"]):
            raise ValueError("a file of another folder")
        return Manifest(content["fingerprint"], content["nodes"], content["files"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SnapshotError(f"{folder / MANIFEST_NAME} is damaged") from error


def _check_sizes(folder: Path, manifest: Manifest) -> None:
    for name, (size, _) in manifest.files.items():
        require_regular(folder / name)  # before a library opens it by its name
        if (folder / name).stat().st_size != size:
            raise SnapshotError(f"{folder / name} has not the size that it was written with")


def _check_contents(folder: Path, part: str, manifest: Manifest) -> None:
    """Reads the files of one part that opening does not change: a bit that flipped would give wrong answers."""
    try:
        for name, described in manifest.files.items():
            if name.startswith(f"{part}/") and _described(folder / name) != tuple(described):
                raise SnapshotError(f"{folder / name} is damaged")
    except OSError as error:
        raise SnapshotError(f"{folder / part} cannot be read: {error.strerror}") from error
