"""An exported index -> an index: checked to its last row, made beside its place, and put there as a whole."""

import re
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retriever.archive.exporting import Archive, Manifest
from retriever.disk import require_space, writing_to
from retriever.errors import ArchiveError, DocumentsError, IndexDamagedError, NoIndexError, UsageError
from retriever.indexing.consent import check_documents, forget_named, name_folders
from retriever.indexing.generation import renew_generation
from retriever.indexing.locks import HOLDER_NAME, LOCK_NAME, writer_lock
from retriever.indexing.recipe import WAIT_FOR_WRITER_S
from retriever.llm.client import is_this_machine
from retriever.settings.layers import DEFAULT_PROFILE, GivenSettings, given_settings
from retriever.store import reading
from retriever.store.checking import find_damage
from retriever.store.database import (
    FILE_NAME,
    create_database,
    foreign_errors,
    is_index,
    open_database,
    read_schema,
    transaction,
)

SPACE_FACTOR = 3
"""The disk needs so many times the database: itself, its log, and the generation that is made of it."""


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
        with foreign_errors(folder), closing(open_database(folder)) as connection:
            _check_schema(connection)
        with foreign_errors(folder), closing(create_database(folder)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            if (found := next(find_damage(connection), None)) is not None:
                raise ArchiveError(f"{archive.file} is damaged: {found}")
            given = _check_settings(connection, wish)
            with transaction(connection):
                _place_folders(connection, wish)
                if reading.generation_number(connection):
                    renew_generation(connection, folder)
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
