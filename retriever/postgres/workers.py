"""Workers: any number of processes embed the texts of an index in PostgreSQL side by side, on any machine.

There is no queue of jobs, as procrastinate would have it: `index --enqueue` commits documents with their words, and the
texts wait in `pending`, as after an interruption. A batch of them belongs to the worker that has its advisory lock,
which ends with the worker's connection, so that nothing is lost however it ends.
"""

import time
from collections.abc import Iterator

from retriever.embedding import open_encoder
from retriever.errors import UsageError
from retriever.indexing.request import IndexRequest
from retriever.indexing.update import TEXTS_AT_ONCE, embed_texts
from retriever.store import reading, text_vectors
from retriever.store.database import Connection

PAUSE_S = 1.0  # before a worker looks again
PENDING = "CAST(CAST(CAST('pending' AS regclass) AS bigint) AS integer)"  # tells the locks of two indexes apart
BATCH = f"CAST(place / {TEXTS_AT_ONCE} AS integer)"


def work(request: IndexRequest, *, once: bool) -> Iterator[int]:
    """Embed pending texts, beside any number of other workers, until the caller asks for no more.

    Args:
        request: of the index's settings.
        once: end when nothing is left to do.

    Yields:
        How many texts were embedded; 0, every second, where there is nothing to do.

    Raises:
        UsageError: the index has another embedding model than here.
        EncoderError: a text cannot be embedded.
        IndexUnusableError: the database cannot be used. Nothing is lost: start the worker again.
    """
    with request.store.read() as connection:
        encoder = open_encoder(request.profile.encoder, reading.meta(connection, "fingerprint"))
        while True:
            if texts := claim_texts(connection):
                if encoder is None or encoder.fingerprint != reading.meta(connection, "fingerprint"):
                    raise UsageError("the index has another embedding model than this worker: start again")
                embed_texts(connection, encoder, texts)
                connection.execute("SELECT pg_advisory_unlock_all()")
                yield len(texts)
            elif once and not text_vectors.pending_count(connection):
                return
            else:
                yield 0
                time.sleep(PAUSE_S)


def claim_texts(connection: Connection) -> dict[bytes, str]:
    """Lock a batch of pending texts that no other worker has, and return it by hash; nothing where there is none."""
    batches = connection.execute(f"SELECT DISTINCT {BATCH} AS batch FROM pending ORDER BY batch").fetchall()
    for (batch,) in batches:
        if connection.execute(f"SELECT pg_try_advisory_lock({PENDING}, ?)", (batch,)).fetchone()[0]:
            query = f"SELECT text_hash, text FROM pending WHERE {BATCH} = ? ORDER BY place"
            if texts := dict(connection.execute(query, (batch,)).fetchall()):
                return texts  # else another worker has just embedded it
    return {}
