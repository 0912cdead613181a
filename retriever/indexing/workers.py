"""Workers: documents wait in a table of PostgreSQL, and any number of processes index them side by side.

procrastinate was considered: its jobs end in transactions of their own, and here a unit ends in the commit that writes
its document, so that nothing is lost or done twice.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pageindex.corpus import DocumentText
from retriever.embedding import open_encoder
from retriever.errors import EncoderError, IndexLockedError, RetrieverError, StorageError, UsageError
from retriever.indexing.background import renew_background
from retriever.indexing.changes import list_folders, read_changes
from retriever.indexing.consent import name_folders
from retriever.indexing.derived import NodeChanges, open_derived
from retriever.indexing.derived_tables import clear_parts, number_state
from retriever.indexing.embed import cut_chunks, encode_missing, hash_texts, put_encoded
from retriever.indexing.request import IndexRequest
from retriever.indexing.update import (
    clear_queue,
    find_changes,
    note_folders,
    note_skipped,
    parse_text,
    remember_settings,
)
from retriever.lexical.names import names_of_nodes
from retriever.protocols import Encoder, Progress
from retriever.store import reading, writing
from retriever.store.connection import Connection
from retriever.store.database import transaction
from retriever.store.postgres import HELD, LOCK_WRITER
from retriever.store.reading import StoredDocument, StoredFolder
from retriever.store.store import Store

MOST_ATTEMPTS = 3
PAUSE_S = 1.0
RETRY_S = 300.0  # a database that has answered before is waited for so long: it restarts, or its disk is cleared
SETTLE_S = 60.0  # links and the scale of confidence are this old at most, while documents come and come

CLAIM = (
    "UPDATE queue SET attempts = attempts + 1, worker = pg_backend_pid() WHERE unit = (SELECT unit FROM queue"
    f" WHERE attempts < {MOST_ATTEMPTS} AND (worker IS NULL OR NOT {HELD}) ORDER BY attempts, unit LIMIT 1"
    " FOR UPDATE SKIP LOCKED)"
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


@dataclass(frozen=True, slots=True)
class WorkedUnit:
    """A document that a worker has tried to index."""

    path: str
    """As the index names it."""
    reason: str = ""
    """Why it failed; empty for one that is indexed."""


def read_queue(store: Store) -> Queue | None:
    """Read the figures of a queue now; None for an index in a folder, which has none."""
    with store.read() as connection:
        units = store.read_queue(connection)
    if units is None:
        return None
    failed = tuple(
        (unit.prefix + unit.path, unit.reason or "the worker ended each time")
        for unit in units
        if unit.attempts >= MOST_ATTEMPTS and not unit.is_held
    )
    running = sum(unit.is_held for unit in units)
    return Queue(len(units) - running - len(failed), running, failed)


def enqueue(request: IndexRequest, progress: Progress) -> int:
    """Put what changed in folders into the queue, in place of what waited of them; return how many documents."""
    store, _ = request.store, request.store.url  # a folder has no queue
    with store.write(request.wait_s) as (connection, _), transaction(connection):
        listings = list_folders(request.docs, request.profile.documents)
        name_folders(store, request.docs, request.settings.get("documents", {}))
        changes = find_changes(connection, request, listings, is_anew=False)
        config = reading.meta(connection, "index_config")
        if config not in (None, request.index_config):
            raise UsageError("these settings or folders make the index anew; index once without --enqueue")
        if config is None:
            encoder = open_encoder(request.profile.encoder)
            clear_parts(connection)
            writing.set_meta(connection, "fingerprint", encoder.fingerprint if encoder else "")
        remember_settings(connection, request)
        note_folders(connection, changes)
        clear_queue(connection, store, changes)
        read = read_changes(changes, request.profile.documents.max_file_bytes, progress)
        found: list[tuple[int, StoredDocument, DocumentText | None]]
        found = [(change.folder.key, stat, text) for change, stat, text in read]
        found += [(change.folder.key, stat, None) for change in changes for stat in change.removed]
        note_skipped(connection, changes)
        rows = [(key, stat.path, json.dumps([stat, text and asdict(text)])) for key, stat, text in found]
        connection.executemany("INSERT INTO queue (folder_key, path, content) VALUES (?, ?, ?)", rows)
    return len(found)


def work(read_request: Callable[[], IndexRequest], *, once: bool) -> Iterator[WorkedUnit | None]:
    """Index units until the caller asks for no more; yield None each second while there is nothing to do.

    Args:
        read_request: gives the request of the index's settings, which `index` may change.
        once: end when nothing is left to do.
    """
    heard: float | None = None
    while True:
        try:
            request = read_request()
            with request.store.share() as connection:
                made = read_made(connection)
                encoder = open_encoder(request.profile.encoder) if made[0] else None
                if made[0] and made != (request.index_config, encoder.fingerprint if encoder else ""):
                    raise UsageError("the index was made with another embedding model, or settings, than here")
                while read_made(connection) == made:
                    heard = time.monotonic()
                    settle(connection, request, encoder)
                    row = connection.execute(CLAIM).fetchone() if made[0] else None
                    if row is not None:
                        yield try_unit(connection, request, encoder, row)
                    elif once and connection.execute(DONE).fetchone()[0]:
                        return
                    else:
                        yield None
                        time.sleep(PAUSE_S)
        except (StorageError, IndexLockedError) as error:
            # A database that answered comes back, after a restart say; one that never did was named wrongly.
            if heard is None or time.monotonic() - heard > RETRY_S or error.hint:
                raise
            log.warning("note: %s; trying again", error)
            yield None
            time.sleep(PAUSE_S)


def read_made(connection: Connection) -> tuple[str | None, str]:
    """Read the settings that an index is made by, None before the first, and the fingerprint of its encoder."""
    return reading.meta(connection, "index_config"), reading.meta(connection, "fingerprint") or ""


def try_unit(
    connection: Connection, request: IndexRequest, encoder: Encoder | None, row: tuple[Any, ...]
) -> WorkedUnit | None:
    """Index a unit, or note why not; return None where another one has taken its place."""
    unit, folder_key, path, content = row
    folder = next(folder for folder in reading.folders(connection) if folder.key == folder_key)
    try:
        stat, text = json.loads(content)  # without a text the document is gone
        if text is not None:
            text["warnings"] = tuple(text["warnings"])
        read = None if text is None else DocumentText(**text)
        done = index_unit(connection, request, encoder, unit, folder, StoredDocument(*stat), read)
        return WorkedUnit(folder.prefix + path) if done else None
    except (StorageError, IndexLockedError):
        raise
    except Exception as error:  # whatever a document does to the program
        reason = str(error) if isinstance(error, RetrieverError) else f"{type(error).__name__}: {error}"
        noted = "UPDATE queue SET reason = ?, worker = NULL WHERE unit = ?"
        connection.execute(noted, (reason.replace("\0", ""), unit))
        log.warning("note: %s was not indexed: %s", path, reason, exc_info=log.isEnabledFor(logging.INFO))
        return WorkedUnit(folder.prefix + path, reason)


def index_unit(
    connection: Connection,
    request: IndexRequest,
    encoder: Encoder | None,
    unit: int,
    folder: StoredFolder,
    stat: StoredDocument,
    text: DocumentText | None,
) -> bool:
    """Embed a document beside other workers; then its rows, its postings and the end of the unit are one commit."""
    derived, fingerprint = open_derived(request.store), encoder.fingerprint if encoder else ""
    document = None if text is None else parse_text(folder, stat.path, text)
    nodes = [placed.node for placed in document.nodes] if document else []
    chunks = cut_chunks(nodes, encoder, request.profile.chunks)
    # Embedding is what takes time, and it touches no row: so it is done before the lock, beside other workers.
    texts = hash_texts(chunks) if encoder else {}
    encoded = encode_missing(connection, encoder, texts) if encoder else []
    with transaction(connection):
        connection.execute(LOCK_WRITER)
        if read_made(connection) != (request.index_config, fingerprint):
            raise StorageError("the index has other settings by now")
        if not connection.execute("DELETE FROM queue WHERE unit = ?", (unit,)).rowcount:
            return False  # `index` or `forget` came first
        query = "SELECT document_key FROM documents WHERE folder_key = ? AND path = ?"
        replaced = [key for (key,) in connection.execute(query, (folder.key, stat.path))]
        removed, can_patch = reading.rankable_keys(connection, replaced), derived.is_whole(connection)
        if can_patch:
            derived.withdraw(connection, removed)
        writing.remove_documents(connection, replaced)
        new = []
        if document is not None:
            new = [writing.put_document(connection, folder.key, stat, document, names_of_nodes(document))]
        writing.put_chunks(connection, chunks)
        if encoder is not None:  # `forget` may have removed vectors meanwhile that were there for another document
            known = {key for batch in encoded for key in batch.keys}
            for batch in (*encoded, *encode_missing(connection, encoder, texts, known)):
                put_encoded(connection, encoder, batch)
        difference = NodeChanges(removed, reading.rankable_keys(connection, new)) if can_patch else None
        derived.build(connection, fingerprint, difference)
        if reading.meta(connection, "unsettled") is None:
            writing.set_meta(connection, "unsettled", str(time.time()))
    return True


def settle(connection: Connection, request: IndexRequest, encoder: Encoder | None) -> None:
    """Resolve links, and measure the scale of confidence: when nothing is left to do, and now and then before."""
    since = reading.meta(connection, "unsettled")
    if since is None or (time.time() - float(since) < SETTLE_S and not connection.execute(DONE).fetchone()[0]):
        return
    with transaction(connection):
        connection.execute(LOCK_WRITER)
        if not connection.execute("DELETE FROM meta WHERE key = 'unsettled'").rowcount:
            return  # another worker has done it
        for folder in reading.folders(connection):
            writing.set_link_targets(connection, folder)
        try:
            renew_background(connection, encoder)
        except EncoderError as error:  # then it stays as it was until the next time
            log.warning("note: %s", error)
        number_state(connection)
