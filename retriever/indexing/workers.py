"""Workers: documents wait in a table of PostgreSQL, and any number of processes index them side by side.

procrastinate was considered: its jobs end in transactions of their own, and here units end in the commit that writes
their documents, so that nothing is lost or done twice.
"""

import json
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pageindex.corpus import DocumentText, Listing
from retriever.embedding import open_encoder
from retriever.errors import IndexLockedError, RetrieverError, StorageError, UsageError
from retriever.indexing.changes import FolderChanges, ReadDocument, list_folders, read_changes
from retriever.indexing.consent import name_folders
from retriever.indexing.derived import NO_PROGRESS, open_derived
from retriever.indexing.request import IndexRequest
from retriever.indexing.update import (
    cut_chunks,
    embed_texts,
    find_changes,
    find_missing,
    index_changes,
    note_folders,
    note_skipped,
    parse_file,
    remember_settings,
)
from retriever.protocols import Encoder, Progress
from retriever.store import reading, writing
from retriever.store.database import Connection, transaction
from retriever.store.reading import StoredDocument

MOST_ATTEMPTS = 3
UNITS_AT_ONCE = 20  # whose commits resolve links once; what has failed is tried alone
PAUSE_S = 1.0

# A unit belongs to a connection: the end of a worker, however it comes, gives it back at once.
HELD = "worker IN (SELECT pid FROM pg_stat_activity)"
CLAIM = (
    "UPDATE queue SET attempts = attempts + 1, worker = pg_backend_pid() WHERE unit IN (SELECT unit FROM queue"
    f" WHERE attempts <= ? AND (worker IS NULL OR NOT {HELD}) ORDER BY attempts, unit LIMIT ? FOR UPDATE SKIP LOCKED)"
    " RETURNING unit, folder_key, path, content"
)
DONE = f"SELECT NOT EXISTS (SELECT FROM queue WHERE attempts < {MOST_ATTEMPTS} OR {HELD})"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits, what is being worked on, and what failed."""

    queued: int
    running: int
    failed: tuple[tuple[str, str], ...]
    """Paths as the index names them, and why."""


class TakenError(Exception):
    """Another process has indexed, or forgotten, what a worker had in hand; nothing is written."""


def read_queue(connection: Connection) -> Queue:
    """Read the figures of a queue."""
    units = connection.execute(
        f"SELECT prefix || queue.path, attempts >= {MOST_ATTEMPTS}, coalesce({HELD}, false),"
        " coalesce(reason, 'the worker ended each time') FROM queue JOIN folders USING (folder_key)"
        " ORDER BY folder_key, queue.path"
    ).fetchall()
    failed = tuple((path, reason) for path, is_last, is_held, reason in units if is_last and not is_held)
    running = sum(is_held for _, _, is_held, _ in units)
    return Queue(len(units) - running - len(failed), running, failed)


def enqueue(request: IndexRequest, progress: Progress | None = None) -> int:
    """Put what changed in folders into the queue, in place of what waited of them; return how many documents.

    Raises:
        UsageError: the index is a folder, or has other settings, which are changed by `index` alone.
        RetrieverError: as `retriever.api.index_folders`.
    """
    store, _ = request.store, request.store.url  # a folder has no workers
    with store.write(request.wait_s) as connection, transaction(connection):
        listings = list_folders(request.docs, request.profile.documents)
        name_folders(store, request.docs)
        changes = find_changes(connection, request, listings, is_anew=False)
        config = reading.meta(connection, "index_config")
        if config != request.index_config and (config or reading.document_count(connection)):
            raise UsageError("these settings or folders make the index anew; index once without --enqueue")
        if config is None:
            encoder = open_encoder(request.profile.encoder)
            writing.set_meta(connection, "fingerprint", encoder.fingerprint if encoder else "")
            open_derived(store).build(connection)
        remember_settings(connection, request)
        note_folders(connection, changes)
        read = read_changes(changes, request.profile.documents.max_file_bytes, progress or NO_PROGRESS)
        found: list[tuple[int, StoredDocument, DocumentText | None]]
        found = [(change.folder.key, stat, text) for change, stat, text in read]
        found += [(change.folder.key, stat, None) for change in changes for stat in change.removed]
        note_skipped(connection, changes)
        rows = [(key, stat.path, json.dumps([stat, text and asdict(text)])) for key, stat, text in found]
        writing.insert(connection, "queue", "folder_key, path, content", rows)
    return len(found)


def work(request: IndexRequest, *, once: bool) -> Iterator[str | None]:
    """Index queued documents, beside any number of others who do, until the caller asks for no more.

    Args:
        request: of the index's settings.
        once: end when nothing is left to do.

    Yields:
        Of each document that was tried why it failed, empty for one that is indexed; None, every second, where there is
        nothing to do.

    Raises:
        UsageError: the index is a folder, or is made with other settings or another embedding model than here.
        IndexUnusableError: the database cannot be used. Nothing is lost: start the worker again.
    """
    store, _ = request.store, request.store.url  # a folder has no queue
    encoder = open_encoder(request.profile.encoder)
    made = request.index_config, encoder.fingerprint if encoder else ""
    with store.read() as connection:
        while True:
            units = claim(connection)
            if units and made != tuple(reading.meta(connection, key) for key in ("index_config", "fingerprint")):
                raise UsageError(
                    "the index has other settings or another embedding model than this worker: start again"
                )
            if units:
                yield from try_units(connection, request, encoder, units)
            elif once and connection.execute(DONE).fetchone()[0]:
                return
            else:
                yield None
                time.sleep(PAUSE_S)


def claim(connection: Connection) -> list[tuple[Any, ...]]:
    """Take units in hand: (unit, folder key, path, content), in their order."""
    rows = connection.execute(CLAIM, (0, UNITS_AT_ONCE)).fetchall()
    return sorted(rows or connection.execute(CLAIM, (MOST_ATTEMPTS - 1, 1)).fetchall())


def try_units(
    connection: Connection, request: IndexRequest, encoder: Encoder | None, units: Sequence[tuple[Any, ...]]
) -> list[str]:
    """Index units, or note why not; nothing of those that another process has taken the place of."""
    folders = {folder.key: folder for folder in reading.folders(connection)}
    try:
        with request.store.explain_errors():
            changes = {folder_key: FolderChanges(folders[folder_key], Listing((), ())) for _, folder_key, _, _ in units}
            read = [found for unit in units if (found := read_unit(connection, changes[unit[1]], unit)) is not None]
            if encoder is not None:  # which takes long: before others have to wait for the transaction
                embed_ahead(connection, request, encoder, read)
            with transaction(connection):
                done = connection.executemany("DELETE FROM queue WHERE unit = ?", ((unit,) for unit, *_ in units))
                if done.rowcount < len(units):
                    raise TakenError
                index_changes(connection, request, [*changes.values()], read, encoder, NO_PROGRESS, is_anew=False)
        return [""] * len(units)
    except (StorageError, IndexLockedError):
        raise
    except Exception as error:  # whatever a document does to the program
        if len(units) > 1:
            return [done for unit in units for done in try_units(connection, request, encoder, [unit])]
        if isinstance(error, TakenError):
            return []
        reason = str(error) if isinstance(error, RetrieverError) else f"{type(error).__name__}: {error}"
        noted = "UPDATE queue SET reason = ?, worker = NULL WHERE unit = ?"
        connection.execute(noted, (reason.replace("\0", ""), units[0][0]))
        log.warning("note: %s was not indexed: %s", units[0][2], reason, exc_info=log.isEnabledFor(logging.INFO))
        return [reason]


def read_unit(connection: Connection, change: FolderChanges, row: tuple[Any, ...]) -> ReadDocument | None:
    """Add a unit to the changes of its folder; return its document as it was read, None for one that is gone."""
    _, folder_key, path, content = row
    stat, text = json.loads(content)  # without a text the document is gone
    document = StoredDocument(*stat)
    query = "SELECT document_key FROM documents WHERE folder_key = ? AND path = ?"
    change.gone += [document._replace(key=key) for (key,) in connection.execute(query, (folder_key, path))]
    return text and (change, document, DocumentText(**{**text, "warnings": tuple(text["warnings"])}))


def embed_ahead(connection: Connection, request: IndexRequest, encoder: Encoder, read: Sequence[ReadDocument]) -> None:
    """Store the vectors that documents lack before they are indexed."""
    documents = [parse_file(change.folder, stat.path, text) for change, stat, text in read]
    nodes = [placed.node for document in documents for placed in document.nodes]
    if texts := find_missing(connection, encoder, cut_chunks(nodes, encoder, request.profile.chunks)):
        embed_texts(connection, encoder, texts)
