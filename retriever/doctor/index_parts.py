"""The parts of one index: the database, the generation, the folders, what is left over, and who uses it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from retriever.archive.importing import drafts
from retriever.display.phrases import counted, size
from retriever.doctor.finding import Finding, Level
from retriever.doctor.generation_parts import examine_generation
from retriever.errors import DocumentsError, IndexUnusableError, IndexVersionError, NoIndexError
from retriever.indexing.changes import find_suspects, list_documents, without_doubt
from retriever.indexing.consent import named_folders, own_documents, refusal
from retriever.indexing.forgetting import forgotten_files
from retriever.indexing.locks import is_read, writer_of
from retriever.settings.layers import DEFAULT_PROFILE, given_settings
from retriever.store import by_text, reading
from retriever.store.checking import find_damage
from retriever.store.database import FILE_NAME, INDEX_FORMAT, foreign_errors, kept_aside, open_database
from retriever.store.model_change import former_model


def examine_index(index: Path) -> Iterator[Finding]:
    """Looks at everything in the folder; changes nothing."""
    repair = f"run: hybrid_retrieve.py doctor --repair --index {index}"
    try:
        with foreign_errors(index), closing(open_database(index)) as connection:
            damage = list(find_damage(connection))
            if damage:
                yield from (Finding("index", FILE_NAME, "problem", clause, repair) for clause in damage)
            else:
                yield from _examine_rows(connection, index, repair)
    except NoIndexError as error:
        yield Finding("index", "index", "note", str(error))
    except IndexVersionError as error:  # says itself what to do
        yield Finding("index", FILE_NAME, "problem", str(error))
    except IndexUnusableError as error:
        yield Finding("index", FILE_NAME, "problem", str(error), repair)
    yield from _leftovers(index)
    yield from _use(index)


def _examine_rows(connection: sqlite3.Connection, index: Path, repair: str) -> Iterator[Finding]:
    yield _counts(connection)
    yield _coverage(connection)
    yield from examine_generation(connection, index, repair)
    yield _links(connection)
    yield _duplicates(connection)
    yield from _folders(connection, index)
    forgotten = list(forgotten_files(connection))
    if forgotten:
        yield Finding("index", "forgotten", "note", f"{counted(len(forgotten), 'path')} kept out by `forget`")


def _counts(connection: sqlite3.Connection) -> Finding:
    found = reading.counts(connection)
    parts = ((found.documents, "document"), (found.sections, "section"), (found.chunks, "chunk"))
    says = ", ".join(counted(number, noun) for number, noun in parts)
    return Finding("index", FILE_NAME, "well", f"format {INDEX_FORMAT}, {says}; every row can be read")


def _coverage(connection: sqlite3.Connection) -> Finding:
    fingerprint = reading.meta(connection, "fingerprint") or ""
    if not fingerprint:
        return Finding("index", "vectors", "note", "made without an encoder: searched by words and structure alone")
    there, chunks = by_text.vector_count(connection, fingerprint), reading.counts(connection).chunks
    if there < chunks:
        is_change = former_model(connection) is not None  # then another model stands in
        says = f"{there:,} of {chunks:,} chunks have a vector{' of the new embedding model' if is_change else ''}"
        cure = "run: hybrid_retrieve.py index FOLDER"
        return Finding("index", "vectors", "note" if is_change else "problem", says, cure)
    kept = connection.execute("SELECT count(*) FROM vectors WHERE text_hash NOT IN (SELECT text_hash FROM chunks)")
    (unused,) = kept.fetchone()
    says = (
        f"every chunk has one; {unused:,} more are kept of texts that may come back"
        if unused
        else "every chunk has one"
    )
    return Finding("index", "vectors", "well", says)


def _links(connection: sqlite3.Connection) -> Finding:
    rows = connection.execute("SELECT problem, count(*) FROM links WHERE problem IS NOT NULL GROUP BY problem")
    broken = [f"{number:,} {problem}" for problem, number in rows]
    if not broken:
        return Finding("index", "links", "well", "every link leads somewhere")
    return Finding(
        "index", "links", "note", f"broken links in the documents: {', '.join(broken)}", "mend the documents"
    )


def _duplicates(connection: sqlite3.Connection) -> Finding:
    query = (
        "SELECT count(*), coalesce(sum(n), 0) FROM (SELECT count(*) AS n FROM documents GROUP BY digest HAVING n > 1)"
    )
    texts, documents = connection.execute(query).fetchone()
    if not texts:
        return Finding("index", "duplicates", "well", "no two documents are the same")
    cure = "leave copies out with --ignore"
    return Finding("index", "duplicates", "note", f"{documents:,} documents have only {texts:,} different texts", cure)


def _folders(connection: sqlite3.Connection, index: Path) -> Iterator[Finding]:
    given = own_documents(index, reading.index_settings(connection))
    settings = given_settings(DEFAULT_PROFILE, None, given).profile().documents
    named = named_folders(index).folders
    for folder in reading.folders(connection):
        if folder.path not in named:
            cure = f"if it is meant, run: hybrid_retrieve.py index --index {index} {folder.path}"
            yield Finding("index", "folder", "note", refusal([folder.path]), cure)
            continue
        known = reading.documents(connection, folder.key) | reading.unreadable(connection, folder.key)
        try:
            suspects = find_suspects(folder, known, list_documents(Path(folder.path), settings))
            changed = len(without_doubt(suspects, settings.max_file_bytes))
        except DocumentsError as error:
            cure = f"bring it back, or run: hybrid_retrieve.py forget {folder.path}"
            yield Finding("index", "folder", "note", f"{error}; its documents are kept as they were", cure)
            continue
        says = f"{folder.path}: {counted(changed, 'file')} changed since it was indexed"
        cure = f"run: hybrid_retrieve.py index {folder.path}" if changed else ""
        yield Finding("index", "folder", "note" if changed else "well", says, cure)


def _leftovers(index: Path) -> Iterator[Finding]:
    """What a killed run left goes with the next one; what was kept on purpose is named."""
    for path in kept_aside(index):
        if path.is_dir():
            says = f"{path.name} is of a repair that {'is at work' if writer_of(index) else 'was killed'}"
            yield Finding("index", "left over", "note", says, "the next `doctor --repair` removes it")
            continue
        says = f"{path.name}, {size(path.stat().st_size)}: the damaged database that the last repair kept"
        yield Finding("index", "left over", "note", says, "remove it when all is well; it holds texts of documents")
    for path in filter(Path.exists, drafts(index)):
        says = f"{path} is of an import that was killed" if not writer_of(path) else f"{path} is being imported"
        yield Finding("index", "left over", "note", says, "the next `import` to this place removes it")


def _use(index: Path) -> Iterator[Finding]:
    writer = writer_of(index)
    says = f"process {writer} is writing" if writer else "nobody is writing"
    level: Level = "note" if writer else "well"
    readers = sum(is_read(folder) for folder in index.glob("gen-*"))
    yield Finding("index", "locks", level, f"{says}; {counted(readers, 'generation')} being read")
