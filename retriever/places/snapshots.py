"""An index in a folder: the ChromaDB beside its rows, and one state of it, as searches see it.

    snapshot-9f2c61d04be7a835/chroma/          ChromaDB, with a manifest: sizes of its files

A snapshot is named by the state of index.sqlite that it was made of, and never changes. An update that a question waits
for leaves it out: searches do without it, and the next `index` makes it anew.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from retriever.embedding.vectors import ExactIndex, VectorIndex, write_vectors
from retriever.errors import SnapshotError
from retriever.places.derived import NO_PROGRESS, Derived
from retriever.places.view import View
from retriever.settings import APPROXIMATE, VectorChoice
from retriever.store import reading, text_vectors
from retriever.store.database import Connection
from retriever.store.files import list_snapshots, make_private_folder, writing_to
from retriever.store.text_vectors import NearChunk
from retriever.types import FloatMatrix, Progress

CHROMA = "chroma"  # the folder in a snapshot


def locate_snapshot(index: Path, name: str) -> Path:
    return index / f"snapshot-{name}"


class DerivedFiles(Derived):
    """The words, and ChromaDB in a folder of the index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def update_graph(self, connection: Connection, progress: Progress = NO_PROGRESS) -> None:
        """Write ChromaDB's folder of the state in force."""
        state = reading.read_state(connection)
        place = locate_snapshot(self._folder, state.snapshot)
        if not state.fingerprint or state.embedded_share < 1:  # it would lack the ones to come
            return
        if (place / CHROMA).exists():
            return
        with writing_to(place):
            make_private_folder(place)
        keys, matrix = text_vectors.distinct_vectors(connection, state.fingerprint)
        progress.start("ordering", len(keys), "vectors")
        with (
            writing_to(place),
            # Under a name of its own: what ChromaDB could not open once it opens never again in this process.
            TemporaryDirectory(prefix=f"{CHROMA}.draft-", dir=place, ignore_cleanup_errors=True) as name,
        ):
            draft = Path(name, CHROMA)
            write_vectors(draft, state.fingerprint, keys, matrix)
            draft.rename(place / CHROMA)
        progress.finish("ordering")

    def remove_old(self, current: str) -> None:
        """Remove every snapshot but the current one: a reader's files stay open, and on Windows in their place."""
        for older in list_snapshots(self._folder):
            if older != locate_snapshot(self._folder, current):
                shutil.rmtree(older, ignore_errors=True)

    def examine(self, connection: Connection) -> Iterator[tuple[str, SnapshotError | None]]:
        """Compare the words with the rows, and open ChromaDB."""
        yield from super().examine(connection)
        state = reading.read_state(connection)
        chroma = locate_snapshot(self._folder, state.snapshot) / CHROMA
        if chroma.exists() and os.access(chroma, os.W_OK):  # ChromaDB writes to what it opens
            try:
                VectorIndex(chroma, state.fingerprint).close()
                yield "vectors in ChromaDB", None
            except SnapshotError as error:
                yield "files", error


@dataclass(kw_only=True)
class FolderView(View):
    """As `View`, with the snapshot of that state."""

    folder: Path

    def find_nearest(self, vector: FloatMatrix, limit: int, how: VectorChoice) -> list[NearChunk]:
        """Return the nearest texts, by a scan of all vectors or by ChromaDB; SnapshotError where that fails."""
        # Of a part, a graph would find too few: those that lie on the way to others are left out.
        is_whole = self.part is None and self.state.embedded_share == 1
        asks_chroma = how in APPROXIMATE and is_whole and self._chroma_folder.exists()
        search: VectorIndex | ExactIndex = self._chroma if asks_chroma else self.scan
        nearest = search.search(vector, limit)
        query = text_vectors.NEAR_TEXTS % reading.GIVEN
        rows = reading.select(self.connection, query, nearest, self.state.fingerprint)
        return text_vectors.near_chunks(rows, vector, self.common)

    @cached_property
    def scan(self) -> ExactIndex:
        """The exact scan over the vectors of all texts that may be found."""
        node_keys = self.part.node_keys if self.part is not None else None
        return ExactIndex(*text_vectors.distinct_vectors(self.connection, self.state.fingerprint, node_keys))

    @property
    def _chroma_folder(self) -> Path:
        return locate_snapshot(self.folder, self.state.snapshot) / CHROMA

    @cached_property
    def _chroma(self) -> VectorIndex:
        return VectorIndex(self._chroma_folder, self.state.fingerprint)

    def close(self) -> None:
        """Close ChromaDB."""
        if "_chroma" in self.__dict__:
            self._chroma.close()
