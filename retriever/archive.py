"""An index as one file, in the state of one moment: written, and read with suspicion.

The file is a ZIP of two members. What searches need is not among them: it is made anew, without embedding a text.

    manifest.json   what it is, with the size and the SHA-256 of the other one
    index.sqlite    the truth

A file may come from anybody: nothing in it names a place where something is written.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from retriever.errors import (
    ArchiveError,
    Command,
    DocumentsError,
    IndexDamagedError,
    IndexLockedError,
    IndexVersionError,
    NoIndexError,
    StorageError,
    UsageError,
)
from retriever.files import require_space, writing_to
from retriever.indexing.background import copy_background, renew_folder_backgrounds
from retriever.indexing.consent import check_documents, forget_named, name_folders
from retriever.indexing.request import WAIT_FOR_WRITER_S
from retriever.indexing.snapshot import renew_snapshot
from retriever.served.address import is_this_machine
from retriever.settings.layers import DEFAULT_PROFILE, GivenSettings, collect_settings
from retriever.store import reading
from retriever.store.address import read_address
from retriever.store.checking import find_damage
from retriever.store.copying import copy_rows, remove_rows
from retriever.store.database import (
    FILE_NAME,
    INDEX_FORMAT,
    create_file,
    is_index,
    open_file,
    read_index,
    read_schema,
    read_transaction,
    transaction,
    translate_sqlite_errors,
    write_index,
)
from retriever.store.locks import HOLDER_NAME, LOCK_NAME, writer_lock

FORMAT = 1
MANIFEST_NAME = "manifest.json"
MAX_MANIFEST_BYTES = 64 * 1024
# Packing makes an index about four times smaller; what claims to unpack to more than this is a bomb. A small index may
# have SLACK_BYTES above that: empty tables pack well.
MAX_RATIO = 100
SLACK_BYTES = 10_000_000
BLOCK_BYTES = 1 << 20
DRAFT_NAME = "archive"
DRAFT_ENDING = ".export"  # of the folder in which one is made: always the same name, so that the next one finds it
ENCRYPTED = 1  # a flag of a ZIP's member
SPACE_FACTOR = 3  # an import writes the database, its log, and the snapshot that is made of it


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive holds."""

    archive_format: int
    index_format: int  # of index.sqlite
    folders: tuple[str, ...]  # the indexed folders as the exporting machine named them, in the order in which they came
    documents: int
    questions: int  # how many recorded questions are in it
    bytes: int  # of index.sqlite
    sha256: str  # of index.sqlite, 64 hex digits


def export_index(index: Path, file: Path, *, replace: bool = False) -> Manifest:
    """Writes an index into one file, in the state of this moment, whatever a writer does meanwhile."""
    if file.exists() and not replace:
        raise UsageError(f"{file} is there already; --force replaces it")
    folder = file.with_name(f".{file.name}{DRAFT_ENDING}")
    with writing_to(file.parent), writer_lock(folder, 0):
        if not is_draft(folder):
            raise UsageError(f"{folder} is in the way and holds something else than an export; move it away")
        remove_dead_exports(file.parent)
        empty_draft(folder)
        try:
            if read_address(index):
                copy_to_file(index, folder)
            else:
                with read_index(index) as connection:
                    # Written anew rather than page by page: free pages, which may hold deleted texts, stay behind.
                    connection.execute("VACUUM INTO ?", (str(folder / FILE_NAME),))
            manifest = describe_database(folder)
            draft = folder / DRAFT_NAME
            draft.touch(mode=0o600, exist_ok=False)
            with draft.open("wb") as out:
                with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
                    archive.writestr(MANIFEST_NAME, json.dumps(asdict(manifest), indent=1))
                    archive.write(folder / FILE_NAME, FILE_NAME)
                out.flush()
                os.fsync(out.fileno())
            draft.replace(file)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return manifest


def copy_to_file(index: Path, folder: Path) -> None:
    """The rows of an index in PostgreSQL, as one state of them, into an index.sqlite."""
    with read_index(index) as source, read_transaction(source), closing(create_file(folder)) as target:
        with transaction(target):
            copy_rows(source, target)
            copy_background(source, target)
        target.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it


def describe_database(folder: Path) -> Manifest:
    """The manifest of a copied index.sqlite."""
    database = folder / FILE_NAME
    with database.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with read_index(folder) as connection:
        return Manifest(
            archive_format=FORMAT,
            index_format=INDEX_FORMAT,
            folders=tuple(found.path for found in reading.folders(connection)),
            documents=reading.counts(connection).documents,
            questions=connection.execute("SELECT count(*) FROM queries").fetchone()[0],
            bytes=database.stat().st_size,
            sha256=digest,
        )


def remove_dead_exports(place: Path) -> None:
    """Removes what exports to this folder left that were killed: it holds all texts, and its lock is free."""
    for folder in place.glob(f".*{DRAFT_ENDING}"):
        if not folder.is_symlink() and (folder / LOCK_NAME).exists() and is_draft(folder):
            with suppress(IndexLockedError, StorageError), writer_lock(folder, 0):
                empty_draft(folder)
                shutil.rmtree(folder, ignore_errors=True)


def is_draft(folder: Path) -> bool:
    """Whether there is nothing in it but what an export makes."""
    made = {LOCK_NAME, HOLDER_NAME, DRAFT_NAME, *(f"{FILE_NAME}{end}" for end in ("", "-journal", "-wal", "-shm"))}
    return {path.name for path in folder.iterdir()} <= made


def empty_draft(folder: Path) -> None:
    """Removes what a killed export or import left in a folder that is locked now."""
    for path in folder.iterdir():
        if path.name not in {LOCK_NAME, HOLDER_NAME}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


# An archive that may come from anybody: nothing in it is trusted.


@contextmanager
def open_archive(file: Path) -> Iterator["Archive"]:
    """An archive, its manifest checked, the rest not yet unpacked; ArchiveError or IndexVersionError if it is none."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield Archive(file, archive)
    except FileNotFoundError as error:
        raise ArchiveError(f"{file} is not there") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ArchiveError(f"{file} is no exported index, or a damaged one: {error}") from error
    except OSError as error:
        raise ArchiveError(f"{file} cannot be read: {error.strerror or error}") from error


class Archive:
    """An open archive; its members are named by us, never by it."""

    def __init__(self, file: Path, archive: zipfile.ZipFile) -> None:
        self.file = file
        self._archive = archive
        members = {info.filename: info for info in archive.infolist()}
        if set(members) != {MANIFEST_NAME, FILE_NAME} or len(archive.infolist()) != len(members):
            raise ArchiveError(f"{file} is no exported index: it holds other files than {MANIFEST_NAME}, {FILE_NAME}")
        if any(info.flag_bits & ENCRYPTED for info in members.values()):
            raise ArchiveError(f"{file} is no exported index: it is encrypted")
        if members[MANIFEST_NAME].file_size > MAX_MANIFEST_BYTES:
            raise ArchiveError(f"{file} is no exported index: its manifest is too large")
        with archive.open(MANIFEST_NAME) as source:
            self.manifest = read_manifest(source.read(MAX_MANIFEST_BYTES), file)
        if self.manifest.bytes > MAX_RATIO * file.stat().st_size + SLACK_BYTES:
            raise ArchiveError(f"{file} would unpack to {self.manifest.bytes:,} bytes, which no index does")

    def unpack(self, target: Path) -> None:
        """Writes the database, which nobody has looked into yet; ArchiveError when the manifest says otherwise."""
        digest, left = hashlib.sha256(), self.manifest.bytes
        target.touch(mode=0o600, exist_ok=False)
        with self._archive.open(FILE_NAME) as source, target.open("wb") as out:
            while left >= 0 and (block := source.read(BLOCK_BYTES)):
                left -= len(block)
                digest.update(block)
                out.write(block)
        if left or digest.hexdigest() != self.manifest.sha256:
            raise ArchiveError(f"{self.file} is damaged: its checksum differs; export the index again")


def read_manifest(data: bytes, file: Path) -> Manifest:
    """The manifest, every value of its type; ArchiveError, IndexVersionError when it is none of this version."""
    try:
        content = json.loads(data)
        formats = content["archive_format"], content["index_format"]
        folders = [check_path(path) for path in content["folders"]]
        if formats != (FORMAT, INDEX_FORMAT):
            listed = " ".join(map(shlex.quote, folders)) or "FOLDER"
            raise IndexVersionError(
                f"{file} was made by a version with another format of the index",
                hint=Command(f"index {listed}", "make it again from the documents; run"),
            )
        numbers = {name: content[name] for name in ("documents", "questions", "bytes")}
        if not all(type(value) is int and value >= 0 for value in (*formats, *numbers.values())):
            raise ValueError(numbers)
        if not re.fullmatch(r"[0-9a-f]{64}", content["sha256"]):
            raise ValueError(content["sha256"])
        return Manifest(**{**content, "folders": tuple(folders)})
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ArchiveError(f"{file} is no exported index: its manifest makes no sense") from error


def check_path(text: object) -> str:
    """The path; ValueError when this system cannot encode it."""
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(text)
    os.fsencode(text)
    return text


# An exported index -> an index: checked to its last row, made beside its place, and put there as a whole.


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How an archive is to be imported."""

    index: Path  # the index's folder; there is none yet, unless `replace`
    # Where the folders of the index are on this machine, in the manifest's order; empty: they are not looked at.
    folders: tuple[Path, ...] = ()
    replace: bool = False
    encoder_url: str = ""  # the server on another machine that the index may go on sending texts to

    def check(self, manifest: Manifest) -> None:
        """Refuses, as UsageError or DocumentsError, what cannot be done with this archive at this place."""
        if self.folders and len(self.folders) != len(manifest.folders):
            listed = ", ".join(manifest.folders) or "none"
            raise UsageError(f"the index has {len(manifest.folders)} folders, name as many, in this order: {listed}")
        for folder in self.folders:
            if not folder.is_dir():
                raise DocumentsError(f"{folder} is no folder; leave it out to import without it")
        if read_address(self.index):
            with read_index(self.index) as connection:
                if reading.document_count(connection) and not self.replace:
                    raise UsageError(f"there is an index in {self.index}; --force replaces it, ?schema=NAME is another")
        elif is_index(self.index):
            if not self.replace:
                raise UsageError(f"there is an index in {self.index}; --force replaces it, --index names another place")
        elif self.index.exists() and (not self.index.is_dir() or any(self.index.iterdir())):
            raise UsageError(f"{self.index} holds something else than an index; name another place with --index")


def import_archive(archive: Archive, options: ImportOptions) -> None:
    """Checks everything, makes the index beside its place, and puts it there; raises as `api.import_index`."""
    options.check(archive.manifest)
    index = options.index
    if read_address(index):
        import_rows(archive, options)
        return
    draft, replaced = name_drafts(index)
    with writing_to(index.parent), writer_lock(draft, 0):
        # What an import that was killed left: an index that it had only taken away is put back.
        if is_index(replaced) and not is_index(index):
            replaced.rename(index)
        shutil.rmtree(replaced, ignore_errors=True)
        empty_draft(draft)
        try:
            options.check(archive.manifest)  # again: the index may be back by now
            require_space(index, SPACE_FACTOR * archive.manifest.bytes)
            archive.unpack(draft / FILE_NAME)
            documents = prepare_index(archive, draft, options)
            forget_named(index)  # the consent was given to another index at this place
            put_in_place(draft, index, replaced)
            if options.folders:
                name_folders(index, options.folders, documents)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def import_rows(archive: Archive, options: ImportOptions) -> None:
    """Checks everything in a folder for a while, then copies the rows into PostgreSQL, all or none."""
    with tempfile.TemporaryDirectory(prefix="hybrid-retrieve-") as place:
        draft = Path(place)
        archive.unpack(draft / FILE_NAME)
        documents = prepare_index(archive, draft, options, is_final=False)
        with (
            write_index(options.index, WAIT_FOR_WRITER_S) as (target, _),
            closing(open_file(draft)) as source,
            transaction(target),
        ):
            options.check(archive.manifest)
            remove_rows(target)
            copy_rows(source, target)
            if reading.snapshot_number(source):
                renew_snapshot(target, options.index)
                renew_folder_backgrounds(target)
    forget_named(options.index)
    if options.folders:
        name_folders(options.index, options.folders, documents)


def name_drafts(index: Path) -> tuple[Path, Path]:
    """Where an import makes the index, and where it puts the one that was there."""
    # The names are always the same, and the first has a writer's lock: so the next import knows what a killed one left.
    return index.with_name(f".{index.name}.import"), index.with_name(f".{index.name}.replaced")


def prepare_index(archive: Archive, draft: Path, options: ImportOptions, *, is_final: bool = True) -> Mapping[str, Any]:
    """Checks the unpacked database, makes what searches need if that is its place, returns its documents' settings."""
    try:
        with translate_sqlite_errors(draft), closing(open_file(draft)) as connection:
            check_schema(connection)
        with translate_sqlite_errors(draft), closing(create_file(draft)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            if (found := next(find_damage(connection), None)) is not None:
                raise ArchiveError(f"{archive.file} is damaged: {found}")
            given = check_settings(connection, options)
            folders = reading.folders(connection)
            if len(options.folders) not in {0, len(folders)}:
                raise sqlite3.DatabaseError("its folders are not those of its manifest")
            with transaction(connection):
                # The index looks for its folders where they are on this machine. Two steps: two may change places.
                move_folder = "UPDATE folders SET path = ? WHERE folder_key = ?"
                for folder in folders if options.folders else ():
                    connection.execute(move_folder, (f"\0{folder.key}", folder.key))
                for folder, moved in zip(folders, options.folders, strict=False):
                    connection.execute(move_folder, (str(moved), folder.key))
                if is_final and reading.snapshot_number(connection):
                    renew_snapshot(connection, draft)
            return dict(given.for_index().get("documents", {}))
    except (IndexDamagedError, NoIndexError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ArchiveError(f"{archive.file} holds no index that can be used: {error.__cause__ or error}") from error


def check_schema(connection: sqlite3.Connection) -> None:
    """Raises sqlite3.DatabaseError for more than our tables and indexes: triggers and views would run in our name."""
    known = set(re.findall(r"^CREATE (?:TABLE|INDEX) (\w+)", read_schema(), re.MULTILINE))
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        is_ours = name in known or name.startswith("sqlite_")
        if kind not in {"table", "index"} or not is_ours or re.match(r"\s*CREATE\s+VIRTUAL", sql or "", re.IGNORECASE):
            raise sqlite3.DatabaseError(f"it holds the {kind} {name}, which is not ours")


def check_settings(connection: sqlite3.Connection, options: ImportOptions) -> GivenSettings:
    """The settings; refuses a server on another machine, and files of other kinds, that the index alone names."""
    settings = reading.index_settings(connection)
    given = collect_settings(DEFAULT_PROFILE, None, settings)
    encoder = given.profile().encoder
    if encoder.url and encoder.url != options.encoder_url and not is_this_machine(encoder.url):
        raise UsageError(
            f"the index names the server {encoder.url}, which would read questions and documents:"
            f" if that is meant, add: --encoder-url {encoder.url}"
        )
    if options.folders:
        check_documents(options.index, settings, given, anew=True)
    return given


def put_in_place(draft: Path, index: Path, replaced: Path) -> None:
    """Gives the finished index its name, and removes the one that had it."""
    if not is_index(index):
        with suppress(FileNotFoundError):
            index.rmdir()
        draft.rename(index)
        return
    with writer_lock(index, WAIT_FOR_WRITER_S):
        index.rename(replaced)
        draft.rename(index)
    shutil.rmtree(replaced, ignore_errors=True)
