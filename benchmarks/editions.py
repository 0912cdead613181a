"""A folder made large: copies of its documents, each with another edition in every heading, and vectors for them.

So every section of every edition is a text of its own, as in a large folder, but no text is encoded twice: the vector
of a copy is that of its original, turned a little, another way for each. It costs seconds instead of many minutes, and
a search takes as long as with vectors of the encoder.
"""

import os
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np

from pageindex.corpus import list_files, read_document
from pageindex.document import Document, parse_document
from pageindex.node import NodeKind
from retriever.embedding.onnx import OnnxEncoder
from retriever.indexing.chunk import chunk_nodes
from retriever.places import FolderStore
from retriever.store.database import transaction
from retriever.store.writing import put_vectors, text_hash
from retriever.types import FloatMatrix

TURN = 0.1
"""How far a copy's vector is from its original's, of length 1: their cosine is .995."""
LONG_AGO_NS = 1_500_000_000_000_000_000
"""The age of the files: a time that is old enough to be trusted, so that no command reads them twice."""
TEXTS_AT_ONCE = 10_000

_HEADING = re.compile(r"\A(#{1,6} .*?)((?: *\{[^{}]*\})? *)$", re.MULTILINE)
_EDITION = re.compile(r" \(edition \d+\)")

Vectors = dict[str, FloatMatrix]
"""Texts to their vectors, (d,)."""


def documents_of(folder: Path) -> Iterator[Document]:
    """Yield the folder's documents, as indexing parses them, by path."""
    for file in list_files(folder).files:
        yield parse_document(file.path, read_document(file).text)


def texts_of(folder: Path, encoder: OnnxEncoder) -> Iterator[str]:
    """Yield the different texts that indexing the folder embeds, in the order of its documents."""
    seen: set[bytes] = set()  # not the texts: of a million sections they are gigabytes
    for document in documents_of(folder):
        nodes = [placed.node for placed in document.nodes]
        for chunk in chain.from_iterable(chunk_nodes(nodes, encoder.count_tokens)):
            digest = text_hash(chunk.text)
            if digest not in seen:
                seen.add(digest)
                yield chunk.text


def sections_of(folder: Path) -> int:
    """Return how many nodes of the folder have lines of their own."""
    return sum(placed.node.span is not None for document in documents_of(folder) for placed in document.nodes)


def write_editions(folder: Path, target: Path, count: int) -> None:
    """Write `count` editions of a folder's documents below `target`; the first is the folder as it is."""
    for document in documents_of(folder):
        for edition in range(count):
            path = target / f"edition-{edition}" / document.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_in_edition(document, edition), encoding="utf-8")
            os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))


def fill_vectors(index: Path, texts: Iterable[str], originals: Vectors, fingerprint: str) -> None:
    """Put a vector for each text into an index that is not made yet: indexing then finds all of them known.

    Args:
        index: the index's folder.
        texts: of all editions.
        originals: the texts of the folder as it is.
        fingerprint: of the encoder whose vectors `originals` are.
    """
    others, remaining = list(originals.values()), iter(texts)
    with FolderStore(index).write(0) as connection, transaction(connection):
        while some := list(islice(remaining, TEXTS_AT_ONCE)):
            found = [
                # A few texts of a copy are cut elsewhere, because its headings are longer: they get any text's vector.
                originals.get(_EDITION.sub("", text), others[zlib.crc32(text.encode()) % len(others)])
                for text in some
            ]
            hashes = [text_hash(text) for text in some]
            vectors = np.stack([_turned(vector, text) for text, vector in zip(some, found, strict=True)])
            put_vectors(connection, fingerprint, hashes, vectors)


def _in_edition(document: Document, edition: int) -> str:
    return "".join(
        _HEADING.sub(rf"\1 (edition {edition})\2", placed.node.text)
        if edition and placed.node.kind is NodeKind.SECTION
        else placed.node.text
        for placed in document.nodes
    )


def _turned(vector: FloatMatrix, text: str) -> FloatMatrix:
    """Return the vector, turned by what the text alone decides; an original stays as it is."""
    if not _EDITION.search(text):
        return vector
    direction = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(len(vector)).astype(np.float32)
    turned = vector + direction * np.float32(TURN / np.linalg.norm(direction))
    unit: FloatMatrix = turned / np.linalg.norm(turned)
    return unit
