"""An index in a folder as one file: a ZIP of index.sqlite alone, in the state of one moment.

A file may come from anybody. Texts, settings, what was forgotten and vectors are taken from it; everything else is made
anew of them, as `index` would, without embedding a text.
"""

import shlex
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from shutil import copyfileobj
from typing import Any

from pageindex.corpus import DocumentText, Listing, SourceFile, UnreadableDocumentError
from pageindex.dialects import NAMES
from pageindex.formats import NotTextError, decode
from retriever.embedding import open_encoder
from retriever.errors import (
    ArchiveError,
    CommandHint,
    DocumentsError,
    IndexDamagedError,
    IndexVersionError,
    RetrieverError,
    UsageError,
)
from retriever.indexing.changes import FolderChanges, name_folders_apart
from retriever.indexing.request import WAIT_FOR_WRITER_S, IndexRequest, check_server, forget_named, name_folders
from retriever.indexing.update import index_changes, note_folders, note_skipped
from retriever.looking.indexes import find_index
from retriever.places import FolderStore
from retriever.protocols import Encoder, Progress
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.store import reading, writing
from retriever.store.database import Connection, transaction
from retriever.store.files import FILE_NAME, absolute, check_new, remove_files, sync, writing_to
from retriever.store.reading import StoredFolder
from retriever.text import as_tuple, cut
from retriever.trace import NoProgress

MAX_PATH = 4096  # characters, as in Linux; each folder in a path has an id as long as its own


def export_index(file: str | Path, index: str | Path | None = None) -> None:
    """Write an index into one file, in the state of this moment, whatever a writer does meanwhile.

    Args:
        file: the archive to be written.
        index: the index's folder, found as in `open_retriever`.

    Raises:
        UsageError: the file is there already, or the index is in a database.
        IndexUnusableError: there is no index, or it is damaged, or the disk is full or read-only.
    """
    source, file = FolderStore(find_index(index).folder), absolute(Path(file).expanduser().parent) / Path(file).name
    check_new(file)
    with writing_to(file.parent), tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as place:
        database, draft = Path(place) / FILE_NAME, Path(place) / file.name
        with source.read() as connection:  # without free pages, which may hold deleted texts
            connection.execute("VACUUM INTO ?", (str(database),))
        draft.touch(mode=0o600)
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(database, FILE_NAME)
        sync(draft)
        draft.rename(file)


def import_index(
    file: str | Path,
    index: str | Path | None = None,
    docs: Sequence[str | Path] = (),
    settings: Mapping[str, Any] | None = None,
    encoder: Encoder | None = None,
    progress: Progress | None = None,
) -> str:
    """Make an index of an exported one, where there is none yet; no text is embedded.

    Args:
        file: what `export_index` wrote.
        index: the index's folder; None for HYBRID_RETRIEVE_INDEX, else the one that belongs to its folders.
        docs: where its folders are on this machine, in their order; empty: they are not looked at until they are named.
        settings: of what the index names and only a user may allow, such as a server that reads its texts.
        encoder: the caller's own embedding model, in place of the one that the index names.
        progress: told how far it is.

    Returns:
        The index's folder.

    Raises:
        ArchiveError: the file is no archive, or a damaged one.
        EncoderError: the embedding model is not here: its vectors cannot be believed.
        IndexVersionError: a version with another format made it.
        UsageError: there is an index already; its folders are others; it names a server on another machine; the place
            is a database.
    """
    archive, wanted = absolute(file), tuple(map(absolute, as_tuple(docs)))
    for folder in wanted:
        if not folder.is_dir():
            raise DocumentsError(f"{folder} is no folder; leave it out to import without it")
    with tempfile.TemporaryDirectory(prefix="hybrid-retrieve-") as place, writing_to(Path(place)):
        draft = FolderStore(Path(place))
        unpack(archive, draft.folder / FILE_NAME)
        remembered, folders = check_rows(archive, draft)
        if wanted and len(set(wanted)) != len(folders):
            listed = ", ".join(folder.path for folder in folders) or "none"
            raise UsageError(f"the index has {len(folders)} folders, name as many, in this order: {listed}")
        store = FolderStore(find_index(index, wanted or tuple(Path(folder.path) for folder in folders)).folder)
        store.require_own()
        given = collect_settings(DEFAULT_PROFILE, settings, remembered)
        check_server(store, given, anew=True)
        request = IndexRequest(store, wanted, given.profile(), given.for_index(), encoder)
        try:
            with draft.read() as old, store.write(WAIT_FOR_WRITER_S) as new:
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
        except IndexDamagedError as error:
            raise ArchiveError(f"{archive} holds no index that can be used: {error.__cause__ or error}") from error
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

    def read(file: SourceFile, _: int) -> DocumentText:
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


def unpack(file: Path, target: Path) -> None:
    """Write the database of an archive, which is still unchecked; ArchiveError unless it is one."""
    try:
        with zipfile.ZipFile(file) as archive:
            # bzip2 and lzma unpack a kilobyte to gigabytes before anything of it can be counted.
            info, *others = archive.infolist() or [zipfile.ZipInfo()]
            if others or (info.filename, info.compress_type) != (FILE_NAME, zipfile.ZIP_DEFLATED):
                raise ArchiveError(f"{file} is no exported index: it holds other files than {FILE_NAME}")
            with archive.open(FILE_NAME) as source, target.open("xb") as out:
                copyfileobj(source, out)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ArchiveError(f"{file} is no exported index, or a damaged one: {str(error) or 'it is cut'}") from error
    except OSError as error:
        raise ArchiveError(f"{file} cannot be read or unpacked: {error.strerror or error}") from error


def check_rows(file: Path, draft: FolderStore) -> tuple[Mapping[str, Any], tuple[StoredFolder, ...]]:
    """Check an unpacked index; return the settings that it remembers, and its folders."""
    try:
        with draft.read() as connection:
            if (found := next(connection.find_damage(), None)) is not None:
                raise ArchiveError(f"{file} is damaged: {found}")
            remembered = reading.index_settings(connection)
            collect_settings(DEFAULT_PROFILE, None, remembered).profile()
            folders = reading.folders(connection)
            for folder in folders:
                if not (is_path(folder.path) and Path(folder.path).is_absolute() and folder.dialect in NAMES):
                    raise ArchiveError(f"{file} is damaged: {cut(folder.path, 100)!r} is no folder of documents")
            return remembered, folders
    except ArchiveError:
        raise
    except IndexVersionError as error:
        cure = CommandHint("index FOLDER", "make it again from the documents; run")
        raise IndexVersionError(f"{file} was made by a version with another format of the index", hint=cure) from error
    except (RetrieverError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ArchiveError(f"{file} holds no index that can be used: {error.__cause__ or error}") from error
