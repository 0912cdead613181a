"""Snapshots: what an index in a folder derives from its rows, and searches beside them.

A snapshot is a folder that is derived from index.sqlite and never changed once it is in force:

    snapshot-9f2c61d04be7a835/lexical/         BM25, always
    snapshot-9f2c61d04be7a835/spellings/       words as they are written, to correct typos by
    snapshot-9f2c61d04be7a835/chroma/          ChromaDB, with a manifest: sizes of its files

A snapshot is made beside the one in force, from it or from scratch; the transaction that holds the new documents names
the new one. Whatever dies in between leaves the old one in force. An update that a question waits for leaves ChromaDB
out: searches do without it, and the next `index` makes it anew.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

from retriever.embedding.vectors import ExactIndex, VectorIndex, write_vectors
from retriever.errors import SnapshotError
from retriever.lexical.bm25 import LexicalIndex, build_postings
from retriever.lexical.sections import read_texts, tokenize_texts
from retriever.lexical.spelling import Spellings, list_words
from retriever.places import NO_PROGRESS, Derived, Difference
from retriever.places.view import View
from retriever.settings import APPROXIMATE, VectorChoice
from retriever.store import reading, text_vectors, writing
from retriever.store.database import Connection
from retriever.store.files import (
    SNAPSHOT_DIGITS,
    list_snapshots,
    settle,
    sync,
    writing_to,
)
from retriever.store.text_vectors import NearChunk
from retriever.types import FloatMatrix, Progress

CHROMA = "chroma"  # the folder in a snapshot


class Snapshot:
    """An open snapshot, which can be read to the end when a writer removes it meanwhile.

    Raises SnapshotError when it is not there, not whole, or was not made by this version.
    """

    def __init__(self, index: Path, name: str) -> None:
        folder = locate_snapshot(index, name)
        self.lexical = LexicalIndex.open(folder / "lexical")
        self.spellings = Spellings.open(folder / "spellings")


def locate_snapshot(index: Path, name: str) -> Path:
    return index / f"snapshot-{name}"


class DerivedFiles(Derived):
    """The snapshots of an index in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_whole(self, connection: Connection) -> bool:
        """Return whether the snapshot in force can be opened."""
        try:
            Snapshot(self._folder, reading.snapshot(connection))
        except SnapshotError:
            return False
        return True

    def build(
        self, connection: Connection, difference: Difference | None = None, progress: Progress = NO_PROGRESS
    ) -> str:
        """Make the next snapshot, out of the one in force where that is whole."""
        name, older = token_hex(SNAPSHOT_DIGITS // 2), None
        folder = locate_snapshot(self._folder, name)
        with writing_to(folder):
            folder.mkdir(mode=0o700)
        if difference and self.is_whole(connection):
            older = locate_snapshot(self._folder, reading.snapshot(connection))
        else:
            difference = Difference((), reading.document_keys(connection))
        texts = read_texts(connection, difference.documents)
        progress.start("spellings", 1, "steps")
        words = list_words({key: item.written for key, item in texts.items()})
        build_postings(folder / "spellings", words, older and older / "spellings", difference.removed)
        progress.finish("spellings")
        tokens = tokenize_texts(texts, progress)
        del texts, words  # as large as the documents, and what is made of the tokens is larger
        build_postings(folder / "lexical", tokens, older and older / "lexical", difference.removed)
        settle(folder)
        writing.set_meta(connection, "snapshot", name)
        return name

    def update_graph(self, connection: Connection, progress: Progress = NO_PROGRESS) -> None:
        """Write ChromaDB's folder of the snapshot in force."""
        state = reading.read_state(connection)
        place = locate_snapshot(self._folder, state.snapshot)
        if not state.fingerprint or state.embedded_share < 1:  # it would lack the ones to come
            return
        if not place.is_dir() or (place / CHROMA).exists():
            return
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
            sync(place)
        progress.finish("ordering")

    def remove_old(self, current: str) -> None:
        """Remove every snapshot but the current one: a reader's files stay open, and on Windows in their place."""
        for older in list_snapshots(self._folder):
            if older != locate_snapshot(self._folder, current):
                shutil.rmtree(older, ignore_errors=True)

    def examine(self, connection: Connection) -> Iterator[tuple[str, SnapshotError | None]]:
        """Compare the snapshot in force with its manifest and with the rows."""
        state = reading.read_state(connection)
        chroma = locate_snapshot(self._folder, state.snapshot) / CHROMA
        try:
            found, wanted = len(Snapshot(self._folder, state.snapshot).lexical), reading.counts(connection).sections
            yield "words", SnapshotError(f"the words are of {found:,} of {wanted:,}") if found != wanted else None
            if chroma.exists() and os.access(chroma, os.W_OK):  # ChromaDB writes to what it opens
                VectorIndex(chroma, state.fingerprint).close()
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

    @cached_property
    def _snapshot(self) -> Snapshot:
        if self.whole is not None:
            return self.whole._snapshot
        return Snapshot(self.folder, self.state.snapshot)

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
