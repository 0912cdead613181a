"""Sections become chunks, and the texts of chunks become stored vectors, some seconds of work at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from pageindex.node import Node
from retriever.embedding import bundled_counter
from retriever.embedding.tokenizer import checked_rows
from retriever.indexing.background import renew_background
from retriever.indexing.chunk import chunk_nodes
from retriever.protocols import Encoder, Progress
from retriever.settings.schema import ChunkSettings
from retriever.store import text_vectors, writing
from retriever.store.connection import Connection
from retriever.store.database import transaction
from retriever.store.writing import text_hash
from retriever.types import Chunk

TEXTS_AT_ONCE = 256  # vectors are stored after each batch: an interruption loses a few seconds of work at most


def cut_chunks(nodes: Sequence[Node], encoder: Encoder | None, settings: ChunkSettings) -> list[Chunk]:
    """The chunks of sections, as the encoder reads them; of those of the bundled model's length without one."""
    counter = encoder.count_tokens if encoder else bundled_counter()
    if encoder is not None and encoder.max_tokens < settings.max_tokens:  # what is longer would not be read
        settings = replace(settings, max_tokens=encoder.max_tokens)
    return list(chain.from_iterable(chunk_nodes(nodes, counter, settings)))


def find_missing(connection: Connection, encoder: Encoder, chunks: Sequence[Chunk]) -> dict[bytes, str]:
    """Return the texts of chunks, as the encoder reads them, that lack a vector of it, by hash and in their order."""
    texts = {text_hash(chunk.embedded_text): chunk.embedded_text for chunk in chunks}
    known = text_vectors.known_hashes(connection, encoder.fingerprint, texts)
    return {key: text for key, text in texts.items() if key not in known}


def embed_pending(connection: Connection, encoder: Encoder, progress: Progress) -> int:
    """Store the vectors of the texts that an index was committed without, batch by batch; how many there were."""
    done, total = 0, text_vectors.pending_count(connection)
    if total:
        progress.start("embedding", total, "texts")
    while batch := text_vectors.pending_texts(connection, TEXTS_AT_ONCE):
        embed_texts(connection, encoder, batch)
        done += len(batch)
        progress.advance("embedding", done)
    if total:
        progress.finish("embedding")
    return done


def embed_texts(connection: Connection, encoder: Encoder, texts: Mapping[bytes, str]) -> None:
    """Store the vectors of a few texts, by hash, in one transaction; they are pending no longer."""
    vectors = checked_rows(encoder.encode_documents(list(texts.values())), len(texts), encoder.dimension)
    with transaction(connection):
        writing.put_vectors(connection, encoder.fingerprint, list(texts), vectors)
        pending = "DELETE FROM pending WHERE text_hash = ?"
        if connection.executemany(pending, ((key,) for key in texts)).rowcount:
            renew_background(connection, encoder)
