"""What `doctor --repair` does: the least that makes an index whole again, nothing where it is.

Derived parts are made anew from index.sqlite. A damaged index.sqlite stays as it is while a new index is made beside
it, in a draft folder; then the new one takes its place in one step. A repair that is killed before that step leaves the
damaged index and the draft, which the next repair removes.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from retriever.disk import sync, writing_to
from retriever.display.phrases import counted
from retriever.doctor.generation_parts import examine_generation
from retriever.doctor.salvaging import salvage
from retriever.errors import IndexDamagedError, IndexLockedError, NoIndexError
from retriever.indexing.consent import forget_named, name_folders, named_folders, own_documents
from retriever.indexing.generation import folder_of, remove_old_generations, renew_generation
from retriever.indexing.locks import writer_lock
from retriever.indexing.recipe import WAIT_FOR_WRITER_S, IndexRequest
from retriever.indexing.updating import update_index
from retriever.progress import NoProgress
from retriever.settings.layers import DEFAULT_PROFILE, given_settings
from retriever.store import reading, writing
from retriever.store.checking import find_damage
from retriever.store.database import (
    BUSY_TIMEOUT_S,
    FILE_NAME,
    create_database,
    foreign_errors,
    is_index,
    kept_aside,
    open_database,
    transaction,
)
from retriever.types import Encoder, Progress

DRAFT_NAME = f"{FILE_NAME}.draft"
DAMAGED_NAME = f"{FILE_NAME}.damaged"
LOGS = ("-wal", "-shm")  # what SQLite keeps beside a database


def repair(index: Path, progress: Progress | None = None, encoder: Encoder | None = None) -> Iterator[str]:
    """Makes an index whole; says what was done, a sentence each.

    Args:
        index: the index's folder.
        progress: told how far indexing has come, where documents are indexed again.
        encoder: the caller's own, as in `open_retriever`.

    Raises:
        IndexUnusableError: the index is locked, of another format, or the disk is full or read-only.
        DocumentsError: a folder of documents is away; the damaged index is as it was.
        EncoderError: a text whose vector was lost cannot be embedded; the damaged index is as it was.
    """
    if not is_index(index):
        return
    with writer_lock(index, WAIT_FOR_WRITER_S), writing_to(index), foreign_errors(index):
        shutil.rmtree(index / DRAFT_NAME, ignore_errors=True)  # of a repair that was killed
        if not _is_damaged(index):
            yield from _repair_generation(index)
            return
        _empty_log(index)
        draft = index / DRAFT_NAME
        draft.mkdir(mode=0o700)
        try:
            salvaged = salvage(index / FILE_NAME, draft)
            report = None
            if salvaged.folders:
                with closing(create_database(draft)) as connection, transaction(connection):
                    own = own_documents(index, reading.index_settings(connection))
                    given = given_settings(DEFAULT_PROFILE, None, own)
                    writing.set_meta(connection, "generation", str(_highest_generation(index)))
                request = IndexRequest(draft, (), given.profile(), given.for_index(), encoder)
                # The draft may look at what this user has named for the index, not at all that its database names.
                known = named_folders(index)
                name_folders(draft, [Path(folder) for folder in known.folders], known.documents or {})
                report = update_index(request, progress or NoProgress())
            _swap(draft, index)
        finally:
            forget_named(draft)
            shutil.rmtree(draft, ignore_errors=True)
    yield f"a new index took the place of the damaged one, which was kept as {index / DAMAGED_NAME}"
    yield salvaged.summary
    if report is None:
        yield f"which folders it held cannot be read; run: hybrid_retrieve.py index FOLDER --index {index}"
        return
    texts = f"{report.embedded:,} texts embedded, {report.reused_vectors:,} known already"
    yield f"{counted(report.documents, 'document')} indexed again: {texts}"


def _is_damaged(index: Path) -> bool:
    try:
        with closing(open_database(index)) as connection:
            return any(True for _ in find_damage(connection))
    except IndexDamagedError:
        return True
    except NoIndexError:  # a first indexing was killed before it made the tables
        return False


def _repair_generation(index: Path) -> Iterator[str]:
    with closing(create_database(index)) as connection:
        number = reading.generation_number(connection)
        if number and any(found.level == "problem" for found in examine_generation(connection, index, "")):
            with transaction(connection):
                number = renew_generation(connection, index)
            yield f"generation {number} was made anew from the database; nothing was embedded"
        remove_old_generations(index, number)


def _empty_log(index: Path) -> None:
    """Moves what SQLite's log holds into the damaged database, so that the swap may remove the log.

    Raises:
        IndexLockedError: a process is reading the log, and did not stop in time.
    """
    uri = f"{(index / FILE_NAME).as_uri()}?mode=rw"
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # a definition that is damaged is then passed over
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise IndexLockedError(f"a process is reading the index {index}; end it, then run the repair again")


def _highest_generation(index: Path) -> int:
    """Of the folders that are there: the new index takes a higher number, so no folder stands in its way."""
    numbers = [folder.name.removeprefix("gen-") for folder in index.glob("gen-*")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def _swap(draft: Path, index: Path) -> None:
    """Puts the draft in the place of the damaged database, which keeps its content under another name.

    The new generation comes first: the damaged database does not name it. The one step is the last `replace`.
    """
    with closing(create_database(draft)) as connection:
        number = reading.generation_number(connection)  # 0 where no folder could be read, so that nothing was indexed
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if number:
        folder_of(draft, number).rename(folder_of(index, number))
    for path in kept_aside(index):
        if path != draft:
            path.unlink()
    for log in LOGS:  # or SQLite would take them for the new database's
        (index / f"{FILE_NAME}{log}").unlink(missing_ok=True)
    try:
        os.link(index / FILE_NAME, index / DAMAGED_NAME)
    except OSError:  # a file system without hard links
        shutil.copyfile(index / FILE_NAME, index / DAMAGED_NAME)
        (index / DAMAGED_NAME).chmod(0o600)
    sync(index)
    (draft / FILE_NAME).replace(index / FILE_NAME)
    sync(index)
    remove_old_generations(index, number)
