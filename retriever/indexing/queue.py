"""Documents that wait in a table of PostgreSQL until a worker indexes them (`worker`)."""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pageindex.files import DocumentText
from retriever.embedding import open_encoder
from retriever.errors import UsageError
from retriever.indexing.changes import Changes, Put, list_folders, read_changes
from retriever.indexing.consent import name_folders
from retriever.indexing.parts import clear_parts
from retriever.indexing.request import IndexRequest
from retriever.indexing.update import compare_folders, note_files, remember_settings
from retriever.protocols import Progress
from retriever.store import reading, writing
from retriever.store.connection import Connection
from retriever.store.database import transaction
from retriever.store.reading import StoredDocument, StoredFolder
from retriever.store.store import Store, open_store

MOST_ATTEMPTS = 3
MOST_QUEUED = 10_000  # beyond it, `enqueue` waits for workers
PAUSE_S = 1.0
GONE = DocumentText("", "", 0, 0, 0, 0, ())

_CLASS = "hashtext('hybrid_retrieve queue ' || current_schema())"
# The units that somebody holds an advisory lock of.
RUNNING = (
    "SELECT CAST(objid AS bigint) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
    f" AND CAST(classid AS bigint) = (CAST({_CLASS} AS bigint) & 4294967295)"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits, what is being worked on, what failed, and how fast it goes."""

    queued: int
    running: int
    failed: tuple[tuple[str, str], ...]
    """Paths as the index names them, and why."""
    indexed: int
    """Documents that workers have indexed or removed, ever: it only grows."""
    per_minute: float
    """Of these, about how many in the last minute, by all workers; it fades as load averages do."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A document to be indexed, or to be removed where its text has no digest."""

    key: int
    folder: StoredFolder
    stat: StoredDocument
    text: DocumentText


def read_queue(index: str | Store) -> Queue | None:
    """The figures of a queue now; None for an index in a folder, which has none.

    Raises:
        IndexUnusableError: the database cannot be read.
    """
    store = open_store(index)
    if store.keeps_snapshots:
        return None
    with store.read() as connection:
        rows = connection.execute(
            f"SELECT prefix || queue.path, attempts, reason, unit IN ({RUNNING}) FROM queue"
            " JOIN folders USING (folder_key) ORDER BY folder_key, queue.path"
        ).fetchall()
        indexed, recent = connection.execute(
            "SELECT indexed, recent * exp(greatest(-50.0, CAST(extract(epoch FROM at - now()) AS float8) / 60))"
            " FROM queue_state"
        ).fetchone() or (0, 0.0)  # for who may not see all
    failed = [
        (path, reason or "the worker ended each time")
        for path, attempts, reason, is_running in rows
        if attempts >= MOST_ATTEMPTS and not is_running
    ]
    running = sum(row[3] for row in rows)
    return Queue(len(rows) - running - len(failed), running, tuple(failed), indexed, round(recent, 1))


def enqueue(request: IndexRequest, progress: Progress) -> int:
    """Puts new and changed documents, and those that are gone, into the queue; how many: `sharing.enqueue_folders`."""
    store, _ = request.store, request.store.url  # a folder has no queue
    if request.profile.summaries.kind == "llm":
        raise UsageError("workers write no summaries with a language model; index without --enqueue")
    with store.write(request.wait_s) as (connection, _):
        listings = list_folders(request.docs, request.profile.documents)
        name_folders(store, request.docs, request.settings.get("documents", {}))
        absorbed, diffs = compare_folders(connection, request, listings, is_anew=False)
        config = reading.meta(connection, "index_config")
        is_unfinished = config is None and reading.document_count(connection)
        if absorbed or is_unfinished or config not in (None, request.index_config):
            raise UsageError("these settings or folders make the index anew; index once without --enqueue")
        with transaction(connection):
            seen = [Changes(diff.folder, diff.unchanged, skipped=diff.listing.skipped) for diff in diffs]
            folders = note_files(connection, seen)
            for diff in diffs:  # what is as it is indexed, or was never indexed and is gone, has not to wait
                waits = [*diff.paths, *(file.path for _, file in diff.unsure)]
                query = "DELETE FROM queue WHERE folder_key = ? AND ? AND NOT path = ANY(?)"
                connection.execute(query, (diff.folder.key, diff.is_listed, waits))
            if config is None:
                encoder = open_encoder(request.profile.encoder)
                clear_parts(connection)
                writing.set_meta(connection, "fingerprint", encoder.fingerprint if encoder else "")
            remember_settings(connection, request)
    count = 0
    with store.share() as connection:
        for diff, folder in zip(diffs, folders, strict=True):

            @contextmanager
            def take_turn(folder: StoredFolder = folder) -> Iterator[Put]:
                # A file is read while nobody else writes: so what is read later is put later, or indexed later.
                wait_for_room(connection)
                with transaction(connection):
                    store.lock_writer(connection)
                    yield lambda stat, text: put_unit(connection, folder, stat, text)

            changes = read_changes(diff, request.profile.documents.max_file_bytes, progress, take_turn)
            for document in changes.removed:
                with take_turn() as put:
                    if document not in diff.gone or not Path(folder.path, document.path).exists():  # it may be back
                        put(document, GONE)
            count += len(changes.rows) + len(changes.removed)
            with transaction(connection):
                store.lock_writer(connection)
                note_files(connection, [replace(changes, folder=folder)])
    return count


def wait_for_room(connection: Connection) -> None:
    """Waits while the queue is full; what failed takes no room."""
    query, is_told = f"SELECT count(*) FROM queue WHERE attempts < {MOST_ATTEMPTS}", False
    while connection.execute(query).fetchone()[0] >= MOST_QUEUED:
        if not is_told:
            log.warning(
                "note: %s documents wait for workers; the next ones wait until some are done", f"{MOST_QUEUED:,}"
            )
        is_told = True
        time.sleep(PAUSE_S)


def put_unit(connection: Connection, folder: StoredFolder, stat: StoredDocument, text: DocumentText) -> None:
    """Puts a document into the queue, unless it was forgotten, or is indexed; what failed or is newer begins anew."""
    now = next((stored for stored in reading.folders(connection) if stored.key == folder.key), None)
    if now is None or now.forgets(stat.path):
        return
    if find_document(connection, folder, stat.path)[1] == text.digest:
        connection.execute("DELETE FROM queue WHERE folder_key = ? AND path = ?", (folder.key, stat.path))
        return
    connection.execute(
        "INSERT INTO queue (folder_key, path, size, mtime_ns, ctime_ns, inode, digest, content, warnings)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (folder_key, path) DO UPDATE SET size = excluded.size,"
        " mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,"
        " digest = excluded.digest, content = excluded.content, warnings = excluded.warnings, attempts = 0,"
        " reason = NULL WHERE queue.digest <> excluded.digest OR queue.reason IS NOT NULL"
        f" OR queue.attempts >= {MOST_ATTEMPTS}",
        (folder.key, stat.path, stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode, text.digest,
         text.text.encode(), json.dumps(text.warnings)),
    )  # fmt: skip


def find_document(connection: Connection, folder: StoredFolder, path: str) -> tuple[int, str]:
    """The key of the document that is indexed, and its digest; 0 and an empty one for none."""
    query = "SELECT document_key, digest FROM documents WHERE folder_key = ? AND path = ?"
    return connection.execute(query, (folder.key, path)).fetchone() or (0, "")


def claim_unit(connection: Connection) -> Unit | None:
    """The oldest unit that nobody works on, locked until `release_unit` or the end of the connection; None for none."""
    while True:
        with transaction(connection):
            row = connection.execute(
                "SELECT unit, folder_key, folders.path, prefix, queue.path, size, mtime_ns, digest, ctime_ns, inode,"
                " content, warnings FROM queue JOIN folders USING (folder_key)"
                f" WHERE attempts < {MOST_ATTEMPTS} AND unit NOT IN ({RUNNING})"
                " ORDER BY attempts, unit LIMIT 1 FOR UPDATE OF queue SKIP LOCKED"
            ).fetchone()
            if row is None:
                return None
            key, folder_key, place, prefix, path, size, mtime_ns, digest, ctime_ns, inode, content, warnings = row
            # Somebody may have taken it since the server looked for those that nobody has: then there is another one.
            if connection.execute(f"SELECT pg_try_advisory_lock({_CLASS}, {key})").fetchone()[0]:
                connection.execute("UPDATE queue SET attempts = attempts + 1 WHERE unit = ?", (key,))
                break
    text = DocumentText(bytes(content).decode(), digest, size, mtime_ns, ctime_ns, inode, tuple(json.loads(warnings)))
    stat = StoredDocument(0, path, size, mtime_ns, digest, ctime_ns, inode)
    return Unit(key, StoredFolder(folder_key, place, prefix), stat, text)


def release_unit(connection: Connection, unit: Unit) -> None:
    """Lets others have what is left of it."""
    connection.execute(f"SELECT pg_advisory_unlock({_CLASS}, {unit.key})").fetchone()


def give_back(connection: Connection, unit: Unit) -> None:
    """Makes an attempt none, as the document was not to blame; others come first, should it be so after all."""
    connection.execute(
        "UPDATE queue SET attempts = attempts - 1, unit = DEFAULT WHERE unit = ? AND attempts > 0", (unit.key,)
    )


def is_done(connection: Connection) -> bool:
    """Whether nothing waits and nobody works."""
    query = f"SELECT NOT EXISTS (SELECT FROM queue WHERE attempts < {MOST_ATTEMPTS} OR unit IN ({RUNNING}))"
    return bool(connection.execute(query).fetchone()[0])
