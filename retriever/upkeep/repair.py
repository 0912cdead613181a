"""What `doctor --repair` does: make an index anew from its documents, and keep what can be verified of the old one.

Out of a damaged index.sqlite comes what no document can give back (folders, settings, what was forgotten) and what
would take long to make (vectors), each table up to the first row that cannot be read. SQLite's own backup puts that in
the place of the damaged database, all of it or nothing; then the documents are indexed again.
"""

import json
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from retriever.display.phrases import pluralize
from retriever.errors import CommandHint, DocumentsError, IndexDamagedError, NoIndexError, OldIndexError, RetrieverError
from retriever.files import is_folder, writing_to
from retriever.indexes import index_request
from retriever.indexing.consent import explain_refusal, read_named_folders
from retriever.indexing.derived import open_derived
from retriever.indexing.request import WAIT_FOR_WRITER_S
from retriever.indexing.update import update_index
from retriever.protocols import Encoder, Progress
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.store import reading
from retriever.store.database import (
    FILE_NAME,
    INDEX_FORMAT,
    PAGE_BYTES,
    copy_into,
    make_schema,
    transaction,
    translate_sqlite_errors,
)
from retriever.store.own_files import LOGS, writer_lock
from retriever.store.store import FolderStore, Store
from retriever.trace import NoProgress

# Tables that are saved, and what a report calls one of their rows; of `meta` the settings are saved.
SAVED = {"folders": "folder", "forgotten": "forgotten path", "vectors": "vector"}
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the second where an error message quotes a damaged schema


def repair_index(store: Store, progress: Progress | None = None, encoder: Encoder | None = None) -> Iterator[str]:
    """Make an index whole; yield what was done, a sentence each.

    Raises:
        DocumentsError: a folder of documents is away; a damaged index is then as it was.
        EncoderError: a lost vector cannot be made again.
        IndexUnusableError: the index is locked, of a later format, or cannot be written.
    """
    if not store.exists():
        return
    store.require_own()
    if is_damaged(store):
        # What a database has lost is in the backups of its server, or made again by `index`.
        yield replace_database(store.folder)
    try:
        with store.read() as connection:
            stored = {folder.path for folder in reading.folders(connection)}
            is_finished = bool(reading.snapshot_number(connection))
    except NoIndexError:  # a first indexing was killed before it made the tables
        return
    if is_finished:
        yield from repair_derived(store)
        return
    named = read_named_folders(store)
    if not stored <= set(named) or not named:  # what this user has not named is not looked at
        says = explain_refusal(", ".join(sorted(stored))) if stored else "which folders it held cannot be read"
        command = CommandHint(f"index {shlex.join(sorted(stored)) or 'FOLDER'} --index {shlex.quote(str(store))}")
        yield f"{says}; {command.render()}"
        return
    request = index_request(() if stored else named, store, DEFAULT_PROFILE, None, encoder)
    report = update_index(request, progress or NoProgress())
    texts = f"{report.embedded:,} texts embedded"
    yield f"{pluralize(report.documents, 'document')} indexed again: {texts}"


def is_damaged(store: Store) -> bool:
    """Return whether the rows are damaged, or of an earlier format."""
    try:
        with store.read() as connection:
            return next(connection.find_damage(), None) is not None
    except (IndexDamagedError, OldIndexError):
        return True
    except NoIndexError:
        return False


def repair_derived(store: Store) -> Iterator[str]:
    """Make anew from the rows what is derived from them and damaged, for which nothing is embedded."""
    derived = open_derived(store)
    with store.write(WAIT_FOR_WRITER_S) as connection:
        number = reading.snapshot_number(connection)
        if any(problem for _, problem in derived.examine(connection)):
            with transaction(connection):
                number = derived.renew(connection)
            yield f"snapshot {number} was made anew from the database; nothing was embedded"
        derived.remove_old(number)


def replace_database(index: Path) -> str:
    """Put a database with what can be saved in the place of a damaged one, all or nothing; return what was saved."""
    with (
        writer_lock(index, WAIT_FOR_WRITER_S),
        writing_to(index),
        translate_sqlite_errors(index),
        closing(sqlite3.connect("", isolation_level=None)) as saved,  # a temporary file
    ):
        saved.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        make_schema(saved)
        says = salvage(index / FILE_NAME, saved)
        named = read_named_folders(FolderStore(index))
        away = [path for (path,) in saved.execute("SELECT path FROM folders") if path in named and not is_folder(path)]
        if away:
            raise DocumentsError(f"{', '.join(away)} is not there; bring it back, then repair the index")
        try:
            copy_into(saved, index / FILE_NAME)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname != "SQLITE_NOTADB":
                raise
            for name in (FILE_NAME, *LOGS):  # not even its first page can be read, so nothing was saved
                (index / name).unlink(missing_ok=True)
            copy_into(saved, index / FILE_NAME)
    return says


def salvage(damaged: Path, target: sqlite3.Connection) -> str:
    """Fill an empty database with what can be read of a damaged one; return how much that was, a sentence."""
    saved, version = {}, 0
    with closing(sqlite3.connect(f"{damaged.as_uri()}?mode=ro", uri=True)) as source:
        source.execute("PRAGMA writable_schema = ON")  # passes over a table whose definition is damaged
        with suppress(*UNREADABLE, RetrieverError, ValueError, TypeError, AttributeError):
            (settings,) = source.execute("SELECT value FROM meta WHERE key = 'settings'").fetchone()
            collect_settings(DEFAULT_PROFILE, None, json.loads(settings)).profile()
            target.execute("INSERT INTO meta VALUES ('settings', ?)", (settings,))
            (version,) = source.execute("PRAGMA user_version").fetchone()
        for table, name in SAVED.items():
            if table == "vectors" and version != INDEX_FORMAT:  # other numbers
                continue
            columns = [column for _, column, *_ in target.execute(f"PRAGMA table_info({table})")]
            listed, marks = ", ".join(columns), ", ".join("?" * len(columns))
            before = target.total_changes
            target.execute("BEGIN")
            with suppress(*UNREADABLE):  # up to the first row that cannot be read, or is not as it should be
                rows = source.execute(f"SELECT {listed} FROM {table}")
                target.executemany(f"INSERT OR IGNORE INTO {table} ({listed}) VALUES ({marks})", rows)
            target.execute("COMMIT")
            saved[name] = target.total_changes - before
    target.execute("DELETE FROM forgotten WHERE folder_key NOT IN (SELECT folder_key FROM folders)")
    counts = ", ".join(pluralize(count, name) for name, count in saved.items() if count) or "nothing"
    return f"saved of the old database: {counts}"
