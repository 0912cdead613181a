"""An index as one file, in the state of one moment: written, and read with suspicion.

The file is a ZIP of two members. What searches need is not among them: it is made anew, without embedding a text.

    manifest.json   what it is, with the size and the SHA-256 of the other one
    index.sqlite    the truth

A file may come from anybody: nothing in it names a place where something is written. `importing` looks into its
database.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from retriever.errors import (
    ArchiveError,
    DocumentsError,
    IndexDamagedError,
    IndexLockedError,
    IndexVersionError,
    NoIndexError,
    StorageError,
    UsageError,
)
from retriever.files import require_space, writing_to
from retriever.http_client import is_this_machine
from retriever.indexing.consent import check_documents, forget_named, name_folders
from retriever.indexing.request import WAIT_FOR_WRITER_S
from retriever.indexing.snapshot import renew_snapshot
from retriever.settings.layers import DEFAULT_PROFILE, GivenSettings, given_settings
from retriever.store import reading
from retriever.store.checking import find_damage
from retriever.store.database import (
    FILE_NAME,
    INDEX_FORMAT,
    create_database,
    is_index,
    open_database,
    read_schema,
    transaction,
    translate_sqlite_errors,
)
from retriever.store.locks import HOLDER_NAME, LOCK_NAME, writer_lock

FORMAT = 1
MANIFEST_NAME = "manifest.json"
MAX_MANIFEST_BYTES = 64 * 1024
MAX_RATIO = 100
"""An index takes about a quarter of its size when it is packed; what claims to unpack to more than this is a bomb."""
SLACK_BYTES = 10_000_000
"""Which a small index may have above that: empty tables pack well."""
BLOCK_BYTES = 1 << 20
DRAFT_NAME = "archive"
DRAFT_ENDING = ".export"
"""Of the folder beside the file in which it is made: its name is always the same, so that the next export finds it."""
ENCRYPTED = 1
"""A flag of a ZIP's member."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive holds."""

    archive_format: int
    index_format: int
    """Of index.sqlite."""
    folders: tuple[str, ...]
    """The indexed folders as the exporting machine named them, in the order in which they came."""
    documents: int
    questions: int
    """How many recorded questions are in it."""
    bytes: int
    """Of index.sqlite."""
    sha256: str
    """Of index.sqlite, 64 hex digits."""


def export_index(index: Path, file: Path, *, replace: bool = False) -> Manifest:
    """Writes an index into one file, in the state of this moment, whatever a writer does meanwhile.

    Raises:
        UsageError: the file is there already.
        IndexUnusableError: there is no index, or it is damaged, or the disk is full or read-only.
    """
    if file.exists() and not replace:
        raise UsageError(f"{file} is there already; --force replaces it")
    folder = file.with_name(f".{file.name}{DRAFT_ENDING}")
    with writing_to(file.parent), writer_lock(folder, 0):
        if not _is_draft(folder):
            raise UsageError(f"{folder} is in the way and holds something else than an export; move it away")
        _remove_dead_exports(file.parent)
        _empty(folder)
        try:
            manifest = _write(index, folder)
            (folder / DRAFT_NAME).replace(file)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return manifest


def _write(index: Path, folder: Path) -> Manifest:
    """Makes the archive in a folder of its own."""
    with translate_sqlite_errors(index), closing(open_database(index)) as connection:
        # Written anew rather than page by page: free pages, which may hold deleted texts, stay behind.
        connection.execute("VACUUM INTO ?", (str(folder / FILE_NAME),))
    manifest = _described(folder)
    draft = folder / DRAFT_NAME
    draft.touch(mode=0o600, exist_ok=False)
    with draft.open("wb") as out:
        _pack(folder / FILE_NAME, manifest, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED))
        out.flush()
        os.fsync(out.fileno())
    return manifest


def _remove_dead_exports(place: Path) -> None:
    """Removes what exports to this folder left that were killed: it holds all texts, and its lock is free."""
    for folder in place.glob(f".*{DRAFT_ENDING}"):
        if not folder.is_symlink() and (folder / LOCK_NAME).exists() and _is_draft(folder):
            with suppress(IndexLockedError, StorageError), writer_lock(folder, 0):
                _empty(folder)
                shutil.rmtree(folder, ignore_errors=True)


def _is_draft(folder: Path) -> bool:
    """Whether there is nothing in it but what an export makes."""
    made = {LOCK_NAME, HOLDER_NAME, DRAFT_NAME, *(f"{FILE_NAME}{end}" for end in ("", "-journal", "-wal", "-shm"))}
    return {path.name for path in folder.iterdir()} <= made


def _empty(folder: Path) -> None:
    """Removes what a killed export left in the folder that is locked now."""
    for path in folder.iterdir():
        if path.name not in {LOCK_NAME, HOLDER_NAME}:
            path.unlink()


def _described(folder: Path) -> Manifest:
    database = folder / FILE_NAME
    with database.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with translate_sqlite_errors(folder), closing(open_database(folder)) as connection:
        return Manifest(
            FORMAT,
            INDEX_FORMAT,
            tuple(found.path for found in reading.folders(connection)),
            reading.counts(connection).documents,
            connection.execute("SELECT count(*) FROM queries").fetchone()[0],
            database.stat().st_size,
            digest,
        )


def _pack(database: Path, manifest: Manifest, archive: zipfile.ZipFile) -> None:
    with archive:
        archive.writestr(MANIFEST_NAME, json.dumps(asdict(manifest), indent=1))
        archive.write(database, FILE_NAME)


@contextmanager
def open_archive(file: Path) -> Iterator["Archive"]:
    """An archive, its manifest read and believed so far as it can be without unpacking the rest.

    Raises:
        ArchiveError: it is none, or a damaged one, or one that somebody made to do harm.
        IndexVersionError: a version with another format made it.
    """
    with _foreign(file), zipfile.ZipFile(file) as archive:
        yield Archive(file, archive)


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
            self.manifest = _read_manifest(source.read(MAX_MANIFEST_BYTES), file)
        if self.manifest.bytes > MAX_RATIO * file.stat().st_size + SLACK_BYTES:
            raise ArchiveError(f"{file} would unpack to {self.manifest.bytes:,} bytes, which no index does")

    def unpack(self, target: Path) -> None:
        """Writes the database, which nobody has looked into yet.

        Raises:
            ArchiveError: it is not what the manifest says.
        """
        digest, left = hashlib.sha256(), self.manifest.bytes
        target.touch(mode=0o600, exist_ok=False)
        with self._archive.open(FILE_NAME) as source, target.open("wb") as out:
            while left >= 0 and (block := source.read(BLOCK_BYTES)):
                left -= len(block)
                digest.update(block)
                out.write(block)
        if left or digest.hexdigest() != self.manifest.sha256:
            raise ArchiveError(f"{self.file} is damaged: its checksum differs; export the index again")


def _read_manifest(data: bytes, file: Path) -> Manifest:
    """The manifest, every value of the type that it should have.

    Raises:
        ArchiveError: it is none.
        IndexVersionError: a version with another format made it.
    """
    try:
        content = json.loads(data)
        if content["archive_format"] != FORMAT or content["index_format"] != INDEX_FORMAT:
            folders = " ".join(shlex.quote(_path_text(path)) for path in content["folders"]) or "FOLDER"
            raise IndexVersionError(
                f"{file} was made by a version with another format of the index; make it again from the documents:"
                f" hybrid_retrieve.py index {folders}"
            )
        return Manifest(**{**content, "folders": tuple(map(_path_text, content["folders"]))} | _numbers(content))
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ArchiveError(f"{file} is no exported index: its manifest makes no sense") from error


def _numbers(content: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are no folders, checked.

    Raises:
        ValueError: one of them cannot be.
    """
    counts = {name: content[name] for name in ("archive_format", "index_format", "documents", "questions", "bytes")}
    if not all(type(value) is int and value >= 0 for value in counts.values()):
        raise ValueError(counts)
    if not re.fullmatch(r"[0-9a-f]{64}", content["sha256"]):
        raise ValueError(content["sha256"])
    return counts


def _path_text(text: object) -> str:
    """A path that this system can encode.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(text)
    os.fsencode(text)
    return text


@contextmanager
def _foreign(file: Path) -> Iterator[None]:
    """What a file that is no archive, or a damaged one, makes the ZIP reader raise becomes ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise ArchiveError(f"{file} is not there") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ArchiveError(f"{file} is no exported index, or a damaged one: {error}") from error
    except OSError as error:
        raise ArchiveError(f"{file} cannot be read: {error.strerror or error}") from error


# An exported index -> an index: checked to its last row, made beside its place, and put there as a whole.

SPACE_FACTOR = 3
"""The disk needs so many times the database: itself, its log, and the snapshot that is made of it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How an archive is to be imported."""

    index: Path
    """The index's folder; there is none yet, unless `replace`."""
    folders: tuple[Path, ...] = ()
    """Where the folders of the index are on this machine, in the manifest's order; empty: they are not looked at."""
    replace: bool = False
    encoder_url: str = ""
    """The server on another machine that the index may go on sending texts to."""


def import_archive(archive: Archive, wish: Wish) -> None:
    """Checks everything, makes the index beside its place, and puts it there.

    Raises:
        ArchiveError: what is in it is damaged, or is no index.
        UsageError: there is an index already; its folders are others; it names a server on another machine.
        DocumentsError: a folder that was named is none.
        IndexUnusableError: another process is writing to the index, or the disk is full or read-only.
    """
    _check_wish(wish, archive.manifest)
    draft, replaced = drafts(wish.index)
    with writing_to(wish.index.parent), writer_lock(draft, 0):
        _finish_dead_import(draft, replaced, wish.index)
        try:
            _check_wish(wish, archive.manifest)  # again: by now it has the index that a killed import took away
            require_space(wish.index, SPACE_FACTOR * archive.manifest.bytes)
            archive.unpack(draft / FILE_NAME)
            documents = _prepare(archive, draft, wish)
            forget_named(wish.index)  # what was said of another index at this place
            _put(draft, wish.index, replaced)
            if wish.folders:
                name_folders(wish.index, wish.folders, documents)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def drafts(index: Path) -> tuple[Path, Path]:
    """Where an import makes the index, and where it puts the one that was there: beside it, so that a name is enough.

    Their names are always the same, and the first has a writer's lock of its own: so what a killed import left is known
    to be nobody's.
    """
    return index.with_name(f".{index.name}.import"), index.with_name(f".{index.name}.replaced")


def _finish_dead_import(draft: Path, replaced: Path, index: Path) -> None:
    """Removes what an import that was killed left, and puts back an index that it had only taken away."""
    if is_index(replaced) and not is_index(index):
        replaced.rename(index)
    shutil.rmtree(replaced, ignore_errors=True)
    for path in draft.iterdir():
        if path.name not in {LOCK_NAME, HOLDER_NAME}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _prepare(archive: Archive, folder: Path, wish: Wish) -> Mapping[str, Any]:
    """Checks the unpacked database, and makes what searches need.

    Returns:
        The settings that say which files are documents.
    """
    try:
        with translate_sqlite_errors(folder), closing(open_database(folder)) as connection:
            _check_schema(connection)
        with translate_sqlite_errors(folder), closing(create_database(folder)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            if (found := next(find_damage(connection), None)) is not None:
                raise ArchiveError(f"{archive.file} is damaged: {found}")
            given = _check_settings(connection, wish)
            with transaction(connection):
                _place_folders(connection, wish)
                if reading.snapshot_number(connection):
                    renew_snapshot(connection, folder)
            return dict(given.for_index().get("documents", {}))
    except (IndexDamagedError, NoIndexError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ArchiveError(f"{archive.file} holds no index that can be used: {error.__cause__ or error}") from error


def _check_wish(wish: Wish, manifest: Manifest) -> None:
    if wish.folders and len(wish.folders) != len(manifest.folders):
        listed = ", ".join(manifest.folders) or "none"
        raise UsageError(f"the index has {len(manifest.folders)} folders, name as many, in this order: {listed}")
    for folder in wish.folders:
        if not folder.is_dir():
            raise DocumentsError(f"{folder} is no folder; leave it out to import without it")
    if is_index(wish.index):
        if not wish.replace:
            raise UsageError(f"there is an index in {wish.index}; --force replaces it, --index names another place")
    elif wish.index.exists() and (not wish.index.is_dir() or any(wish.index.iterdir())):
        raise UsageError(f"{wish.index} holds something else than an index; name another place with --index")


def _check_schema(connection: sqlite3.Connection) -> None:
    """Refuse a database that brings more than tables and indexes of ours: triggers and views would run in our name.

    Raises:
        sqlite3.DatabaseError: it does.
    """
    known = set(re.findall(r"^CREATE (?:TABLE|INDEX) (\w+)", read_schema(), re.MULTILINE))
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        is_ours = name in known or name.startswith("sqlite_")
        if kind not in {"table", "index"} or not is_ours or re.match(r"\s*CREATE\s+VIRTUAL", sql or "", re.IGNORECASE):
            raise sqlite3.DatabaseError(f"it holds the {kind} {name}, which is not ours")


def _check_settings(connection: sqlite3.Connection, wish: Wish) -> GivenSettings:
    """Refuse a server on another machine, and files of other kinds, that the index alone names; the settings."""
    settings = reading.index_settings(connection)
    given = given_settings(DEFAULT_PROFILE, None, settings)
    encoder = given.profile().encoder
    if encoder.url and encoder.url != wish.encoder_url and not is_this_machine(encoder.url):
        raise UsageError(
            f"the index names the server {encoder.url}, which would read questions and documents:"
            f" if that is meant, add: --encoder-url {encoder.url}"
        )
    if wish.folders:
        check_documents(wish.index, settings, given, anew=True)
    return given


def _place_folders(connection: sqlite3.Connection, wish: Wish) -> None:
    """Lets the index look for its folders where they are on this machine."""
    folders = reading.folders(connection)
    if len(wish.folders) not in {0, len(folders)}:
        raise sqlite3.DatabaseError("its folders are not those of its manifest")
    place_folder = "UPDATE folders SET path = ? WHERE folder_key = ?"
    # In two steps, so that two folders may change places.
    for folder in folders if wish.folders else ():
        connection.execute(place_folder, (f"\0{folder.key}", folder.key))
    for folder, place in zip(folders, wish.folders, strict=False):
        connection.execute(place_folder, (str(place), folder.key))


def _put(draft: Path, index: Path, replaced: Path) -> None:
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
