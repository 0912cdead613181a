"""What `doctor --repair` does: the least that makes an index whole again, nothing where it is whole.

Derived parts are made anew from index.sqlite. A damaged index.sqlite stays as it is while a new index is made beside
it, in a draft folder; then the new one takes its place in one step. A repair that is killed before that step leaves the
damaged index and the draft, which the next repair removes.

`salvage` reads out of the damaged database what no document can give back, and the vectors.
"""

import json
import os
import shlex
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from retriever.display.phrases import pluralize
from retriever.doctor import examine_parts, examine_snapshot
from retriever.errors import Command, IndexDamagedError, IndexLockedError, NoIndexError, RetrieverError
from retriever.files import sync, writing_to
from retriever.indexing.consent import (
    drop_widening_settings,
    explain_refusal,
    forget_named,
    name_folders,
    read_named_folders,
)
from retriever.indexing.request import WAIT_FOR_WRITER_S, IndexRequest
from retriever.indexing.snapshot import locate_snapshot, remove_old_snapshots, renew_snapshot
from retriever.indexing.update import update_index
from retriever.protocols import Encoder, Progress
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.store import reading, writing
from retriever.store.address import read_address
from retriever.store.checking import find_damage
from retriever.store.database import (
    BUSY_TIMEOUT_S,
    FILE_NAME,
    create_file,
    is_index,
    list_aside,
    open_file,
    transaction,
    translate_sqlite_errors,
    write_index,
)
from retriever.store.locks import writer_lock
from retriever.store.text_vectors import is_as_written
from retriever.trace import NoProgress
from retriever.types import IndexReport

DRAFT_NAME = f"{FILE_NAME}.draft"
DAMAGED_NAME = f"{FILE_NAME}.damaged"
LOGS = ("-wal", "-shm")  # what SQLite keeps beside a database
# Tables that are saved, what a report calls one of their rows, and the order in which SQLite stores these. Indexing
# makes the other tables again; of `meta` only the settings are saved.
SAVED = {
    "folders": ("folder", ("folder_key",)),
    "forgotten": ("forgotten path", ("folder_key", "path")),
    "queries": ("recorded question", ("query_id",)),
    "opened": ("opened section", ("node_id",)),
    "vectors": ("vector", ("rowid",)),
    "tokens": ("token list", ("rowid",)),
    "summaries": ("summary text", ("writer", "text_hash")),
}
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the second where an error message quotes a damaged schema
Row = tuple[object, ...]


def repair_index(index: Path, progress: Progress | None = None, encoder: Encoder | None = None) -> Iterator[str]:
    """Makes an index whole; says what was done, a sentence each.

    Raises DocumentsError when a folder of documents is away, EncoderError when a lost vector cannot be made again: the
    damaged index is then as it was. IndexUnusableError when it is locked, of another format, or cannot be written.
    """
    if not is_index(index):
        return
    if read_address(index):
        with write_index(index, WAIT_FOR_WRITER_S) as (connection, _), transaction(connection):
            if any(found.level == "problem" for found in examine_parts(connection)):
                yield f"the postings were made anew, as part of state {renew_snapshot(connection, index)}"
        return
    with writer_lock(index, WAIT_FOR_WRITER_S), writing_to(index), translate_sqlite_errors(index):
        draft = index / DRAFT_NAME
        shutil.rmtree(draft, ignore_errors=True)  # of a repair that was killed
        try:
            with closing(open_file(index)) as connection:
                is_damaged = next(find_damage(connection), None) is not None
        except IndexDamagedError:
            is_damaged = True
        except NoIndexError:  # a first indexing was killed before it made the tables
            is_damaged = False
        if not is_damaged:
            yield from repair_snapshot(index)
            return
        empty_log(index)
        draft.mkdir(mode=0o700)
        try:
            folders, saved = salvage(index / FILE_NAME, draft)
            # What this user named for the index is known beside it, too; what nobody named is not looked at.
            named = read_named_folders(index).folders
            docs = () if folders else tuple(map(Path, named))
            can_index = set(folders) <= set(named) if folders else bool(docs)
            report = fill_draft(draft, index, docs, progress, encoder) if can_index else None
            swap(draft, index)
        finally:
            forget_named(draft)
            shutil.rmtree(draft, ignore_errors=True)
    yield f"a new index took the place of the damaged one, which was kept as {index / DAMAGED_NAME}"
    yield saved
    if report is None:
        command = Command(f"index {shlex.join(folders) or 'FOLDER'} --index {shlex.quote(str(index))}")
        yield f"{explain_refusal(folders) if folders else 'which folders it held cannot be read'}; {command.render()}"
        return
    texts = f"{report.embedded:,} texts embedded, {report.reused_vectors:,} known already"
    yield f"{pluralize(report.documents, 'document')} indexed again: {texts}"


def repair_snapshot(index: Path) -> Iterator[str]:
    """Makes a damaged snapshot anew from the rows, for which nothing is embedded; removes those not in force."""
    with closing(create_file(index)) as connection:
        number = reading.snapshot_number(connection)
        if number and any(found.level == "problem" for found in examine_snapshot(connection, index, "")):
            with transaction(connection):
                number = renew_snapshot(connection, index)
            yield f"snapshot {number} was made anew from the database; nothing was embedded"
        remove_old_snapshots(index, number)


def empty_log(index: Path) -> None:
    """Moves what SQLite's log holds into the damaged database, so that the swap may remove the log."""
    uri = f"{(index / FILE_NAME).as_uri()}?mode=rw"
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # passes over a definition that is damaged
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise IndexLockedError(f"a process is reading the index {index}", hint="end it, then run the repair again")


def fill_draft(
    draft: Path, index: Path, docs: tuple[Path, ...], progress: Progress | None, encoder: Encoder | None
) -> IndexReport:
    """Indexes `docs` and the folders that a draft was given, with the settings and the consent of the damaged index."""
    with closing(create_file(draft)) as connection, transaction(connection):
        own = drop_widening_settings(index, reading.index_settings(connection))
        given = collect_settings(DEFAULT_PROFILE, None, own)
        # The new snapshot takes a higher number than those that are there, so that no folder stands in its way.
        numbers = [folder.name.removeprefix("snapshot-") for folder in index.glob("snapshot-*")]
        highest = max((int(number) for number in numbers if number.isdecimal()), default=0)
        writing.set_meta(connection, "snapshot", str(highest))
    request = IndexRequest(draft, docs, given.profile(), given.for_index(), encoder)
    # The draft may look at what this user has named for the index, not at all that its database names.
    known = read_named_folders(index)
    name_folders(draft, [Path(folder) for folder in known.folders], known.documents or {})
    return update_index(request, progress or NoProgress())


def swap(draft: Path, index: Path) -> None:
    """Puts the draft in the place of the damaged database, which keeps its content under another name."""
    # The new snapshot comes first: the damaged database does not name it. The one step is the last `replace`.
    with closing(create_file(draft)) as connection:
        number = reading.snapshot_number(connection)  # 0 where no folder could be read, so that nothing was indexed
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if number:
        locate_snapshot(draft, number).rename(locate_snapshot(index, number))
    for path in list_aside(index):
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
    remove_old_snapshots(index, number)


# Out of a damaged index.sqlite, what no document can give back, and the vectors.


def salvage(damaged: Path, draft: Path) -> tuple[tuple[str, ...], str]:
    """Fills the database of a new index in the empty folder `draft`; nothing is written to the damaged one.

    Returns the folders that it names, and how much was saved: a sentence for people.
    """
    saved, broken = {}, []
    uri = f"{damaged.as_uri()}?mode=ro"
    with closing(create_file(draft)) as target, closing(sqlite3.connect(uri, uri=True)) as source:
        # Then SQLite passes over a table whose definition is damaged, and reads the others; nothing is written here.
        source.execute("PRAGMA writable_schema = ON")
        target.execute("PRAGMA foreign_keys = OFF")
        with transaction(target):
            settings = "{}"
            try:
                (settings,) = source.execute("SELECT value FROM meta WHERE key = 'settings'").fetchone()
                collect_settings(DEFAULT_PROFILE, None, json.loads(settings)).profile()
            except (*UNREADABLE, RetrieverError, ValueError, TypeError, AttributeError):
                settings = "{}"
                broken.append("settings")
            writing.set_meta(target, "settings", str(settings))
            for table, (name, _) in SAVED.items():
                before = target.total_changes
                if not copy_table(source, target, table):
                    broken.append(f"{name}s")
                saved[name] = target.total_changes - before
            remove_odd_vectors(target)
            target.execute("DELETE FROM forgotten WHERE folder_key NOT IN (SELECT folder_key FROM folders)")
        folders = tuple(folder.path for folder in reading.folders(target))
    counts = ", ".join(pluralize(count, name) for name, count in saved.items() if count) or "nothing"
    lost = f"; not all could be read of: {', '.join(broken)}" if broken else ""
    return folders, f"saved of the damaged one: {counts}{lost}"


def copy_table(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> bool:
    """Copies the rows that can be read and believed; whether that was all of them."""
    columns = [name for _, name, *_ in target.execute(f"PRAGMA table_info({table})")]
    insert = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    is_whole = True
    for row in read_rows(source, table, columns):
        if row is None or (table == "vectors" and not is_as_written(row[-1])):
            is_whole = False
            continue
        try:
            target.execute(insert, row)
        except sqlite3.IntegrityError:  # a value of another type than the table's
            is_whole = False
    return is_whole


def read_rows(source: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[Row | None]:
    """From the first row to the first that cannot be read, then from the last back; None for what lies between."""
    for direction in ("ASC", "DESC"):
        order = ", ".join(f"{column} {direction}" for column in SAVED[table][1])
        try:
            yield from source.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}")
            return
        except UNREADABLE:
            yield None


def remove_odd_vectors(target: sqlite3.Connection) -> None:
    """Removes those that have not as many numbers as most of the same encoder."""
    lengths: dict[str, Counter[int]] = {}
    for fingerprint, length, count in target.execute(
        "SELECT fingerprint, length(vector), count(*) FROM vectors GROUP BY 1, 2"
    ):
        lengths.setdefault(fingerprint, Counter())[length] += count
    for fingerprint, counter in lengths.items():
        ((usual, _),) = counter.most_common(1)
        target.execute("DELETE FROM vectors WHERE fingerprint = ? AND length(vector) <> ?", (fingerprint, usual))
