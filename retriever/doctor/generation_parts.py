"""The generation in force, compared with its checksums and with the rows it was made of."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from retriever.display.phrases import counted
from retriever.doctor.finding import Finding
from retriever.errors import GenerationError
from retriever.indexing.generation import Generation, folder_of
from retriever.indexing.locks import is_read
from retriever.store import by_text, reading


def examine_generation(connection: sqlite3.Connection, index: Path, repair: str) -> Iterator[Finding]:
    """Opens every part and compares it; ChromaDB is opened only when its files are as they were written."""
    number = reading.generation_number(connection)
    if not number:
        cure = "run: hybrid_retrieve.py index FOLDER"
        yield Finding("index", "generation", "problem", "the first indexing has not finished", cure)
        return
    for name, look in (("words", _compare_words), ("vectors in ChromaDB", _compare_vectors)):
        try:
            with closing(Generation(index, number, reading.seal(connection))) as generation:
                yield Finding("index", name, "well", look(connection, generation))
        except GenerationError as error:
            yield Finding("index", name, "problem", str(error), repair)
    yield from _older(index, number)


def _compare_words(connection: sqlite3.Connection, generation: Generation) -> str:
    nodes = reading.counts(connection).sections
    if len(generation.lexical) != nodes:
        raise GenerationError(f"{generation.folder / 'lexical'} has {len(generation.lexical)} of {nodes} sections")
    return f"{counted(nodes, 'section')}; every file has its checksum"


def _compare_vectors(connection: sqlite3.Connection, generation: Generation) -> str:
    fingerprint = generation.manifest.fingerprint
    if not fingerprint:
        return "none were made"
    keys, _, matrix = by_text.distinct_vectors(connection, fingerprint)
    generation.vectors.verify(keys, matrix)
    return f"{counted(len(keys), 'vector')}, near what the exact scan finds; every file has its checksum"


def _older(index: Path, number: int) -> Iterator[Finding]:
    for folder in sorted(index.glob("gen-*")):
        if folder != folder_of(index, number) and not is_read(folder):
            says = f"{folder.name} is not in force, and nobody reads it"
            yield Finding("index", "left over", "note", says, "the next `index` removes it")
