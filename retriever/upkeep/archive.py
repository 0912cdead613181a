"""An index as one file: a ZIP of index.sqlite alone, in the state of one moment.

What searches need is made anew of it, without embedding a text. A file may come from anybody: nothing in it names a
place where something is written, and all of it is checked before it is used.
"""

import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj
from typing import Any

from retriever.errors import ArchiveError, CommandHint, DocumentsError, IndexVersionError, RetrieverError, UsageError
from retriever.files import check_new, sync, writing_to
from retriever.indexes import find_index, resolve_name
from retriever.indexing.consent import check_server, forget_named, name_folders
from retriever.indexing.derived import open_derived
from retriever.indexing.request import (
    INDEX_VARIABLE,
    WAIT_FOR_WRITER_S,
    absolute,
    home_folder,
    name_index,
    remember,
)
from retriever.settings.layers import DEFAULT_PROFILE, GivenSettings, collect_settings
from retriever.store import reading
from retriever.store.connection import Connection
from retriever.store.copying import copy_rows, remove_rows
from retriever.store.database import FILE_NAME, create_file, read_transaction, transaction
from retriever.store.reading import StoredFolder
from retriever.store.store import FolderStore, Store
from retriever.text import as_tuple

# Packing makes an index about four times smaller; what unpacks to more than this is a bomb. A small index may have
# SLACK_BYTES above that: empty tables pack well.
MAX_RATIO = 100
SLACK_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an archive holds."""

    folders: tuple[str, ...]  # the indexed folders as this machine names them, in the order in which they came
    documents: int
    bytes: int  # of index.sqlite


def export_index(file: str | Path, index: str | Path | None = None) -> ExportReport:
    """Write an index into one file, in the state of this moment, whatever a writer does meanwhile.

    Args:
        file: the archive to be written.
        index: the index's folder, found as in `open_retriever`.

    Returns:
        What the archive holds.

    Raises:
        UsageError: the file is there already.
        IndexUnusableError: there is no index, or it is damaged, or the disk is full or read-only.
    """
    store, file = find_index(index), absolute(Path(file).expanduser().parent) / Path(file).name
    check_new(file)
    with writing_to(file.parent), tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as place:
        database, draft = Path(place) / FILE_NAME, Path(place) / file.name
        # Written row by row rather than page by page: free pages, which may hold deleted texts, stay behind.
        with store.read() as source, closing(create_file(database.parent)) as target:
            with read_transaction(source), transaction(target):
                copy_rows(source, target)
            folders = tuple(folder.path for folder in reading.folders(target))
            documents = reading.document_count(target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        draft.touch(mode=0o600)
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(database, FILE_NAME)
        sync(draft)
        size = database.stat().st_size
        draft.rename(file)
    return ExportReport(folders, documents, size)


def import_index(
    file: str | Path,
    index: str | Path | None = None,
    docs: Sequence[str | Path] = (),
    settings: Mapping[str, Any] | None = None,
    *,
    replace: bool = False,
) -> str:
    """Make an index of an exported one: check everything, and put it in its place as a whole; nothing is embedded.

    Args:
        file: what `export_index` wrote.
        index: the index's folder; None for HYBRID_RETRIEVE_INDEX, else the one that belongs to its folders.
        docs: where its folders are on this machine, in their order; empty: they are not looked at until they are named.
        settings: of what the index names and only a user may allow, such as a server that reads its texts.
        replace: replace an index that is there.

    Returns:
        The index's folder, or the address of its database.

    Raises:
        ArchiveError: the file is no archive, or a damaged one.
        IndexVersionError: a version with another format made it.
        UsageError: there is an index already; its folders are others; it names a server on another machine.
    """
    archive, wanted = absolute(file), tuple(map(absolute, as_tuple(docs)))
    for folder in wanted:
        if not folder.is_dir():
            raise DocumentsError(f"{folder} is no folder; leave it out to import without it")
    with tempfile.TemporaryDirectory(prefix="hybrid-retrieve-") as place, writing_to(Path(place)):
        draft = FolderStore(Path(place))
        unpack(archive, draft.folder / FILE_NAME)
        given, folders = check_rows(archive, draft, settings)
        if wanted and len(wanted) != len(folders):
            listed = ", ".join(folder.path for folder in folders) or "none"
            raise UsageError(f"the index has {len(folders)} folders, name as many, in this order: {listed}")
        store = choose_place(index, wanted or tuple(Path(folder.path) for folder in folders), replace=replace)
        check_server(store, given, anew=True)
        forget_named(store)  # the consent was given to another index at this place
        with draft.read() as source:
            import_rows(source, store, wanted)
    if wanted:
        name_folders(store, wanted)
    remember(store)
    return str(store)


def choose_place(index: str | Path | None, folders: Sequence[Path], *, replace: bool) -> Store:
    """Return where an imported index of these folders comes; UsageError unless it is free, or may be replaced."""
    named = index or os.environ.get(INDEX_VARIABLE)
    if not named and not folders:
        raise UsageError("the index has no folders; name its place with --index")
    store = resolve_name(named, is_asked=False) if named else FolderStore(home_folder() / name_index(folders))
    store.require_own()
    if store.exists() and not replace:
        with store.read() as connection:
            if reading.document_count(connection):
                raise UsageError(f"there is an index in {store}; --force replaces it, --index names another place")
    return store


def import_rows(source: Connection, store: Store, docs: Sequence[Path]) -> None:
    """Copy the rows of an index into another one, in place of those that are there: all of them or none."""
    derived, number = open_derived(store), 0
    with store.write(WAIT_FOR_WRITER_S) as target:
        with transaction(target):
            remove_rows(target)
            copy_rows(source, target)
            if docs:
                move_folders(target, docs)
            if reading.snapshot_number(source):
                number = derived.renew(target)
        derived.remove_old(number)
        store.erase(target)


def move_folders(connection: Connection, docs: Sequence[Path]) -> None:
    """Let the index look for its folders where they are on this machine."""
    move_folder = "UPDATE folders SET path = ? WHERE folder_key = ?"
    folders = reading.folders(connection)
    for folder in folders:  # in two steps: two may change places
        connection.execute(move_folder, (f"moving {folder.key}", folder.key))
    for folder, moved in zip(folders, docs, strict=True):
        connection.execute(move_folder, (str(moved), folder.key))


def unpack(file: Path, target: Path) -> None:
    """Write the database of an archive, which nobody has looked into yet; ArchiveError unless it is one."""
    try:
        with zipfile.ZipFile(file) as archive:
            if archive.namelist() != [FILE_NAME]:
                raise ArchiveError(f"{file} is no exported index: it holds other files than {FILE_NAME}")
            (info,) = archive.infolist()
            # bzip2 and lzma unpack a kilobyte to gigabytes before anything of it can be counted.
            if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise ArchiveError(f"{file} is no exported index: it is packed in another way")
            if info.file_size > MAX_RATIO * file.stat().st_size + SLACK_BYTES:  # of which no more is unpacked
                raise ArchiveError(f"{file} unpacks to more bytes than any index has")
            with archive.open(info) as source, target.open("xb") as out:
                target.chmod(0o600)
                copyfileobj(source, out)
    except FileNotFoundError as error:
        raise ArchiveError(f"{file} is not there") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ArchiveError(f"{file} is no exported index, or a damaged one: {str(error) or 'it is cut'}") from error
    except OSError as error:
        raise ArchiveError(f"{file} cannot be read or unpacked: {error.strerror or error}") from error


def check_rows(
    file: Path, draft: Store, settings: Mapping[str, Any] | None
) -> tuple[GivenSettings, tuple[StoredFolder, ...]]:
    """Check every row and setting of an unpacked index; return its settings with those given, and its folders."""
    try:
        with draft.read() as connection:
            if (found := next(connection.find_damage(), None)) is not None:
                raise ArchiveError(f"{file} is damaged: {found}")
            given = collect_settings(DEFAULT_PROFILE, settings, reading.index_settings(connection))
            given.profile()
            return given, reading.folders(connection)
    except ArchiveError:
        raise
    except IndexVersionError as error:
        cure = CommandHint("index FOLDER", "make it again from the documents; run")
        raise IndexVersionError(f"{file} was made by a version with another format of the index", hint=cure) from error
    except (RetrieverError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ArchiveError(f"{file} holds no index that can be used: {error.__cause__ or error}") from error
