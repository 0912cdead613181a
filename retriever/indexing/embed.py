"""Sections become chunks, and the texts of chunks become stored vectors, some seconds of work at a time."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pageindex.node import Node
from retriever.embedding import bundled_counter
from retriever.settings.schema import ChunkSettings
from retriever.store import reading, text_vectors, writing
from retriever.store.database import transaction
from retriever.store.writing import text_hash
from retriever.types import Chunk, Encoder, Progress, as_token_encoder

TEXTS_AT_ONCE = 256  # vectors are stored after each batch: an interruption loses a few seconds of work at most


@dataclass(frozen=True, slots=True)
class EmbedCounts:
    new: int = 0  # texts that the encoder read
    reused: int = 0  # texts whose vectors were there already


def cut_chunks(nodes: Sequence[Node], encoder: Encoder | None, settings: ChunkSettings) -> list[Chunk]:
    """The chunks of sections, as the encoder reads them; of those of the bundled model's length without one."""
    from retriever.indexing.chunk import chunk_nodes  # the parser: not needed where nothing has changed

    counter = encoder.count_tokens if encoder else bundled_counter()
    if encoder is not None and encoder.max_tokens < settings.max_tokens:  # what is longer would not be read
        settings = replace(settings, max_tokens=encoder.max_tokens)
    return list(chain.from_iterable(chunk_nodes(nodes, counter, settings)))


def embed_chunks(
    connection: sqlite3.Connection, encoder: Encoder | None, chunks: Sequence[Chunk], progress: Progress
) -> EmbedCounts:
    """Stores the vectors, and tokens if any, that are not there yet; each batch in a transaction of its own."""
    if encoder is None:
        return EmbedCounts()
    from retriever.embedding.tokens import checked_rows  # numpy: not where nothing is embedded

    texts = {text_hash(chunk.embedded_text): chunk.embedded_text for chunk in chunks}
    known = text_vectors.known_hashes(connection, encoder.fingerprint)
    missing = [key for key in texts if key not in known]
    if not reading.snapshot_number(connection):  # an interruption leaves this to say how far it came
        with transaction(connection):
            writing.set_meta(connection, "texts", str(len(texts)))
    progress.start("embedding", len(missing), "texts")
    token_encoder = as_token_encoder(encoder)
    for start in range(0, len(missing), TEXTS_AT_ONCE):
        keys = missing[start : start + TEXTS_AT_ONCE]
        batch, tokens = [texts[key] for key in keys], None
        if token_encoder is not None:
            vectors, tokens = token_encoder.encode_documents_and_tokens(batch)
        else:
            vectors = encoder.encode_documents(batch)
        vectors = checked_rows(vectors, len(keys), encoder.dimension)
        with transaction(connection):
            writing.put_vectors(connection, encoder.fingerprint, keys, vectors)
            if tokens is not None:
                writing.put_tokens(connection, encoder.fingerprint, keys, tokens)
        progress.advance("embedding", start + len(keys))
    progress.finish("embedding")
    return EmbedCounts(len(missing), len(texts) - len(missing))
