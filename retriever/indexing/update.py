"""Folders and an index -> an up-to-date index. Touches only what changed; the one place that writes."""

import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from pageindex.files import Listing, Skipped
from retriever.embedding import open_encoder
from retriever.errors import DocumentsError, EncoderError, SnapshotError
from retriever.indexing import model_change
from retriever.indexing.changes import Changes, find_suspects, list_documents, list_folders, read_suspects
from retriever.indexing.consent import name_folders, named_folders, refusal
from retriever.indexing.embed import Embedded, chunks_of, embed_chunks
from retriever.indexing.request import IndexRequest, is_other_model
from retriever.indexing.snapshot import Difference, Snapshot, build_snapshot, remove_old_snapshots
from retriever.indexing.summaries import apply_known_summaries
from retriever.store import reading, text_vectors, writing
from retriever.store.database import create_database, transaction, translate_sqlite_errors, verify_on_error
from retriever.store.locks import writer_lock
from retriever.store.model_change import former_model, put_former
from retriever.store.reading import StoredFolder
from retriever.store.writing import text_hash
from retriever.types import Chunk, Encoder, IndexReport, Progress

if TYPE_CHECKING:
    from pageindex.document import Document


def update_index(request: IndexRequest, progress: Progress) -> IndexReport:
    """Brings an index up to date with its folders.

    Raises:
        DocumentsError: a folder is missing, unreadable or without documents; nothing was written.
        IndexUnusableError: the index is locked, damaged, of another format, or the disk is full or read-only.
        EncoderError: the embedding model failed; what it had done is kept, and the index is as it was.
        SnapshotError: ChromaDB failed otherwise.
    """
    started = time.perf_counter()
    listings = list_folders(request.docs, request.profile.documents)  # before the index is touched, or made
    with (
        writer_lock(request.index, request.wait_s) as waited,
        translate_sqlite_errors(request.index),
        closing(create_database(request.index)) as connection,
        verify_on_error(connection, request.index),
    ):
        if waited:
            listings = list_folders(request.docs, request.profile.documents)
        if request.docs:
            name_folders(request.index, request.docs, request.settings.get("documents", {}))
        report = _Update(request, connection, progress).run(listings)
    return replace(report, seconds=time.perf_counter() - started)


class _Update:
    """One run of the writer, which holds the lock."""

    def __init__(self, request: IndexRequest, connection: sqlite3.Connection, progress: Progress) -> None:
        self._request = request
        self._index = request.index
        self._connection = connection
        self._progress = progress
        self._number = reading.snapshot_number(connection)
        self._anew = reading.meta(connection, "recipe") != request.recipe

    def run(self, listings: Mapping[str, Listing]) -> IndexReport:
        """Looks, reads, embeds, and commits: in this order, so that whatever fails leaves the index as it was."""
        remove_old_snapshots(self._index, self._number)
        tried = 0
        if is_other_model(self._connection, self._request) or self._has_another_model():
            tried = self._change_model(self._encoder)
        changes = self._all_changes(listings)
        embedded = Embedded()
        is_new = self._anew or any(change.rows or change.removed for change in changes)
        if is_new or not self._is_whole():
            encoder = self._encoder
            if not self._anew and self._is_other(encoder):  # behind the same name
                tried = self._change_model(encoder)
            parsed = [self._parse(change) for change in changes]
            chunks = self._chunk(parsed, encoder)
            embedded = embed_chunks(self._connection, encoder, chunks, self._progress)
            self._commit(changes, parsed, chunks, encoder)
            remove_old_snapshots(self._index, self._number)
        else:
            with transaction(self._connection):
                self._note(changes)
                self._remember()
        return self._report(changes, replace(embedded, new=embedded.new + tried + self._read_on()))

    def _change_model(self, encoder: Encoder | None) -> int:
        """Begins to put another model in the place of the former, which answers meanwhile; without any, all is new.

        Returns:
            How many texts were embedded.
        """
        embedded = 0
        if encoder is not None and reading.meta(self._connection, "fingerprint"):
            embedded = model_change.begin(self._connection, self._request, encoder)
            self._number = reading.snapshot_number(self._connection)
            self._anew = False
            remove_old_snapshots(self._index, self._number)
        return embedded

    def _read_on(self) -> int:
        """Goes on with a change of the model, if there is one, as long as the request allows."""
        if former_model(self._connection) is None:
            return 0
        assert self._encoder is not None, "a model takes the place of another"
        budget = model_change.Budget(self._request.change_s)
        embedded = model_change.read_on(self._connection, self._request, self._encoder, budget, self._progress)
        self._number = reading.snapshot_number(self._connection)
        remove_old_snapshots(self._index, self._number)
        return embedded

    @cached_property
    def _encoder(self) -> Encoder | None:
        return self._request.encoder or open_encoder(self._request.profile.encoder)

    def _has_another_model(self) -> bool:
        """Whether a server has another model behind the name by now; of local ones the recipe knows."""
        asks_server = self._request.profile.encoder.kind in {"ollama", "openai"} and self._request.encoder is None
        if not asks_server or not self._request.docs:  # a question must not wait for it, `index` may
            return False
        try:
            return self._is_other(self._encoder)
        except EncoderError:
            return False  # nothing is to be embedded, so it is not needed

    def _is_other(self, encoder: Encoder | None) -> bool:
        return encoder is not None and encoder.fingerprint != reading.meta(self._connection, "fingerprint")

    def _all_changes(self, listings: Mapping[str, Listing]) -> list[Changes]:
        return [self._changes(folder, listings) for folder in self._folders(listings)]

    def _folders(self, listings: Mapping[str, Listing]) -> list[StoredFolder]:
        """Those of the index, then the new ones, which have the key 0."""
        folders = list(reading.folders(self._connection))
        for path in listings:
            if path not in {folder.path for folder in folders}:
                folders.append(StoredFolder(0, path, _prefix(Path(path).name, folders)))
        return folders

    def _changes(self, folder: StoredFolder, listings: Mapping[str, Listing]) -> Changes:
        known = reading.documents(self._connection, folder.key)
        if self._anew:  # a digest that no content has: every document differs
            known = {path: replace(document, size=-1, digest="") for path, document in known.items()}
        listing = listings.get(folder.path)
        try:
            if listing is None and folder.path not in named_folders(self._index).folders:
                raise DocumentsError(refusal([folder.path]))
            listing = listing or list_documents(Path(folder.path), self._request.profile.documents)
        except DocumentsError as error:
            return self._unlisted(folder, len(known), error)
        return read_suspects(find_suspects(folder, known, listing), self._request.profile.documents.max_file_bytes)

    def _unlisted(self, folder: StoredFolder, known: int, error: DocumentsError) -> Changes:
        """What is known of a folder that is away: it may come back, so it stays, and the report says so.

        Raises:
            DocumentsError: everything is made anew, and for that its documents are needed.
        """
        if self._anew:
            raise DocumentsError(f"{error}; bring it back, or make another index with --index") from error
        return Changes(folder, unchanged=known, skipped=(Skipped(".", f"the folder is kept as it was: {error}"),))

    def _is_whole(self) -> bool:
        """Whether the snapshot in force can be opened."""
        try:
            Snapshot(self._index, self._number, reading.manifest_hash(self._connection)).close()
        except SnapshotError:
            return False
        return True

    def _parse(self, change: Changes) -> "dict[str, Document]":
        """The new and changed documents of a folder, by path."""
        from pageindex.document import parse_document  # 50 ms, when there is something to parse

        documents = {}
        rows = [*change.added, *change.changed]
        self._progress.start("reading", len(rows), "files")
        for done, (stat, text) in enumerate(rows, start=1):
            document = parse_document(stat.path, text.text, change.folder.prefix)
            documents[stat.path] = replace(document, warnings=(*text.warnings, *document.warnings))
            self._progress.advance("reading", done)
        self._progress.finish("reading")
        return documents

    def _chunk(self, parsed: "Sequence[Mapping[str, Document]]", encoder: Encoder | None) -> list[Chunk]:
        nodes = [placed.node for documents in parsed for item in documents.values() for placed in item.nodes]
        return chunks_of(nodes, encoder, self._request.profile.chunks)

    def _commit(
        self,
        changes: Sequence[Changes],
        parsed: "list[dict[str, Document]]",
        chunks: list[Chunk],
        encoder: Encoder | None,
    ) -> None:
        """One transaction holds the new rows and the name of the snapshot that was made of them.

        Empties `parsed` and `chunks` when they are written.
        """
        number = self._number + 1
        fingerprint = encoder.fingerprint if encoder else ""
        self._progress.start("writing", 2, "steps")
        with transaction(self._connection):
            difference = self._write_rows(changes, parsed, chunks)
            parsed.clear()  # with the chunks, most of the memory there is, which the snapshot needs for its own
            chunks.clear()
            self._progress.advance("writing", 1)
            whole = not self._anew and self._is_whole()
            since = difference if whole else None
            manifest_hash = build_snapshot(self._connection, self._index, number, fingerprint, since)
            from retriever.indexing.background import renewed

            writing.set_meta(self._connection, "unrelated", renewed(self._connection, encoder))
            self._remember()
            if self._anew:
                put_former(self._connection, None)
            for key, value in (
                ("snapshot", str(number)),
                ("manifest_hash", manifest_hash),
                ("fingerprint", fingerprint),
            ):
                writing.set_meta(self._connection, key, value)
        self._number = number
        self._progress.advance("writing", 2)
        self._progress.finish("writing")

    def _write_rows(
        self, changes: Sequence[Changes], parsed: "Sequence[Mapping[str, Document]]", chunks: Sequence[Chunk]
    ) -> Difference:
        old = [document.key for change in changes for document in change.replaced]
        removed = reading.rankable_keys(self._connection, old)
        hashes = self._hashes(old, chunks)
        before = text_vectors.first_chunks(self._connection, hashes)
        writing.remove_documents(self._connection, old)
        folders = self._note(changes)
        new = []
        for change, folder, documents in zip(changes, folders, parsed, strict=True):
            for stat, _ in change.rows:
                new.append(writing.put_document(self._connection, folder.key, stat, documents[stat.path]))
        writing.put_chunks(self._connection, chunks)
        apply_known_summaries(self._connection, self._request.profile.summaries, new)
        for folder in folders:
            writing.set_link_targets(self._connection, folder)
        after = text_vectors.first_chunks(self._connection, hashes)
        added = reading.rankable_keys(self._connection, new)
        return Difference(removed, added, sorted(before - after), sorted(after - before))

    def _hashes(self, old: Sequence[int], chunks: Sequence[Chunk]) -> set[bytes]:
        """Of the texts that some chunk loses or gets; none when everything is made anew, where nobody asks."""
        if self._anew:
            return set()
        new = {text_hash(chunk.embedded_text) for chunk in chunks}
        return new | text_vectors.hashes_of_documents(self._connection, old)

    def _note(self, changes: Sequence[Changes]) -> list[StoredFolder]:
        """Keeps what was looked at and is no new content: folders, sizes and times, what cannot be read."""
        folders = []
        for change in changes:
            folder = change.folder if change.folder.key else writing.add_folder(self._connection, change.folder)
            writing.set_stat(self._connection, change.touched)
            writing.set_skipped(self._connection, folder.key, change.unreadable, change.skipped)
            folders.append(folder)
        return folders

    def _remember(self) -> None:
        """Keeps the settings: what is asked of this index later begins with them."""
        for key, value in self._request.kept.items():
            writing.set_meta(self._connection, key, value)

    def _report(self, changes: Sequence[Changes], embedded: Embedded) -> IndexReport:
        counts = reading.counts(self._connection)
        return IndexReport(
            path=str(self._index),
            folders=tuple(folder.path for folder in reading.folders(self._connection)),
            added=sum(len(change.added) for change in changes),
            changed=sum(len(change.changed) for change in changes),
            moved=sum(change.moved for change in changes),
            removed=sum(len(change.removed) for change in changes),
            unchanged=sum(change.unchanged + len(change.touched) for change in changes),
            documents=counts.documents,
            sections=counts.sections,
            chunks=counts.chunks,
            embedded=embedded.new,
            reused_vectors=embedded.reused,
            skipped=reading.skipped(self._connection),
            seconds=0.0,
            snapshot=self._number,
        )


def _prefix(name: str, folders: Sequence[StoredFolder]) -> str:
    """What the ids of a new folder's nodes begin with: nothing for the first folder, then the folder's name."""
    taken = {folder.prefix for folder in folders}
    names = chain([f"{name}:"], (f"{name}~{number}:" for number in count(2)))
    return next(prefix for prefix in names if prefix not in taken) if taken else ""
