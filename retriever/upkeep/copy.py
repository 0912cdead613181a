"""An index made of another one, in the state of one moment.

The other one may come from anybody. Texts, settings, what was forgotten and vectors are taken from it; everything else
is made anew of them, as `index` would, without embedding a text.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from pageindex.corpus import DocumentText, Listing, SourceFile, UnreadableDocumentError
from pageindex.dialects import NAMES
from pageindex.formats import NotTextError, decode
from retriever.embedding import open_encoder
from retriever.errors import CommandHint, DocumentsError, IndexDamagedError, UsageError
from retriever.indexing.changes import FolderChanges, name_folders_apart
from retriever.indexing.request import WAIT_FOR_WRITER_S, IndexRequest, check_server, forget_named, name_folders
from retriever.indexing.update import index_changes, note_folders, note_skipped
from retriever.looking.indexes import find_index
from retriever.places import FolderStore
from retriever.protocols import Encoder, Progress
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings, validate
from retriever.store import reading, writing
from retriever.store.database import Connection, make_damage_error, read_transaction, transaction
from retriever.store.files import absolute, remove_files
from retriever.store.reading import StoredFolder
from retriever.text import as_tuple, cut
from retriever.trace import NoProgress

MAX_PATH = 4096  # characters, as in Linux; each folder in a path has an id as long as its own


def copy_index(
    source: str | Path,
    index: str | Path | None = None,
    docs: Sequence[str | Path] = (),
    settings: Mapping[str, Any] | None = None,
    encoder: Encoder | None = None,
    progress: Progress | None = None,
) -> str:
    """Make an index of another one, in the state of one moment, where there is none yet; no text is embedded.

    Args:
        source: the other index's folder, or its name.
        index: the new index's folder; None for HYBRID_RETRIEVE_INDEX, else the one that belongs to its folders.
        docs: where its folders are on this machine, in their order; empty: they are not looked at until they are named.
        settings: of what the index names and only a user may allow, such as a server that reads its texts.
        encoder: the caller's own embedding model, in place of the one that the index names.
        progress: told how far it is.

    Returns:
        The index's folder.

    Raises:
        IndexUnusableError: there is no other index, or it is damaged, or a version with another format made it.
        EncoderError: the embedding model is not here: its vectors cannot be believed.
        UsageError: there is an index already; its folders are others; it names a server on another machine; one of both
            places is a database.
    """
    other, wanted = FolderStore(find_index(source).folder), tuple(map(absolute, as_tuple(docs)))
    for folder in wanted:
        if not folder.is_dir():
            raise DocumentsError(f"{folder} is no folder; leave it out to copy without it")
    with other.read() as old, read_transaction(old):
        remembered, folders = check_rows(old, other)
        if wanted and len(set(wanted)) != len(folders):
            listed = ", ".join(folder.path for folder in folders) or "none"
            raise UsageError(f"the index has {len(folders)} folders, name as many, in this order: {listed}")
        store = FolderStore(find_index(index, wanted or tuple(Path(folder.path) for folder in folders)).folder)
        store.require_own()
        given = collect_settings(DEFAULT_PROFILE, settings, remembered)
        check_server(store, given, anew=True)
        request = IndexRequest(store, wanted, given.profile, given.for_index(), encoder)
        try:
            with store.write(WAIT_FOR_WRITER_S) as new:
                if reading.snapshot_number(new):
                    hint = CommandHint(f"indexes --drop {shlex.quote(str(store))}", "to delete it, run")
                    raise UsageError(f"there is an index in {store}; name another place with --index", hint=hint)
                forget_named(store)  # an index that was at this place before may have had folders
                try:
                    with transaction(new):
                        take_over(old, new, request, folders, progress or NoProgress())
                except BaseException:
                    remove_files(store.folder)
                    raise
        except IndexDamagedError as error:  # of the rows that were read, not of the new ones
            raise make_damage_error(other, error.__cause__ or error) from error
    name_folders(store, wanted)
    return str(store)


def take_over(
    old: Connection, new: Connection, request: IndexRequest, folders: Sequence[StoredFolder], progress: Progress
) -> None:
    """Make the rows of an index anew of the documents' texts in another one, and take over the vectors of its model."""
    encoder = request.encoder or open_encoder(request.profile.encoder, reading.meta(old, "fingerprint"))
    if encoder is not None:
        fitting = "fingerprint = ? AND length(vector) = ? AND vector <> zeroblob(length(vector))"
        query = f"SELECT fingerprint, text_hash, vector FROM vectors WHERE {fitting}"
        rows = old.execute(query, (encoder.fingerprint, encoder.dimension))
        writing.insert(new, "vectors", "fingerprint, text_hash, vector", rows)
    places = map(str, request.docs or [folder.path for folder in folders])
    moved = [replace(folder, path=place, prefix="") for folder, place in zip(folders, places, strict=True)]
    changes = []
    for folder in name_folders_apart(moved):
        stored = reading.documents(old, folder.key).values()
        files = [SourceFile(item.path, str(item.key), item.size, item.mtime_ns) for item in stored]
        changes.append(FolderChanges(replace(folder, key=0), Listing((), ()), files))

    def read(file: SourceFile) -> DocumentText:
        if not is_path(file.path) or not {"", ".", ".."}.isdisjoint(file.path.split("/")):
            raise UnreadableDocumentError(file.path, "no document has such a path")
        query = "SELECT CAST(text AS BLOB) FROM nodes WHERE document_key = ? ORDER BY node_key"
        raw = b"".join(text for (text,) in old.execute(query, (int(file.absolute),)))  # it is at that key
        try:  # the digest is not believed: the text would pass for that of a file here
            return DocumentText(decode(raw)[0], sha256(raw).hexdigest(), file, ())
        except NotTextError as error:
            raise UnreadableDocumentError(file.path, str(error)) from error

    note_folders(new, changes)
    for change in changes:
        forgotten = [(change.folder.key, path) for path in change.folder.forgotten]
        writing.insert(new, "forgotten", "folder_key, path", forgotten)
    index_changes(new, request, changes, encoder, progress, is_anew=True, read=read)
    note_skipped(new, changes)
    for key, value in request.remembered.items():
        writing.set_meta(new, key, value)


def is_path(text: str) -> bool:
    """Return whether a system may have such a path."""
    return len(text) <= MAX_PATH and "\0" not in text


def check_rows(connection: Connection, store: FolderStore) -> tuple[Mapping[str, Any], tuple[StoredFolder, ...]]:
    """Check an index that anybody may have made; return the settings that it remembers, and its folders."""
    try:
        if (found := next(connection.find_damage(), None)) is not None:
            raise make_damage_error(store, found)
        remembered = reading.index_settings(connection)
        validate((("index", remembered),))
        folders = reading.folders(connection)
        for folder in folders:
            if not (is_path(folder.path) and Path(folder.path).is_absolute() and folder.dialect in NAMES):
                raise make_damage_error(store, f"{cut(folder.path, 100)!r} is no folder of documents")
        return remembered, folders
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise make_damage_error(store, error) from error
