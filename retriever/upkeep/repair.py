"""What `doctor --repair` does: make an index anew from its documents, and keep what can be verified of the old one.

A damaged index.sqlite stays as it is while a new one is made in a draft folder; then the new one takes its place in
one step. A repair that is killed before that step leaves the damaged index and the draft, which the next repair
removes.

Kept are what no document can give back (folders, settings, what was forgotten) and, by
the hashes of their texts, what would take long to make: vectors. Each table is read
up to the first row that cannot be read.
"""

import json
import shlex
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from retriever.arguments import check_arguments
from retriever.display.phrases import pluralize
from retriever.embedding import open_encoder
from retriever.errors import (
    CommandHint,
    IndexDamagedError,
    IndexLockedError,
    NoIndexError,
    OldIndexError,
    RetrieverError,
)
from retriever.files import sync, writing_to
from retriever.indexes import find_index
from retriever.indexing.consent import (
    drop_widening_settings,
    explain_refusal,
    forget_named,
    name_folders,
    read_named_folders,
)
from retriever.indexing.derived import open_derived
from retriever.indexing.report import IndexReport
from retriever.indexing.request import WAIT_FOR_WRITER_S, IndexRequest
from retriever.indexing.snapshot import DerivedFiles, locate_snapshot
from retriever.indexing.update import update_index
from retriever.protocols import Encoder, Progress
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.store import reading, text_vectors, writing
from retriever.store.checking import find_damage
from retriever.store.database import (
    BUSY_TIMEOUT_S,
    FILE_NAME,
    create_file,
    transaction,
    translate_sqlite_errors,
)
from retriever.store.locks import writer_lock
from retriever.store.own_files import LOGS, make_draft, next_snapshot, remove_drafts
from retriever.store.store import FolderStore, Store
from retriever.trace import NoProgress
from retriever.upkeep.doctor import CheckUp, examine

# Tables that are saved, and what a report calls one of their rows. Indexing makes the other tables again; of `meta` the
# settings are saved.
SAVED = {
    "folders": "folder",
    "forgotten": "forgotten path",
    "vectors": "vector",
}
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the second where an error message quotes a damaged schema


@check_arguments
def check_up(
    index: str | Path | None = None,
    *,
    repair: bool = False,
    llm: bool = False,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    encoder: Encoder | None = None,
) -> "CheckUp":
    """Examine the installation and an index, and repair the index on request.

    Args:
        index: the index's folder, found as in `open_retriever`.
        repair: make broken parts anew first, and save what a damaged database holds.
        llm: ask the language model as well, and look whether there is all that the profile needs of models.
        profile: for `llm`, a name in configs/ or the path of a YAML file.
        settings: for `llm`, settings over those of the profile, nested as in a profile file.
        progress: told how far a repair has come, where documents are indexed again.
        encoder: the caller's own embedding model, for such a repair.

    Raises:
        RetrieverError: a repair failed; the message says what to do.
    """
    try:
        place: Store | None = find_index((), index).index
    except NoIndexError:
        place = None
    repairs = tuple(repair_index(place, progress, encoder)) if repair and place else ()
    models = collect_settings(profile, settings).profile() if llm else None
    return CheckUp(tuple(examine(place, models)), repairs)


def repair_index(store: Store, progress: Progress | None = None, encoder: Encoder | None = None) -> Iterator[str]:
    """Make an index whole; yield what was done, a sentence each.

    Raises DocumentsError when a folder of documents is away, EncoderError when a lost vector cannot be made again: the
    damaged index is then as it was. IndexUnusableError when it is locked, of another format, or cannot be written.
    """
    if not store.exists():
        return
    store.require_own()
    if not has_lost_rows(store):
        yield from repair_derived(store)
        return
    index = store.folder  # what a database has lost is in the backups of its server, or made again by `index`
    with writer_lock(index, WAIT_FOR_WRITER_S), writing_to(index), translate_sqlite_errors(index):
        remove_drafts(index)  # of repairs that were killed: this one has the lock
        if not has_lost_rows(store):  # another one has done it
            return
        with make_draft(index) as draft:
            folders, saved = salvage(index / FILE_NAME, draft)
            # What this user named for the index is known beside it, too; what nobody named is not looked at.
            named = read_named_folders(FolderStore(index)).folders
            docs = () if folders else tuple(map(Path, named))
            can_index = set(folders) <= set(named) if folders else bool(docs)
            try:
                report = fill_draft(draft, index, docs, progress, encoder) if can_index else None
                put_in_place(draft, index)
            finally:
                forget_named(FolderStore(draft))
    yield "a new index took the place of the old one"
    yield saved
    if report is None:
        command = CommandHint(f"index {shlex.join(folders) or 'FOLDER'} --index {shlex.quote(str(index))}")
        yield f"{explain_refusal(folders) if folders else 'which folders it held cannot be read'}; {command.render()}"
        return
    texts = f"{report.embedded:,} texts embedded, {report.reused_vectors:,} known already"
    yield f"{pluralize(report.documents, 'document')} indexed again: {texts}"


def has_lost_rows(store: Store) -> bool:
    """Return whether the rows are damaged, of an earlier format, or lack vectors that they had."""
    try:
        with store.read() as connection:
            if next(find_damage(connection), None) is not None:
                return True
            fingerprint = reading.meta(connection, "fingerprint")
            return bool(fingerprint and text_vectors.count_lost(connection, fingerprint))
    except (IndexDamagedError, OldIndexError):
        return True
    except NoIndexError:  # a first indexing was killed before it made the tables
        return False


def repair_derived(store: Store) -> Iterator[str]:
    """Make anew from the rows what is derived from them and damaged, for which nothing is embedded."""
    derived = open_derived(store)
    with store.write(WAIT_FOR_WRITER_S) as (connection, _):
        number = reading.snapshot_number(connection)
        if number and any(problem for _, problem, _ in derived.examine(connection)):
            with transaction(connection):
                number = derived.renew(connection)
            yield f"snapshot {number} was made anew from the database; nothing was embedded"
        derived.remove_old(number)
        store.erase(connection, is_thorough=False)


def fill_draft(
    draft: Path, index: Path, docs: tuple[Path, ...], progress: Progress | None, encoder: Encoder | None
) -> IndexReport:
    """Index `docs` and the folders that a draft was given, with the settings and the consent of the damaged index."""
    with closing(create_file(draft)) as connection:
        own = drop_widening_settings(FolderStore(index), reading.index_settings(connection))
        given = collect_settings(DEFAULT_PROFILE, None, own)
        encoder = encoder or open_encoder(given.profile().encoder)
    request = IndexRequest(FolderStore(draft), docs, given.profile(), given.for_index(), encoder)
    # The draft may look at what this user has named for the index, not at all that its database names.
    known = read_named_folders(FolderStore(index))
    name_folders(FolderStore(draft), [Path(folder) for folder in known.folders], known.documents or {})
    return update_index(request, progress or NoProgress())


def put_in_place(draft: Path, index: Path) -> None:
    """Put the finished index of a draft folder in the place of another, in one step; for the one writer of both."""
    empty_log(index)
    # The new snapshot comes first: the old database does not name it. The one step is the last `replace`.
    with closing(create_file(draft)) as connection:
        made, number = reading.snapshot_number(connection), next_snapshot(index)
        if made:  # 0 where no folder could be read, so that nothing was indexed
            locate_snapshot(draft, made).rename(locate_snapshot(index, number))
            writing.set_meta(connection, "snapshot", str(number))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for log in LOGS:  # empty by now; SQLite would take them for the new database's
        (index / log).unlink(missing_ok=True)
    sync(index)
    (draft / FILE_NAME).replace(index / FILE_NAME)
    sync(index)
    DerivedFiles(index).remove_old(number if made else 0)


def empty_log(index: Path) -> None:
    """Move what SQLite's log holds into the old database; IndexLockedError where somebody is reading it."""
    uri = f"{(index / FILE_NAME).as_uri()}?mode=rw"
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # passes over a definition that is damaged
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise IndexLockedError(f"a process is reading the index {index}", hint="end it, then run this again")


# Out of a damaged index.sqlite, what no document can give back, and what takes long to make.


def salvage(damaged: Path, draft: Path) -> tuple[tuple[str, ...], str]:
    """Fill the database of a new index in the folder `draft`; nothing is written to the damaged one.

    Returns the folders that it names, and how much was saved: a sentence for people.
    """
    saved, broken = {}, []
    uri = f"{damaged.as_uri()}?mode=ro"
    with closing(create_file(draft)) as target, closing(sqlite3.connect(uri, uri=True)) as source:
        # Then SQLite passes over a table whose definition is damaged, and reads the others; nothing is written here.
        source.execute("PRAGMA writable_schema = ON")
        target.execute("PRAGMA foreign_keys = OFF")
        with transaction(target):
            meta = "SELECT value FROM meta WHERE key = ?"
            try:
                (settings,) = source.execute(meta, ("settings",)).fetchone()
                collect_settings(DEFAULT_PROFILE, None, json.loads(settings)).profile()
                writing.set_meta(target, "settings", str(settings))
            except (*UNREADABLE, RetrieverError, ValueError, TypeError, AttributeError):
                broken.append("settings")
            for table, name in SAVED.items():
                before = target.total_changes
                if not copy_table(source, target, table):
                    broken.append(f"{name}s")
                saved[name] = target.total_changes - before
            target.execute("DELETE FROM forgotten WHERE folder_key NOT IN (SELECT folder_key FROM folders)")
        folders = tuple(folder.path for folder in reading.folders(target))
    counts = ", ".join(pluralize(count, name) for name, count in saved.items() if count) or "nothing"
    lost = f"; not all could be read of: {', '.join(broken)}" if broken else ""
    return folders, f"saved of the old one: {counts}{lost}"


def copy_table(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> bool:
    """Copy the rows that can be read and verified; return whether that was all of them."""
    columns = [name for _, name, *_ in target.execute(f"PRAGMA table_info({table})")]
    insert = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    is_whole = True
    try:
        for row in source.execute(f"SELECT {', '.join(columns)} FROM {table}"):
            if table == "vectors" and not text_vectors.is_as_written(row[-1]):
                is_whole = False
                continue
            try:
                target.execute(insert, row)
            except sqlite3.IntegrityError:  # a value of another type than the table's
                is_whole = False
    except UNREADABLE:
        is_whole = False
    return is_whole
