"""Folders and an index -> an up-to-date index. Touches only what changed; the one place that writes."""

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pageindex.corpus import Listing, Skipped
from retriever.changes import Changes, find_suspects, list_documents, read_suspects
from retriever.chunking import Counter, chunk_nodes
from retriever.embedding import open_encoder
from retriever.errors import DocumentsError, GenerationError
from retriever.generation import Difference, Generation, build_generation, remove_old_generations
from retriever.locks import writer_lock
from retriever.profile import Profile
from retriever.store import reading, writing
from retriever.store.database import create_database, foreign_errors, transaction
from retriever.store.reading import StoredFolder
from retriever.store.writing import text_hash
from retriever.types import Chunk, Encoder, IndexReport, Progress, as_token_encoder

if TYPE_CHECKING:
    from pageindex.document import Document

RECIPE_VERSION = 1
"""Rises when the same documents and settings give other nodes, chunks or tokens: everything is then made anew, and
only texts that the encoder has never read are embedded."""
TEXTS_AT_ONCE = 256
"""Vectors are stored after so many texts: an interruption loses a few seconds of work at most."""
WAIT_FOR_WRITER_S = 10.0


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """What is to be indexed, where, and how."""

    index: Path
    docs: tuple[Path, ...]
    """Folders to index, absolute; those that the index holds already are looked at too."""
    profile: Profile
    settings: Mapping[str, Any]
    """The index sections of the settings that were given; the index remembers them."""
    encoder: Encoder | None = None
    """The caller's own; None for the one of the profile."""
    wait_s: float = WAIT_FOR_WRITER_S
    """How long to wait for another writer, in seconds."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """What became of the texts of new chunks."""

    new: int = 0
    """Texts that the encoder read."""
    reused: int = 0
    """Texts whose vectors were there already."""


def update_index(request: IndexRequest, progress: Progress) -> IndexReport:
    """Brings an index up to date with its folders.

    Raises:
        DocumentsError: a folder is missing, unreadable or without documents; nothing was written.
        IndexUnusableError: the index is locked, damaged, of a newer format, or the disk is full or read-only.
        EncoderError: the embedding model failed; what it had done is kept, and the index is as it was.
    """
    started = time.perf_counter()
    listings = _listings(request)  # before the index is touched: a folder without documents makes none
    with (
        writer_lock(request.index, request.wait_s) as waited,
        foreign_errors(request.index),
        closing(create_database(request.index)) as connection,
    ):
        listings = _listings(request) if waited else listings
        report = _Update(request, connection, progress).run(listings)
    return replace(report, seconds=time.perf_counter() - started)


def recipe(profile: Profile, encoder: Encoder | None = None) -> str:
    """What decides how documents become nodes, chunks and vectors; another recipe makes every document anew."""
    chosen = profile.encoder
    model = (chosen.kind, chosen.model, chosen.query_prefix, chosen.document_prefix, chosen.max_tokens)
    return json.dumps([RECIPE_VERSION, encoder.fingerprint if encoder else model, asdict(profile.chunks)])


def is_made_as(connection: sqlite3.Connection, request: IndexRequest) -> bool:
    """Whether an index was made with the settings of a request: otherwise an update would make all of it anew."""
    kept = (reading.meta(connection, "recipe"), reading.meta(connection, "documents"))
    return kept == (recipe(request.profile, request.encoder), _documents(request.profile))


def _documents(profile: Profile) -> str:
    """What decides which files are documents."""
    return json.dumps(asdict(profile.documents))


def _listings(request: IndexRequest) -> dict[str, Listing]:
    return {str(path): _listing(path, request.profile) for path in request.docs}


def _listing(path: Path, profile: Profile) -> Listing:
    listing = list_documents(path, profile.documents)
    if not listing.files:
        endings = ", ".join(profile.documents.suffixes)
        raise DocumentsError(f"{path} holds no documents ({endings}); name the folder that does")
    return listing


class _Update:
    """One run of the writer, which holds the lock."""

    def __init__(self, request: IndexRequest, connection: sqlite3.Connection, progress: Progress) -> None:
        self._request = request
        self._index = request.index
        self._connection = connection
        self._progress = progress
        self._number = reading.generation_number(connection)
        self._recipe = recipe(request.profile, request.encoder)
        self._anew = reading.meta(connection, "recipe") != self._recipe

    def run(self, listings: Mapping[str, Listing]) -> IndexReport:
        """Looks, reads, embeds, and commits: in this order, so that whatever fails leaves the index as it was."""
        remove_old_generations(self._index, self._number)
        changes = self._all_changes(listings)
        embedded = Embedded()
        if self._anew or any(change.rows or change.removed for change in changes) or not self._is_whole():
            encoder = self._open_encoder()
            fingerprint = encoder.fingerprint if encoder else ""
            if fingerprint != reading.meta(self._connection, "fingerprint") and not self._anew:
                self._anew = True  # another model behind the same name
                changes = self._all_changes(listings)
            parsed = [self._parse(change) for change in changes]
            chunks = self._chunk(parsed, encoder)
            embedded = self._embed(chunks, encoder)
            self._commit(changes, parsed, chunks, encoder)
            remove_old_generations(self._index, self._number)
        else:
            with transaction(self._connection):
                self._note(changes)
                self._remember()
        return self._report(changes, embedded)

    def _open_encoder(self) -> Encoder | None:
        return self._request.encoder or open_encoder(self._request.profile.encoder)

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
            known = {path: replace(document, mtime_ns=-1, digest="") for path, document in known.items()}
        listing = listings.get(folder.path)
        try:
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
        """Whether the generation in force can be opened."""
        try:
            Generation(self._index, self._number, reading.seal(self._connection)).close()
        except GenerationError:
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
        counter = encoder.count_tokens if encoder else _bundled_counter()
        return list(chain.from_iterable(chunk_nodes(nodes, counter, self._request.profile.chunks)))

    def _embed(self, chunks: Sequence[Chunk], encoder: Encoder | None) -> Embedded:
        """Stores the vectors that are not there yet, some seconds of work at a time."""
        if encoder is None:
            return Embedded()
        texts = {text_hash(chunk.embedded_text): chunk.embedded_text for chunk in chunks}
        known = reading.known_hashes(self._connection, encoder.fingerprint)
        missing = [(key, text) for key, text in texts.items() if key not in known]
        self._progress.start("embedding", len(missing), "texts")
        for start in range(0, len(missing), TEXTS_AT_ONCE):
            some = missing[start : start + TEXTS_AT_ONCE]
            self._store(encoder, [key for key, _ in some], [text for _, text in some])
            self._progress.advance("embedding", start + len(some))
        self._progress.finish("embedding")
        return Embedded(len(missing), len(texts) - len(missing))

    def _store(self, encoder: Encoder, hashes: Sequence[bytes], texts: Sequence[str]) -> None:
        from retriever.embedding.rows import checked_rows  # numpy: not where nothing is embedded

        tokens = None
        if (token_encoder := as_token_encoder(encoder)) is not None:
            vectors, tokens = token_encoder.encode_documents_and_tokens(texts)
        else:
            vectors = encoder.encode_documents(texts)
        vectors = checked_rows(vectors, len(texts), encoder.dimension)
        with transaction(self._connection):
            writing.put_vectors(self._connection, encoder.fingerprint, hashes, vectors)
            if tokens is not None:
                writing.put_tokens(self._connection, encoder.fingerprint, hashes, tokens)

    def _commit(
        self,
        changes: Sequence[Changes],
        parsed: "Sequence[Mapping[str, Document]]",
        chunks: Sequence[Chunk],
        encoder: Encoder | None,
    ) -> None:
        """One transaction holds the new rows and the name of the generation that was made of them."""
        number = self._number + 1
        fingerprint = encoder.fingerprint if encoder else ""
        self._progress.start("writing", 2, "steps")
        with transaction(self._connection):
            difference = self._write_rows(changes, parsed, chunks)
            self._progress.advance("writing", 1)
            whole = not self._anew and self._is_whole()
            since = difference if whole else None
            seal = build_generation(self._connection, self._index, number, fingerprint, since)
            from retriever.unrelated import renewed

            writing.set_meta(self._connection, "unrelated", renewed(self._connection, encoder))
            self._remember()
            for key, value in (("generation", str(number)), ("seal", seal), ("fingerprint", fingerprint)):
                writing.set_meta(self._connection, key, value)
        self._number = number
        self._progress.advance("writing", 2)
        self._progress.finish("writing")

    def _write_rows(
        self, changes: Sequence[Changes], parsed: "Sequence[Mapping[str, Document]]", chunks: Sequence[Chunk]
    ) -> Difference:
        old = [document.key for change in changes for document in change.replaced]
        removed = reading.keys_of_documents(self._connection, old)
        writing.remove_documents(self._connection, old)
        folders = self._note(changes)
        new = []
        for change, folder, documents in zip(changes, folders, parsed, strict=True):
            for stat, _ in change.rows:
                new.append(writing.put_document(self._connection, folder.key, stat, documents[stat.path]))
        writing.put_chunks(self._connection, chunks)
        for folder in folders:
            writing.set_link_targets(self._connection, folder)
        added = reading.keys_of_documents(self._connection, new)
        return Difference(removed[0], added[0], removed[1], added[1])

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
        settings = json.dumps(self._request.settings, sort_keys=True)
        kept = {"settings": settings, "recipe": self._recipe, "documents": _documents(self._request.profile)}
        for key, value in kept.items():
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
            generation=self._number,
        )


def _bundled_counter() -> Counter:
    """What measures chunks when there is no encoder: a later one will find them of a good length."""
    from retriever.embedding.onnx import BUNDLED_MODEL
    from retriever.embedding.tokens import Tokens

    return Tokens.in_file(BUNDLED_MODEL / "tokenizer.json").count


def _prefix(name: str, folders: Sequence[StoredFolder]) -> str:
    """What the ids of a new folder's nodes begin with: nothing for the first folder, then the folder's name."""
    taken = {folder.prefix for folder in folders}
    names = chain([f"{name}:"], (f"{name}~{number}:" for number in count(2)))
    return next(prefix for prefix in names if prefix not in taken) if taken else ""
