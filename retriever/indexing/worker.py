"""A worker: documents out of the queue into an index in PostgreSQL, each in one transaction.

Any number of workers embed side by side. What changes the index takes turns by the writer's lock, as `index` has it.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from retriever.embedding import open_encoder
from retriever.errors import EncoderError, IndexLockedError, RetrieverError, StorageError, UsageError
from retriever.indexing.background import renew_background
from retriever.indexing.changes import Changes
from retriever.indexing.derived import open_derived
from retriever.indexing.embed import cut_chunks, encode_missing, hash_texts, put_encoded
from retriever.indexing.parts import number_state
from retriever.indexing.queue import (
    PAUSE_S,
    Unit,
    claim_unit,
    find_document,
    give_back,
    is_done,
    release_unit,
)
from retriever.indexing.request import IndexRequest
from retriever.indexing.snapshot import Difference
from retriever.indexing.update import list_nodes, parse_changes
from retriever.protocols import Encoder
from retriever.store import reading, writing
from retriever.store.connection import Connection
from retriever.store.database import transaction
from retriever.trace import NoProgress

RETRY_S = 300.0  # a database that has answered before is waited for so long: it restarts, or its disk is cleared
ENCODER_PAUSE_S = 5.0  # after an error of the embedding model: the next document may have the same
SETTLE_S = 60.0  # links and the scale of confidence are this old at most, while documents come and come

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkedUnit:
    """A document that a worker has tried to index."""

    path: str
    """As the index names it."""
    reason: str = ""
    """Why it failed; empty for one that is indexed."""


def work(read_request: Callable[[], IndexRequest], *, once: bool) -> Iterator[WorkedUnit | None]:
    """Indexes units until nobody asks for the next one; None where it waits. See `sharing.work_queue`.

    Args:
        read_request: gives the request of the index's settings, which `index` may change.
        once: end when nothing is left to do.
    """
    at_hand: list[Unit] = []
    heard, is_told = None, False
    while True:
        try:
            request = read_request()
            store = request.store
            with store.share() as connection:
                for worked in work_connected(connection, request, at_hand, once=once):
                    heard, is_told = time.monotonic(), False
                    yield worked
                if once and is_done(connection):
                    return
        except (StorageError, IndexLockedError) as error:
            if at_hand and heard is None:  # it has given a document
                heard = time.monotonic()
            # A database that answered comes back, after a restart say; one that never did was named wrongly.
            if heard is None or time.monotonic() - heard > RETRY_S:
                raise
            if not is_told:
                log.warning("note: %s; trying again", error)
            is_told = True
            yield None
            time.sleep(PAUSE_S)
        except BaseException:  # Ctrl-C is no attempt either
            if at_hand:
                with contextlib.suppress(RetrieverError), store.share() as connection:
                    give_back(connection, at_hand[0])
            raise


def work_connected(
    connection: Connection, request: IndexRequest, at_hand: list[Unit], *, once: bool
) -> Iterator[WorkedUnit | None]:
    """As `work`, until the index has other settings; a unit is in `at_hand` while its end is not known."""
    for unit in at_hand:  # the connection before this one did not last
        give_back(connection, unit)
    at_hand.clear()
    made = read_made(connection)
    encoder = open_encoder(request.profile.encoder) if made[0] else None
    if made[0] and made != (request.index_config, encoder.fingerprint if encoder else ""):
        raise UsageError("the index was made with another embedding model, or settings, than here")
    while read_made(connection) == made:
        settle_index(connection, request, encoder)
        if claimed := claim_unit(connection) if made[0] else None:
            at_hand.append(claimed)
            worked = try_unit(connection, request, encoder, claimed)
            at_hand.clear()
            yield worked
        elif once and is_done(connection):
            return
        else:
            yield None
            time.sleep(PAUSE_S)


def read_made(connection: Connection) -> tuple[str | None, str]:
    """The settings that an index is made by, None before the first, and the fingerprint of its encoder."""
    return reading.meta(connection, "index_config"), reading.meta(connection, "fingerprint") or ""


def try_unit(connection: Connection, request: IndexRequest, encoder: Encoder | None, unit: Unit) -> WorkedUnit | None:
    """Indexes a unit, or notes why not; None where another one has taken its place.

    Raises:
        StorageError, IndexLockedError: the database has failed, not the document.
    """
    path = unit.folder.prefix + unit.stat.path
    try:
        worked = WorkedUnit(path) if index_unit(connection, request, encoder, unit) else None
    except (StorageError, IndexLockedError):
        raise
    except Exception as error:  # whatever a document does to the program
        reason = str(error) if isinstance(error, RetrieverError) else f"{type(error).__name__}: {error}"
        noted = reason.replace("\0", ""), unit.key, unit.text.digest
        connection.execute("UPDATE queue SET reason = ? WHERE unit = ? AND digest = ?", noted)
        log.warning("note: %s was not indexed: %s", path, reason, exc_info=log.isEnabledFor(logging.INFO))
        worked = WorkedUnit(path, reason)
        if isinstance(error, EncoderError):
            time.sleep(ENCODER_PAUSE_S)
    release_unit(connection, unit)
    return worked


def index_unit(connection: Connection, request: IndexRequest, encoder: Encoder | None, unit: Unit) -> bool:
    """Embeds a document beside other workers; then its rows, its postings and the end of the unit are one commit.

    Returns whether that was so: False where the unit has another content by now, or was forgotten.
    """
    from retriever.lexical.names import names_of_nodes

    progress, fingerprint = NoProgress(), encoder.fingerprint if encoder else ""
    change = Changes(unit.folder, 0, added=[(unit.stat, unit.text)] if unit.text.digest else [])
    parsed = parse_changes([change], progress)
    chunks = list(chain.from_iterable(cut_chunks(list_nodes(parsed), encoder, request.profile.chunks, progress)))
    # Embedding is what takes time, and it touches no row: so it is done before the lock, beside other workers.
    texts = hash_texts(chunks) if encoder else {}
    encoded = encode_missing(connection, encoder, texts) if encoder else []
    with transaction(connection):
        request.store.lock_writer(connection)
        if read_made(connection) != (request.index_config, fingerprint):
            raise StorageError("the index has other settings by now")
        query = "DELETE FROM queue WHERE unit = ? AND digest = ?"
        if not connection.execute(query, (unit.key, unit.text.digest)).rowcount:
            return False
        old_key, digest = find_document(connection, unit.folder, unit.stat.path)
        if digest == unit.text.digest:  # `index` was faster
            return True
        replaced = [old_key] if old_key else []
        removed = reading.rankable_keys(connection, replaced)
        derived = open_derived(request.store)
        can_patch = derived.is_whole(connection)
        if can_patch:
            derived.withdraw(connection, removed)
        writing.remove_documents(connection, replaced)
        new = [
            writing.put_document(connection, unit.folder.key, unit.stat, document, names_of_nodes(document))
            for document in parsed[0].values()
        ]
        writing.put_chunks(connection, chunks)
        if encoder is not None:
            # `forget` may have removed vectors meanwhile that were there for another document.
            known = {key for batch in encoded for key in batch.keys}
            for batch in (*encoded, *encode_missing(connection, encoder, texts, known)):
                put_encoded(connection, encoder, batch)
        difference = Difference(removed, reading.rankable_keys(connection, new)) if can_patch else None
        derived.build(connection, fingerprint, difference, with_graph=False)
        # A count that loses 63 % in a minute: how fast the workers are now, in one number and no log.
        connection.execute(
            "UPDATE queue_state SET indexed = indexed + 1, at = now(), unsettled = coalesce(unsettled, now()),"
            " recent = 1 + recent * exp(greatest(-50.0, CAST(extract(epoch FROM at - now()) AS float8) / 60))"
        )
    return True


def settle_index(connection: Connection, request: IndexRequest, encoder: Encoder | None) -> None:
    """Resolves links, and measures the scale of confidence: when nothing is left to do, and now and then before."""
    query = (
        "SELECT unsettled IS NOT NULL, unsettled < now() - make_interval(secs => greatest(?, 10 * settled_s))"
        " FROM queue_state"
    )

    def is_due() -> bool:
        is_unsettled, is_late = connection.execute(query, (SETTLE_S,)).fetchone()
        return is_unsettled and (is_late or is_done(connection))

    if not is_due():
        return
    with transaction(connection):
        request.store.lock_writer(connection)
        if not is_due():  # another worker has done it
            return
        for folder in reading.folders(connection):
            writing.set_link_targets(connection, folder)
        with contextlib.suppress(EncoderError):  # then it stays as it was until the next time
            renew_background(connection, encoder)
        number_state(connection)
        connection.execute(
            "UPDATE queue_state SET unsettled = NULL, settled_s = extract(epoch FROM clock_timestamp() - now())"
        )
