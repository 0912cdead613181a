"""Sections become chunks, and the texts of chunks become stored vectors, some seconds of work at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from pageindex.node import Node
from retriever.embedding import bundled_counter
from retriever.embedding.tokenizer import checked_rows
from retriever.indexing.background import renew_background
from retriever.indexing.chunk import chunk_nodes
from retriever.protocols import Encoder, Likely, Progress
from retriever.settings.schema import ChunkSettings
from retriever.store import reading, text_vectors, writing
from retriever.store.connection import Connection
from retriever.store.database import transaction
from retriever.store.writing import text_hash
from retriever.types import Chunk

TEXTS_AT_ONCE = 256  # vectors are stored after each batch: an interruption loses a few seconds of work at most
LIKELY_AT_ONCE = 64  # who asks waits for a batch, and then for these
NODES_AT_ONCE = 200  # are cut into chunks between two words on the progress


def cut_chunks(
    nodes: Sequence[Node], encoder: Encoder | None, settings: ChunkSettings, progress: Progress
) -> Iterator[list[Chunk]]:
    """The chunks of sections, as the encoder reads them; of those of the bundled model's length without one.

    Those of some sections at a time: all of them have the documents' text twice.
    """
    counter = encoder.count_tokens if encoder else bundled_counter()
    if encoder is not None and encoder.max_tokens < settings.max_tokens:  # what is longer would not be read
        settings = replace(settings, max_tokens=encoder.max_tokens)
    progress.start("cutting", len(nodes), "sections")
    for start in range(0, len(nodes), NODES_AT_ONCE):
        batch = nodes[start : start + NODES_AT_ONCE]
        yield list(chain.from_iterable(chunk_nodes(batch, counter, settings)))
        progress.advance("cutting", start + len(batch))
    progress.finish("cutting")


def hash_texts(chunks: Sequence[Chunk]) -> dict[bytes, str]:
    """The texts of chunks as the encoder reads them, by hash, in their order."""
    return {text_hash(chunk.embedded_text): chunk.embedded_text for chunk in chunks}


def find_missing(connection: Connection, encoder: Encoder, texts: Mapping[bytes, str]) -> dict[bytes, str]:
    """Return those of the texts that lack a vector of the model."""
    known = text_vectors.known_hashes(connection, encoder.fingerprint, texts)
    return {key: text for key, text in texts.items() if key not in known}


def embed_texts(connection: Connection, encoder: Encoder, texts: Mapping[bytes, str], progress: Progress) -> None:
    """Store the vectors of texts, by hash; each batch in a transaction of its own."""
    keys = list(texts)
    progress.start("embedding", len(keys), "texts")
    for start in range(0, len(keys), TEXTS_AT_ONCE):
        batch = keys[start : start + TEXTS_AT_ONCE]
        embed_batch(connection, encoder, {key: texts[key] for key in batch})
        progress.advance("embedding", start + len(batch))
    progress.finish("embedding")


def embed_pending(connection: Connection, encoder: Encoder, progress: Progress, likely: Likely) -> int:
    """Stores the vectors of the texts that an index was committed without, the likely ones first; returns how many."""
    total = text_vectors.pending_count(connection)
    done = 0
    progress.start("embedding", total, "texts")
    while True:
        batch = text_vectors.pending_texts(connection, LIKELY_AT_ONCE, likely())
        batch = batch or text_vectors.pending_texts(connection, TEXTS_AT_ONCE)
        if not batch:
            break
        embed_batch(connection, encoder, batch)
        done += len(batch)
        progress.advance("embedding", done)
    progress.finish("embedding")
    return done


def embed_batch(connection: Connection, encoder: Encoder, texts: Mapping[bytes, str]) -> None:
    """Stores the vectors of a few texts, by hash, in one transaction; these are pending no longer."""
    vectors = checked_rows(encoder.encode_documents(list(texts.values())), len(texts), encoder.dimension)
    with transaction(connection):
        writing.put_vectors(connection, encoder.fingerprint, list(texts), vectors)
        if encoder.fingerprint == reading.meta(connection, "fingerprint"):  # not of a model that is not in force yet
            pending = "DELETE FROM pending WHERE text_hash = ?"
            if connection.executemany(pending, ((key,) for key in texts)).rowcount:
                renew_background(connection, encoder)
