"""An index as one file, in the state of one moment: written, and read with suspicion.

The file is a ZIP of index.sqlite alone. What searches need is made anew of it, without embedding a text. A file may
come from anybody: nothing in it names a place where something is written, and all of it is checked before it is used.
"""

import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pageindex.corpus import require_regular
from retriever.arguments import check_arguments
from retriever.errors import (
    ArchiveError,
    CommandHint,
    DocumentsError,
    IndexDamagedError,
    IndexVersionError,
    NoIndexError,
    UsageError,
)
from retriever.files import require_space, sync, writing_to
from retriever.indexes import choose_new_place, find_index
from retriever.indexing.background import read_background
from retriever.indexing.consent import check_documents, forget_named, name_folders
from retriever.indexing.derived import open_derived
from retriever.indexing.request import WAIT_FOR_WRITER_S, absolute, home_folder, name_index, remember
from retriever.served.address import is_this_machine
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.store import reading
from retriever.store.checking import find_damage
from retriever.store.connection import Connection
from retriever.store.copying import copy_rows, remove_rows
from retriever.store.database import (
    FILE_NAME,
    create_file,
    open_file,
    read_transaction,
    transaction,
    translate_sqlite_errors,
)
from retriever.store.store import FolderStore, Store

# Packing makes an index about four times smaller; what unpacks to more than this is a bomb. A small index may have
# SLACK_BYTES above that: empty tables pack well.
MAX_RATIO = 100
SLACK_BYTES = 10_000_000
BLOCK_BYTES = 1 << 20
ENCRYPTED = 1  # a flag of a ZIP's member
SPACE_FACTOR = 3  # an import writes the database, a copy of it, and the snapshot that is made of it


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an archive holds."""

    folders: tuple[str, ...]  # the indexed folders as this machine names them, in the order in which they came
    documents: int
    bytes: int  # of index.sqlite


@check_arguments
def export_index(file: str | Path, index: str | Path | None = None, *, replace: bool = False) -> ExportReport:
    """Write an index into one file, in the state of this moment, whatever a writer does meanwhile.

    Args:
        file: the archive to be written.
        index: the index's folder, found as in `open_retriever`.
        replace: write over a file that is there.

    Returns:
        What the archive holds.

    Raises:
        UsageError: the file is there already, or, with `replace`, holds something else than an exported index.
        IndexUnusableError: there is no index, or it is damaged, or the disk is full or read-only.
    """
    store = find_index((), index).index
    # The folders above are resolved, the name itself is not: a link is never written through.
    file = Path(file).expanduser()
    file = absolute(file.parent) / file.name
    check_target(file, replace=replace)
    with writing_to(file.parent), tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as place:
        database, draft = Path(place) / FILE_NAME, Path(place) / file.name
        # Written row by row rather than page by page: free pages, which may hold deleted texts, stay behind.
        with store.read() as source, closing(create_file(database.parent)) as target:
            with read_transaction(source), transaction(target):
                copy_rows(source, target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        with FolderStore(database.parent).read() as copied:
            folders = tuple(folder.path for folder in reading.folders(copied))
            report = ExportReport(folders, reading.document_count(copied), database.stat().st_size)
        draft.touch(mode=0o600)
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(database, FILE_NAME)
        sync(draft)
        check_target(file, replace=replace)  # again: somebody may have made one meanwhile
        draft.replace(file)
    return report


def check_target(file: Path, *, replace: bool) -> None:
    """Raise UsageError unless nothing has the file's name, or an exported index that is to be replaced."""
    try:
        require_regular(file)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{file} is a folder, a link or a device; name another file") from error
    if not replace:
        raise UsageError(f"{file} is there already; --force replaces it")
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(file) as archive:
        if archive.namelist() == [FILE_NAME]:
            return
    raise UsageError(f"{file} holds something else than an exported index; name another file")


@check_arguments
def import_index(
    file: str | Path,
    index: str | Path | None = None,
    docs: Sequence[str | Path] = (),
    *,
    replace: bool = False,
    encoder_url: str = "",
) -> str:
    """Make an index of an exported one: check everything, and put it in its place as a whole; nothing is embedded.

    Args:
        file: what `export_index` wrote.
        index: the index's folder; None for HYBRID_RETRIEVE_INDEX, else the one that belongs to its folders.
        docs: where its folders are on this machine, in their order; empty: they are not looked at until they are named.
        replace: replace an index that is there.
        encoder_url: the server on another machine that the index may go on sending texts to.

    Returns:
        The index's folder, or the address of its database.

    Raises:
        ArchiveError: the file is no archive, or a damaged one.
        IndexVersionError: a version with another format made it.
        UsageError: there is an index already; its folders are others; it names a server on another machine.
    """
    archive, wanted = absolute(file), tuple(map(absolute, docs))
    store = choose_new_place(wanted, index)
    for folder in wanted:
        if not folder.is_dir():
            raise DocumentsError(f"{folder} is no folder; leave it out to import without it")
    if store is not None:
        check_place(store, replace=replace)
    with tempfile.TemporaryDirectory(prefix="hybrid-retrieve-") as name, writing_to(Path(name)):
        draft = Path(name)
        unpack(archive, draft / FILE_NAME)
        documents = check_index(archive, draft, wanted, encoder_url)
        with FolderStore(draft).read() as source:
            folders = [*wanted] or [Path(folder.path) for folder in reading.folders(source)]
            if store is None and not folders:
                raise UsageError(f"{file} holds an index of no folders; name its place with --index")
            store = store or FolderStore(home_folder() / name_index(folders))
            check_place(store, replace=replace)  # again: another one may have made an index by now
            forget_named(store)  # the consent was given to another index at this place
            import_rows(source, store, wanted)
    if wanted:
        name_folders(store, wanted, documents)
    remember(store)
    return str(store)


def check_place(store: Store, *, replace: bool) -> None:
    """Raise UsageError where there is an index that is not to be replaced, or something else."""
    store.require_own()
    if store.exists() and not replace:
        with store.read() as connection:
            if reading.document_count(connection):
                raise UsageError(f"there is an index in {store}; --force replaces it, --index names another place")


def import_rows(source: Connection, store: Store, docs: Sequence[Path]) -> None:
    """Copy the rows of an index into another one, in place of those that are there: all of them or none."""
    derived, number = open_derived(store), 0
    with store.write(WAIT_FOR_WRITER_S) as (target, _):
        with transaction(target):
            remove_rows(target)
            copy_rows(source, target)
            if docs:
                move_folders(target, docs)
            if reading.snapshot_number(source):
                number = derived.renew(target)
        derived.remove_old(number)
        store.erase(target, is_thorough=True)


# An archive that may come from anybody: nothing in it is trusted.


def unpack(file: Path, target: Path) -> None:
    """Write the database of an archive, which nobody has looked into yet; ArchiveError unless it is one."""
    try:
        with zipfile.ZipFile(file) as archive:
            if archive.namelist() != [FILE_NAME]:
                raise ArchiveError(f"{file} is no exported index: it holds other files than {FILE_NAME}")
            (info,) = archive.infolist()
            # bzip2 and lzma unpack a kilobyte to gigabytes before anything of it can be counted.
            if info.flag_bits & ENCRYPTED or info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise ArchiveError(f"{file} is no exported index: it is encrypted, or packed in another way")
            packed = min(info.compress_size, file.stat().st_size)  # the first is what the archive says
            limit = min(info.file_size, MAX_RATIO * packed + SLACK_BYTES)
            require_space(target.parent, SPACE_FACTOR * limit)
            with archive.open(info) as source, target.open("xb") as out:
                target.chmod(0o600)
                while block := source.read(BLOCK_BYTES):
                    limit -= len(block)
                    if limit < 0:
                        raise ArchiveError(f"{file} unpacks to more bytes than any index has")
                    with writing_to(target):
                        out.write(block)
    except FileNotFoundError as error:
        raise ArchiveError(f"{file} is not there") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ArchiveError(f"{file} is no exported index, or a damaged one: {str(error) or 'it is cut'}") from error
    except OSError as error:
        raise ArchiveError(f"{file} cannot be read: {error.strerror or error}") from error


def check_index(file: Path, draft: Path, docs: Sequence[Path], encoder_url: str) -> Mapping[str, Any]:
    """Check every row and setting of an unpacked index; return the settings of its documents.

    Refuses a server on another machine, and files of other kinds, that the index alone names.
    """
    try:
        with translate_sqlite_errors(draft), closing(open_file(draft)) as connection:
            if (found := next(find_damage(connection), None)) is not None:
                raise ArchiveError(f"{file} is damaged: {found}")
            read_background(connection, reading.meta(connection, "fingerprint") or "")
            settings, folders = reading.index_settings(connection), reading.folders(connection)
            given = collect_settings(DEFAULT_PROFILE, None, settings)
    except IndexVersionError as error:
        cure = CommandHint("index FOLDER", "make it again from the documents; run")
        raise IndexVersionError(f"{file} was made by a version with another format of the index", hint=cure) from error
    except (IndexDamagedError, NoIndexError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ArchiveError(f"{file} holds no index that can be used: {error.__cause__ or error}") from error
    if docs and len(docs) != len(folders):
        listed = ", ".join(folder.path for folder in folders) or "none"
        raise UsageError(f"the index has {len(folders)} folders, name as many, in this order: {listed}")
    url = given.profile().encoder.url
    if url and url != encoder_url and not is_this_machine(url):
        raise UsageError(
            f"the index names the server {url}, which would read questions and documents:"
            f" if that is meant, add: --encoder-url {url}"
        )
    if docs:
        check_documents(FolderStore(file), settings, given, anew=True)
    return dict(given.for_index().get("documents", {}))


def move_folders(connection: Connection, docs: Sequence[Path]) -> None:
    """Let the index look for its folders where they are on this machine."""
    move_folder = "UPDATE folders SET path = ? WHERE folder_key = ?"
    folders = reading.folders(connection)
    for folder in folders:  # in two steps: two may change places
        connection.execute(move_folder, (f"moving {folder.key}", folder.key))
    for folder, moved in zip(folders, docs, strict=True):
        connection.execute(move_folder, (str(moved), folder.key))
