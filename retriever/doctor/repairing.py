"""What `doctor --repair` does: the least that makes an index whole again, nothing where it is."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from retriever.display.wording import counted
from retriever.doctor.generation_parts import examine_generation
from retriever.doctor.mending import mend
from retriever.doctor.rescue import rescue
from retriever.errors import IndexDamagedError
from retriever.indexing.consent import named_folders, own_documents
from retriever.indexing.generation import remove_old_generations, renew_generation
from retriever.indexing.locks import writer_lock
from retriever.indexing.recipe import WAIT_FOR_WRITER_S, IndexRequest
from retriever.indexing.updating import update_index
from retriever.progress import NoProgress
from retriever.settings.layers import DEFAULT_PROFILE, given_settings
from retriever.store import reading
from retriever.store.checking import find_damage
from retriever.store.database import create_database, foreign_errors, is_index, open_database, transaction
from retriever.types import Encoder, Progress


def repair(index: Path, progress: Progress | None = None, encoder: Encoder | None = None) -> Iterator[str]:
    """Makes an index whole; says what was done, a sentence each.

    Args:
        index: the index's folder.
        progress: told how far indexing has come, where documents are indexed again.
        encoder: the caller's own, as in `open_retriever`.

    Raises:
        IndexUnusableError: the index is locked, of a newer format, or the disk is full or read-only.
        DocumentsError: a folder of documents is away, and its rows cannot be read.
        EncoderError: a text whose vector was lost cannot be embedded.
    """
    if not is_index(index):
        return
    with writer_lock(index, WAIT_FOR_WRITER_S), foreign_errors(index):
        if not _is_damaged(index):
            yield from _repair_generation(index)
            return
        mended = mend(index)
        rescued = None if mended else rescue(index)
    if rescued is None:
        yield f"removed, as they differ from their checksums: {mended}"
        yield _indexed_again(index, (), progress, encoder)
        return
    yield f"the damaged database was kept as {rescued.aside.name}; {rescued.says}"
    if not rescued.folders:
        yield f"which folders it held cannot be read; run: hybrid_retrieve.py index FOLDER --index {index}"
        return
    yield _indexed_again(index, rescued.folders, progress, encoder)


def _indexed_again(index: Path, folders: tuple[Path, ...], progress: Progress | None, encoder: Encoder | None) -> str:
    """What indexing did, in a sentence."""
    report = update_index(_request(index, folders, encoder), progress or NoProgress())
    texts = f"{report.embedded:,} texts embedded, {report.reused_vectors:,} known already"
    return f"{counted(report.added + report.changed, 'document')} indexed again: {texts}"


def _request(index: Path, folders: tuple[Path, ...], encoder: Encoder | None) -> IndexRequest:
    """With the settings that were saved."""
    with foreign_errors(index), closing(open_database(index)) as connection:
        given = given_settings(DEFAULT_PROFILE, None, own_documents(index, reading.index_settings(connection)))
    named = named_folders(index).folders  # the database itself may name any
    folders = tuple(folder for folder in folders if str(folder) in named)
    return IndexRequest(index, folders, given.profile(), given.for_index(), encoder)


def _is_damaged(index: Path) -> bool:
    try:
        with foreign_errors(index), closing(create_database(index)) as connection:
            return any(True for _ in find_damage(connection))
    except IndexDamagedError:
        return True


def _repair_generation(index: Path) -> Iterator[str]:
    with closing(create_database(index)) as connection:
        if _is_broken(connection, index):
            with transaction(connection):
                number = renew_generation(connection, index)
            yield f"generation {number} was made anew from the database; nothing was embedded"
        remove_old_generations(index, reading.generation_number(connection))


def _is_broken(connection: sqlite3.Connection, index: Path) -> bool:
    number = reading.generation_number(connection)
    return number > 0 and any(found.level == "problem" for found in examine_generation(connection, index, ""))
