"""Snapshots: what an index in a folder derives from its rows, and searches beside them.

A snapshot is a folder that is derived from index.sqlite and never changed once it is in force:

    snapshot-17/lexical/         BM25, always
    snapshot-17/spellings/       words as they are written, to correct typos by
    snapshot-17/manifest.json    sizes of the files of these two, and how many sections they have
    snapshot-17/chroma/          ChromaDB, with a manifest of its own that names the snapshot whose vectors these are

snapshot-17/ is made beside snapshot-16/, from it or from scratch; the transaction that holds the new documents names
the new snapshot. Whatever dies in between leaves snapshot-16 in force. An update that a question waits for leaves
ChromaDB out: searches do without it, and the next `index` makes it anew.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

import numpy as np

from retriever.embedding.vectors import ExactIndex, VectorIndex, write_vectors
from retriever.errors import SnapshotError
from retriever.lexical.bm25 import LexicalIndex, build_lexical
from retriever.lexical.spelling import Spellings, build_spellings
from retriever.places.place import NO_PROGRESS, Derived, Difference
from retriever.places.view import View
from retriever.places.words import read_texts, tokenize_texts
from retriever.protocols import Progress
from retriever.settings.schema import APPROXIMATE, VectorChoice
from retriever.store import reading, text_vectors, writing
from retriever.store.database import Connection
from retriever.store.files import (
    Manifest,
    list_snapshots,
    next_snapshot,
    settle,
    sync,
    writing_to,
)
from retriever.store.reading import StoredState
from retriever.store.text_vectors import NearText
from retriever.types import FloatMatrix

CHROMA = "chroma"  # the folder in a snapshot


class Snapshot:
    """An open snapshot, which can be read to the end when a writer removes it meanwhile.

    The folder of another snapshot under its name is told by the `snapshot_id`. Raises SnapshotError when it is not
    there, not whole, or was not made by this version.
    """

    def __init__(self, index: Path, state: StoredState) -> None:
        folder = locate_snapshot(index, state.number)
        manifest = Manifest.read(folder)
        if manifest.snapshot != state.snapshot_id:
            raise SnapshotError(f"{folder} is not what index.sqlite names")
        manifest.check(folder)
        self.lexical = LexicalIndex.open(folder / "lexical")
        self.spellings = Spellings.open(folder / "spellings")


def locate_snapshot(index: Path, number: int) -> Path:
    return index / f"snapshot-{number}"


def has_chroma(index: Path, state: StoredState) -> bool:
    """Return whether the snapshot's ChromaDB exists and is of no older snapshot, without opening it."""
    try:
        return Manifest.read(locate_snapshot(index, state.number) / CHROMA).snapshot == state.snapshot_id
    except SnapshotError:
        return False


class DerivedFiles(Derived):
    """The snapshots of an index in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_whole(self, connection: Connection) -> bool:
        """Return whether the snapshot in force can be opened."""
        try:
            Snapshot(self._folder, reading.read_state(connection))
        except SnapshotError:
            return False
        return True

    def build(
        self, connection: Connection, difference: Difference | None = None, progress: Progress = NO_PROGRESS
    ) -> int:
        """Make the next snapshot, out of the one in force where that is whole."""
        current, older = reading.snapshot_number(connection), None
        number = max(current + 1, next_snapshot(self._folder))  # a name that nothing has
        folder = locate_snapshot(self._folder, number)
        with writing_to(folder):
            folder.mkdir(mode=0o700)
        if difference and self.is_whole(connection):
            older = locate_snapshot(self._folder, current)
        else:
            difference = Difference((), list(reading.prefixes(connection)))
        texts = read_texts(connection, difference.documents)
        progress.start("spellings", 1, "steps")
        written = {key: item.written for key, item in texts.items()}
        build_spellings(folder / "spellings", written, older and older / "spellings", difference.removed)
        progress.finish("spellings")
        tokens = tokenize_texts(texts, progress)
        del texts, written  # as large as the documents, and what is made of the tokens is larger
        build_lexical(folder / "lexical", tokens, older and older / "lexical", difference.removed)
        snapshot_id = token_hex(16)
        Manifest(snapshot_id).write(folder)
        settle(folder)
        writing.set_meta(connection, "snapshot", str(number))
        writing.set_meta(connection, "snapshot_id", snapshot_id)
        return number

    def update_graph(self, connection: Connection, progress: Progress = NO_PROGRESS) -> None:
        """Write ChromaDB's folder of the snapshot in force."""
        state = reading.read_state(connection)
        place = locate_snapshot(self._folder, state.number)
        if not state.fingerprint or state.embedded_share < 1:  # it would lack the ones to come
            return
        if not place.is_dir() or has_chroma(self._folder, state):
            return
        keys = text_vectors.distinct_keys(connection, state.fingerprint)
        load = partial(text_vectors.chunk_vectors, connection, state.fingerprint)
        progress.start("ordering", len(keys), "vectors")
        with (
            writing_to(place),
            # Under a name of its own: what ChromaDB could not open once it opens never again in this process.
            TemporaryDirectory(prefix=f"{CHROMA}.draft-", dir=place, ignore_cleanup_errors=True) as name,
        ):
            draft = Path(name, CHROMA)
            write_vectors(draft, state.fingerprint, state.snapshot_id, keys, load)
            if (place / CHROMA).exists():
                shutil.rmtree(place / CHROMA)  # which follows no link
            draft.rename(place / CHROMA)
            sync(place)
        progress.finish("ordering")

    def remove_old(self, current: int) -> None:
        """Remove every snapshot but the current one: a reader's files stay open, and on Windows in their place."""
        for older in list_snapshots(self._folder):
            if older != locate_snapshot(self._folder, current):
                shutil.rmtree(older, ignore_errors=True)

    def examine(self, connection: Connection) -> Iterator[tuple[str, SnapshotError | None]]:
        """Compare the snapshot in force with its manifests and with the rows."""
        state = reading.read_state(connection)
        chroma = locate_snapshot(self._folder, state.number) / CHROMA
        try:
            found, wanted = len(Snapshot(self._folder, state).lexical), reading.counts(connection).sections
            yield "words", SnapshotError(f"the words are of {found:,} of {wanted:,}") if found != wanted else None
            if chroma.exists() and os.access(chroma, os.W_OK):  # ChromaDB writes to what it opens
                VectorIndex(chroma, state.fingerprint, state.snapshot_id).close()
                yield "vectors in ChromaDB", None
        except SnapshotError as error:
            yield "files", error


@dataclass(kw_only=True)
class FolderView(View):
    """As `View`, of the snapshot in force."""

    folder: Path

    def open_lexical(self) -> LexicalIndex:
        """Open BM25 over all nodes."""
        return self._snapshot.lexical

    @property
    def spellings(self) -> Spellings:
        """The words of the documents."""
        return self._snapshot.spellings

    def find_nearest(self, vector: FloatMatrix, limit: int, how: VectorChoice) -> list[NearText]:
        """Return the nearest texts, by a scan of all vectors or by ChromaDB; SnapshotError where that fails."""
        # Of a part, a graph would find too few: those that lie on the way to others are left out.
        asks_chroma = how in APPROXIMATE and self.part is None and self.state.embedded_share == 1
        # It may have the vectors of an older state, or none.
        asks_chroma = asks_chroma and has_chroma(self.folder, self.state)
        search: VectorIndex | ExactIndex = self._chroma if asks_chroma else self.scan
        nearest = search.search(vector, limit)
        query = text_vectors.NEAR_TEXTS % reading.GIVEN
        rows = reading.select(self.connection, query, nearest, self.state.fingerprint)
        return text_vectors.near_texts(rows, vector, self.common)

    @cached_property
    def scan(self) -> ExactIndex:
        """The exact scan over the vectors of all texts."""
        if self.whole is not None and self.part is not None:
            scan = self.whole.scan
            first = text_vectors.first_chunks(self.connection, self.part.node_keys)
            return scan.restrict(np.isin(scan.keys, first))
        return ExactIndex(*text_vectors.distinct_vectors(self.connection, self.state.fingerprint))

    @cached_property
    def _snapshot(self) -> Snapshot:
        if self.whole is not None:
            return self.whole._snapshot
        return Snapshot(self.folder, self.state)

    @cached_property
    def _chroma(self) -> VectorIndex:
        folder = locate_snapshot(self.folder, self.state.number) / CHROMA
        return VectorIndex(folder, self.state.fingerprint, self.state.snapshot_id)

    def close(self) -> None:
        """Close ChromaDB."""
        if "_chroma" in self.__dict__:
            self._chroma.close()
