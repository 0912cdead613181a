"""An index in a folder as one file: a ZIP of index.sqlite alone, in the state of one moment.

What searches need is made anew of it, without embedding a text. A file may come from anybody: nothing in it names a
place where something is written, and the database is checked before it is used.
"""

import shlex
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from shutil import copyfileobj
from typing import Any

from retriever.errors import ArchiveError, CommandHint, DocumentsError, IndexVersionError, RetrieverError, UsageError
from retriever.indexing.derived import open_derived
from retriever.indexing.request import WAIT_FOR_WRITER_S, check_server, forget_named, name_folders
from retriever.looking.indexes import find_index
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.store import FolderStore, reading
from retriever.store.database import Connection, copy_into, transaction
from retriever.store.files import FILE_NAME, absolute, check_new, sync, writer_lock, writing_to
from retriever.store.reading import StoredFolder
from retriever.text import as_tuple


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
) -> str:
    """Make an index of an exported one, where there is none yet: check everything first; nothing is embedded.

    Args:
        file: what `export_index` wrote.
        index: the index's folder; None for HYBRID_RETRIEVE_INDEX, else the one that belongs to its folders.
        docs: where its folders are on this machine, in their order; empty: they are not looked at until they are named.
        settings: of what the index names and only a user may allow, such as a server that reads its texts.

    Returns:
        The index's folder.

    Raises:
        ArchiveError: the file is no archive, or a damaged one.
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
        if wanted and len(wanted) != len(folders):
            listed = ", ".join(folder.path for folder in folders) or "none"
            raise UsageError(f"the index has {len(folders)} folders, name as many, in this order: {listed}")
        store = FolderStore(find_index(index, wanted or tuple(Path(folder.path) for folder in folders)).folder)
        if store.exists():
            hint = CommandHint(f"indexes --drop {shlex.quote(str(store))}", "to delete it, run")
            raise UsageError(f"there is an index in {store}; name another place with --index", hint=hint)
        store.require_own()
        check_server(store, collect_settings(DEFAULT_PROFILE, settings, remembered), anew=True)
        forget_named(store)  # an index that was at this place before may have had folders
        with writer_lock(store.folder, WAIT_FOR_WRITER_S), closing(sqlite3.connect(draft.folder / FILE_NAME)) as rows:
            (store.folder / FILE_NAME).touch(mode=0o600)
            copy_into(rows, store.folder / FILE_NAME)
    with store.write(WAIT_FOR_WRITER_S) as connection, transaction(connection):
        move_folders(connection, wanted)
        open_derived(store).build(connection)
    name_folders(store, wanted)
    return str(store)


def move_folders(connection: Connection, docs: Sequence[Path]) -> None:
    """Let the index look for its folders where they are on this machine; without any, they stay as they are named."""
    folders = reading.folders(connection) if docs else ()
    for paths in ([f"moving {folder.key}" for folder in folders], docs):  # in two steps: two may change places
        rows = ((str(path), folder.key) for path, folder in zip(paths, folders, strict=True))
        connection.executemany("UPDATE folders SET path = ? WHERE folder_key = ?", rows)


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
            return remembered, reading.folders(connection)
    except ArchiveError:
        raise
    except IndexVersionError as error:
        cure = CommandHint("index FOLDER", "make it again from the documents; run")
        raise IndexVersionError(f"{file} was made by a version with another format of the index", hint=cure) from error
    except (RetrieverError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ArchiveError(f"{file} holds no index that can be used: {error.__cause__ or error}") from error
