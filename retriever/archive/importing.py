"""An exported index -> an index: checked to its last row, made beside its place, and put there as a whole."""

import os
import re
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from retriever.archive.exporting import Archive, Manifest
from retriever.disk import make_private_folder, require_space, writing_to
from retriever.errors import ArchiveError, DocumentsError, IndexDamagedError, NoIndexError, UsageError
from retriever.indexing.generation import renew_generation
from retriever.indexing.locks import writer_lock
from retriever.indexing.recipe import WAIT_FOR_WRITER_S
from retriever.llm.transport import is_this_machine
from retriever.settings.layers import DEFAULT_PROFILE, given_settings
from retriever.store import migrating, reading
from retriever.store.checking import find_damage
from retriever.store.database import FILE_NAME, create_database, foreign_errors, is_index, open_unmigrated, transaction

SPACE_FACTOR = 3
"""The disk needs so many times the database: itself, its log, and the generation that is made of it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How an archive is to be imported."""

    index: Path
    """The index's folder; there is none yet, unless `replace`."""
    folders: tuple[Path, ...] = ()
    """Where the folders of the index are on this machine, in the manifest's order; empty: where they were."""
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
    require_space(wish.index, SPACE_FACTOR * archive.manifest.bytes)
    with writing_to(wish.index.parent):
        make_private_folder(wish.index.parent)
        draft = Path(tempfile.mkdtemp(dir=wish.index.parent, prefix=".import-"))
        try:
            archive.unpack(draft / FILE_NAME)
            _prepare(archive, draft, wish)
            _put(draft, wish.index)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _prepare(archive: Archive, folder: Path, wish: Wish) -> None:
    """Brings the unpacked database up to date, checks every row of it, and makes what searches need."""
    try:
        with foreign_errors(folder), closing(open_unmigrated(folder)) as connection:
            _check_schema(connection)
        with foreign_errors(folder), closing(create_database(folder)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            if (found := next(find_damage(connection), None)) is not None:
                raise ArchiveError(f"{archive.file} is damaged: {found}")
            _check_server(connection, wish)
            with transaction(connection):
                _place_folders(connection, wish)
                if reading.generation_number(connection):
                    renew_generation(connection, folder)
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
    schema = (Path(migrating.__file__).parent / "schema.sql").read_text(encoding="utf-8")
    known = set(re.findall(r"^CREATE (?:TABLE|INDEX) (\w+)", schema, re.MULTILINE))
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        is_ours = name in known or name.startswith("sqlite_")
        if kind not in {"table", "index"} or not is_ours or re.match(r"\s*CREATE\s+VIRTUAL", sql or "", re.IGNORECASE):
            raise sqlite3.DatabaseError(f"it holds the {kind} {name}, which is not ours")


def _check_server(connection: sqlite3.Connection, wish: Wish) -> None:
    """Refuse a server on another machine that the index alone names; its settings must be settings, too."""
    encoder = given_settings(DEFAULT_PROFILE, None, reading.index_settings(connection)).profile().encoder
    if encoder.url and encoder.url != wish.encoder_url and not is_this_machine(encoder.url):
        raise UsageError(
            f"the index names the server {encoder.url}, which would read questions and documents:"
            f" if that is meant, add: --encoder-url {encoder.url}"
        )


def _place_folders(connection: sqlite3.Connection, wish: Wish) -> None:
    """Lets the index look for its folders where they are on this machine."""
    folders = reading.folders(connection)
    if len(wish.folders) not in {0, len(folders)}:
        raise sqlite3.DatabaseError("its folders are not those of its manifest")
    # In two steps, so that two folders may change places.
    for folder in folders if wish.folders else ():
        connection.execute("UPDATE folders SET path = ? WHERE folder_key = ?", (f"\0{folder.key}", folder.key))
    for folder, place in zip(folders, wish.folders, strict=False):
        connection.execute("UPDATE folders SET path = ? WHERE folder_key = ?", (str(place), folder.key))


def _put(draft: Path, index: Path) -> None:
    """Gives the finished index its name, and removes the one that had it."""
    if not is_index(index):
        with suppress(FileNotFoundError):
            index.rmdir()
        draft.rename(index)
        return
    old = index.with_name(f".{index.name}.replaced-{os.getpid()}")
    with writer_lock(index, WAIT_FOR_WRITER_S):
        index.rename(old)
        draft.rename(index)
    shutil.rmtree(old, ignore_errors=True)
