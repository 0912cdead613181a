"""Another embedding model takes the place of the one that an index was made with, while questions are answered.

begin     the new model's chunks beside the former's, in one transaction; from then on the index is the new model's
read on   the sections that it has not read, likely ones first, a transaction for every few of them
end       when it has read all: a snapshot of its vectors, and the former's go, in one transaction

Whatever dies in between goes on where it was: a vector that is stored is not computed again.
"""

import math
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from retriever.indexing.background import renewed
from retriever.indexing.embed import chunks_of, store_vectors
from retriever.indexing.request import IndexRequest, matches_config
from retriever.indexing.snapshot import renew_snapshot
from retriever.store import model_change, reading, text_vectors, writing
from retriever.store.database import create_database, transaction, translate_sqlite_errors
from retriever.store.locks import writer_lock
from retriever.store.model_change import Former
from retriever.store.writing import text_hash
from retriever.trace import NoProgress
from retriever.types import Chunk, Encoder, Progress

SECTIONS_AT_ONCE = 16
"""Vectors are stored after so many sections, and the time is looked at: a few hundredths of a second of work with the
bundled model, so that a question waits hardly longer than it may."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be embedded, and what first."""

    seconds: float = math.inf
    likely: Sequence[int] = ()
    """Keys of sections, the likeliest first."""


def begin(connection: sqlite3.Connection, request: IndexRequest, encoder: Encoder) -> int:
    """Makes the index the new model's, with the former's vectors beside; how many texts were embedded for it.

    One section is, so that a model that gives no vectors takes nobody's place. A change that had begun is given up for
    this one: what stands in is still the model that had read everything.

    Raises:
        EncoderError: the new model cannot be used; the index is as it was.
    """
    nodes = [stored.node for stored in reading.rankable_nodes(connection)]
    chunks = chunks_of(nodes, encoder, request.profile.chunks)
    embedded = _embed(connection, encoder, [chunk for chunk in chunks if chunk.node_id == chunks[0].node_id])
    fingerprint = reading.meta(connection, "fingerprint") or ""
    with transaction(connection):
        former = model_change.former_model(connection) or Former(fingerprint, reading.index_settings(connection))
        model_change.recut(connection, chunks, former.fingerprint)
        model_change.put_former(connection, former)
        for key, value in {**request.kept, "fingerprint": encoder.fingerprint}.items():
            writing.set_meta(connection, key, value)
        renew_snapshot(connection, request.index)
    return embedded


def read_on(
    connection: sqlite3.Connection, request: IndexRequest, encoder: Encoder, budget: Budget, progress: Progress
) -> int:
    """Embeds what the new model has not read, and ends the change when that is all; how many texts it read.

    Raises:
        EncoderError: the embedding model failed; what it had done is kept.
    """
    until = time.monotonic() + budget.seconds
    unread = model_change.unread_nodes(connection, encoder.fingerprint)
    place = {key: number for number, key in enumerate(budget.likely)}
    order = sorted(unread, key=lambda key: place.get(key, len(place)))
    progress.start("embedding", len(order), "sections")
    embedded = done = 0
    while done < len(order) and time.monotonic() < until:
        some = order[done : done + SECTIONS_AT_ONCE]
        embedded += _read(connection, request, encoder, some)
        done += len(some)
        progress.advance("embedding", done)
    progress.finish("embedding")
    if done == len(order):
        _end(connection, request, encoder)
    return embedded


def _read(connection: sqlite3.Connection, request: IndexRequest, encoder: Encoder, node_keys: Sequence[int]) -> int:
    """Embeds some sections."""
    nodes = [stored.node for stored in reading.rankable_nodes(connection, node_keys)]
    return _embed(connection, encoder, chunks_of(nodes, encoder, request.profile.chunks))


def _embed(connection: sqlite3.Connection, encoder: Encoder, chunks: Sequence[Chunk]) -> int:
    texts = {text_hash(chunk.embedded_text): chunk.embedded_text for chunk in chunks}
    known = text_vectors.known_among(connection, encoder.fingerprint, texts)
    missing = {key: text for key, text in texts.items() if key not in known}
    if missing:
        store_vectors(connection, encoder, missing)
    return len(missing)


def _end(connection: sqlite3.Connection, request: IndexRequest, encoder: Encoder) -> None:
    with transaction(connection):
        model_change.remove_former(connection, encoder.fingerprint)
        writing.set_meta(connection, "unrelated", renewed(connection, encoder))
        renew_snapshot(connection, request.index)


def read_share(request: IndexRequest, encoder: Encoder, budget: Budget) -> int:
    """As `read_on`, as a writer of its own: before a question is answered.

    Raises:
        IndexUnusableError: another process is writing, or nothing can be written.
        EncoderError: the embedding model failed.
    """
    with (
        writer_lock(request.index, request.wait_s),
        translate_sqlite_errors(request.index),
        closing(create_database(request.index)) as connection,
    ):
        is_ours = reading.meta(connection, "fingerprint") == encoder.fingerprint and matches_config(connection, request)
        if not is_ours or model_change.former_model(connection) is None:
            return 0  # another process has changed it since
        return read_on(connection, request, encoder, budget, NoProgress())
