"""Documents that wait in a table of PostgreSQL, and the workers that index them, one document in one transaction."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pageindex.files import DocumentText
from retriever.embedding import open_encoder
from retriever.errors import IndexLockedError, StorageError, UsageError
from retriever.indexing.background import renew_background
from retriever.indexing.changes import Changes, list_folders
from retriever.indexing.consent import name_folders
from retriever.indexing.embed import cut_chunks, embed_texts, find_missing
from retriever.indexing.parts import clear_parts
from retriever.indexing.request import IndexRequest
from retriever.indexing.snapshot import Difference, build_snapshot, withdraw_sections
from retriever.indexing.update import find_changes, list_nodes, note_files, parse_changes, remember_settings
from retriever.protocols import Encoder, Progress
from retriever.store import reading, writing
from retriever.store.address import Address, read_address
from retriever.store.connection import Connection
from retriever.store.database import read_index, transaction, write_index
from retriever.store.reading import StoredDocument
from retriever.trace import NoProgress

MOST_ATTEMPTS = 3
MOST_QUEUED = 10_000  # beyond it, `enqueue` waits for workers
PAUSE_S = 1.0
GONE = DocumentText("", "", 0, 0, 0, 0, ())

_CLASS = "hashtext('hybrid_retrieve queue ' || current_schema())"
_RUNNING = (
    "SELECT CAST(objid AS bigint) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
    f" AND CAST(classid AS bigint) = (CAST({_CLASS} AS bigint) & 4294967295)"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Queue:
    queued: int
    running: int
    failed: tuple[tuple[str, str], ...]
    """Paths, and why."""


@dataclass(frozen=True, slots=True)
class Unit:
    key: int
    folder_key: int
    stat: StoredDocument
    text: DocumentText  # with an empty digest: the document is gone


def read_queue(index: str | Path) -> Queue | None:
    """What waits, what is being worked on, and what failed; None for an index in a folder."""
    address = read_address(index)
    if address is None:
        return None
    with read_index(address) as connection:
        rows = connection.execute(
            f"SELECT path, attempts, reason, unit IN ({_RUNNING}) FROM queue ORDER BY folder_key, path"
        ).fetchall()
    failed = [
        (path, reason or "the worker ended each time")
        for path, attempts, reason, is_running in rows
        if attempts >= MOST_ATTEMPTS and not is_running
    ]
    running = sum(row[3] for row in rows)
    return Queue(len(rows) - running - len(failed), running, tuple(failed))


def enqueue(request: IndexRequest, progress: Progress) -> int:
    """Puts new and changed documents into the queue, with their texts, and notes those that are gone; how many."""
    address = read_address(request.index)
    if address is None:
        raise UsageError("a queue needs an index in PostgreSQL: --index postgresql://USER@HOST/DATABASE")
    if request.profile.summaries.kind == "llm":
        raise UsageError("workers write no summaries with a language model; index without --enqueue")
    listings = list_folders(request.docs, request.profile.documents)
    with write_index(address, request.wait_s) as (connection, _):
        name_folders(address, request.docs, request.settings.get("documents", {}))
        changes = find_changes(connection, request, listings, progress, is_anew=False)
        config = reading.meta(connection, "index_config")
        if config not in (None, request.index_config) or any(change.is_absorbed for change in changes):
            raise UsageError("these settings or folders make the index anew; index once without --enqueue")
        with transaction(connection):
            folders = note_files(connection, changes)
            if config is None:
                encoder = open_encoder(request.profile.encoder)
                clear_parts(connection)
                writing.set_meta(connection, "fingerprint", encoder.fingerprint if encoder else "")
            remember_settings(connection, request)
        found = 0
    for change, folder in zip(changes, folders, strict=True):
        gone = [(document, GONE) for document in change.removed]
        for stat, text in (*change.added, *change.changed, *gone):
            assert text is not None  # nothing of it is parsed yet
            put_unit(address, folder.key, stat, text)
            found += 1
    return found


def put_unit(address: Address, folder_key: int, stat: StoredDocument, text: DocumentText) -> None:
    """Waits while the queue is full. A failed unit, or one of another content, begins anew."""
    with read_index(address) as connection:
        while connection.execute("SELECT count(*) FROM queue").fetchone()[0] >= MOST_QUEUED:
            log.warning("note: %s documents wait for workers; the next ones wait too", f"{MOST_QUEUED:,}")
            time.sleep(PAUSE_S)
        connection.execute(
            "INSERT INTO queue (folder_key, path, size, mtime_ns, ctime_ns, inode, digest, content, warnings)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (folder_key, path) DO UPDATE SET size = excluded.size,"
            " mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, inode = excluded.inode,"
            " digest = excluded.digest, content = excluded.content, warnings = excluded.warnings, attempts = 0,"
            " reason = NULL WHERE queue.digest <> excluded.digest OR queue.reason IS NOT NULL"
            f" OR queue.attempts >= {MOST_ATTEMPTS}",
            (folder_key, stat.path, stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode, text.digest,
             text.text.encode(), json.dumps(text.warnings)),
        )  # fmt: skip


def work(request: IndexRequest, *, once: bool, ends: Callable[[], bool]) -> int:
    """Indexes units until told to end; connects again when the database went away. See `api.work_queue`."""
    from retriever.store.postgres import share_postgres

    address = read_address(request.index)
    if address is None:
        raise UsageError("a worker needs an index in PostgreSQL: --index postgresql://USER@HOST/DATABASE")
    encoder = open_encoder(request.profile.encoder)
    done = failures = 0
    while not ends():
        try:
            with share_postgres(address) as connection:
                while not ends():
                    check_settings(connection, request, encoder)
                    unit = claim_unit(connection)
                    failures = 0
                    if unit is not None:
                        done += try_unit(connection, request, encoder, unit)
                    elif finish_batch(connection, address, encoder) and once:
                        return done
                    else:
                        time.sleep(PAUSE_S)
        except IndexLockedError:
            raise
        except StorageError as error:
            failures += 1
            if failures > MOST_ATTEMPTS * 10:
                raise
            log.warning("note: %s; trying again", error)
            time.sleep(PAUSE_S)
    return done


def check_settings(connection: Connection, request: IndexRequest, encoder: Encoder | None) -> None:
    known = reading.meta(connection, "index_config"), reading.meta(connection, "fingerprint")
    if known != (request.index_config, encoder.fingerprint if encoder else ""):
        raise UsageError("the index has other settings or another model by now, or none yet; start the worker again")


def claim_unit(connection: Connection) -> Unit | None:
    """The oldest unit that nobody works on, locked until `pg_advisory_unlock` or the end of the connection."""
    with transaction(connection):
        row = connection.execute(
            "SELECT unit, folder_key, path, size, mtime_ns, digest, ctime_ns, inode, content, warnings FROM queue"
            f" WHERE attempts < {MOST_ATTEMPTS} AND unit NOT IN ({_RUNNING})"
            " ORDER BY attempts, unit LIMIT 1 FOR UPDATE SKIP LOCKED"
        ).fetchone()
        if row is None or not connection.execute(f"SELECT pg_try_advisory_lock({_CLASS}, {row[0]})").fetchone()[0]:
            return None
        connection.execute("UPDATE queue SET attempts = attempts + 1 WHERE unit = ?", (row[0],))
    key, folder_key, path, size, mtime_ns, digest, ctime_ns, inode, content, warnings = row
    stat = StoredDocument(0, path, size, mtime_ns, digest, ctime_ns, inode)
    text = bytes(content).decode()
    known = DocumentText(text, digest, size, mtime_ns, ctime_ns, inode, tuple(json.loads(warnings)))
    return Unit(key, folder_key, stat, known)


def try_unit(connection: Connection, request: IndexRequest, encoder: Encoder | None, unit: Unit) -> bool:
    """Indexes a unit, or notes why not, whatever its document does to the program."""
    try:
        return index_unit(connection, request, encoder, unit)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        connection.execute("UPDATE queue SET reason = ? WHERE unit = ?", (reason, unit.key))
        log.warning("note: %s was not indexed: %s", unit.stat.path, reason)
        return False
    finally:
        connection.execute(f"SELECT pg_advisory_unlock({_CLASS}, {unit.key})").fetchone()


def index_unit(connection: Connection, request: IndexRequest, encoder: Encoder | None, unit: Unit) -> bool:
    """Embeds a document beside other workers; then its rows, its postings and the end of the unit are one commit."""
    from retriever.lexical.names import names_of_nodes

    progress = NoProgress()
    folder = next(folder for folder in reading.folders(connection) if folder.key == unit.folder_key)
    change = Changes(folder, 0, added=[(unit.stat, unit.text)] if unit.text.digest else [])
    parsed = parse_changes([change], progress)
    chunks = cut_chunks(list_nodes(parsed), encoder, request.profile.chunks, progress)
    if encoder is not None:
        embed_texts(connection, encoder, find_missing(connection, encoder, chunks)[0], progress)
    with transaction(connection):
        lock_writer(connection, request.index)
        check_settings(connection, request, encoder)
        query = "DELETE FROM queue WHERE unit = ? AND digest = ?"
        if not connection.execute(query, (unit.key, unit.text.digest)).rowcount:
            return False  # it has another content by now, which comes next
        old = reading.documents(connection, folder.key).get(unit.stat.path)
        if (old.digest if old else "") == unit.text.digest:
            return True
        removed = reading.rankable_keys(connection, [old.key] if old else [])
        withdraw_sections(connection, request.index, removed)
        writing.remove_documents(connection, [old.key] if old else [])
        new = [
            writing.put_document(connection, folder.key, unit.stat, document, names_of_nodes(document))
            for document in parsed[0].values()
        ]
        writing.put_chunks(connection, chunks)
        difference = Difference(removed, reading.rankable_keys(connection, new))
        build_snapshot(connection, request.index, encoder.fingerprint if encoder else "", difference, with_chroma=False)
        writing.set_meta(connection, "batch", "open")
    return True


def finish_batch(connection: Connection, address: Address, encoder: Encoder | None) -> bool:
    """Resolves links when nothing is left to do; False while others are still working."""
    query = f"SELECT count(*) FROM queue WHERE attempts < {MOST_ATTEMPTS} OR unit IN ({_RUNNING})"
    if connection.execute(query).fetchone()[0]:
        return False
    if reading.meta(connection, "batch") == "open":
        with transaction(connection):
            lock_writer(connection, address)
            for folder in reading.folders(connection):
                writing.set_link_targets(connection, folder)
            writing.set_meta(connection, "background", "null")  # measured anew, as by an index made at once
            renew_background(connection, encoder)
            number = reading.snapshot_number(connection) + 1
            writing.set_meta(connection, "snapshot", str(number))
            writing.set_meta(connection, "batch", "done")
    return True


def lock_writer(connection: Connection, index: Path) -> None:
    from retriever.store.postgres import writer_key

    address = read_address(index)
    assert address is not None
    connection.execute(f"SELECT pg_advisory_xact_lock({writer_key(address)})").fetchone()
