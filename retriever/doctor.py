"""Looks whether everything is well, says what to do about what is not, and repairs what can be repaired.

`environment` and `index_parts` look; `repairing` makes derived parts anew, or a new index beside a damaged database;
`salvaging` reads from that what no document can give back.
"""

import json
import os
import platform
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from retriever.archive import drafts
from retriever.display.phrases import counted, size
from retriever.embedding.onnx import BUNDLED_MODEL, read_card
from retriever.errors import (
    DocumentsError,
    EncoderError,
    IndexDamagedError,
    IndexLockedError,
    IndexUnusableError,
    IndexVersionError,
    NoIndexError,
    RetrieverError,
    SnapshotError,
)
from retriever.files import sync, writing_to
from retriever.indexing.changes import find_suspects, list_documents, without_doubt
from retriever.indexing.consent import forget_named, name_folders, named_folders, own_documents, refusal
from retriever.indexing.forget import forgotten_files
from retriever.indexing.request import WAIT_FOR_WRITER_S, IndexRequest
from retriever.indexing.snapshot import Snapshot, folder_of, remove_old_snapshots, renew_snapshot
from retriever.indexing.update import update_index
from retriever.settings.layers import DEFAULT_PROFILE, given_settings
from retriever.store import reading, text_vectors, writing
from retriever.store.checking import find_damage
from retriever.store.database import (
    BUSY_TIMEOUT_S,
    FILE_NAME,
    INDEX_FORMAT,
    create_database,
    is_index,
    kept_aside,
    open_database,
    transaction,
    translate_sqlite_errors,
)
from retriever.store.locks import is_read, writer_lock, writer_of
from retriever.store.model_change import former_model
from retriever.store.text_vectors import NORM_TOLERANCE
from retriever.trace import NoProgress
from retriever.types import Encoder, Progress

if TYPE_CHECKING:
    from retriever.settings.schema import LlmSettings


# What the doctor says of one thing that it looked at.

Area = Literal["environment", "index", "language model"]
Level = Literal["well", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    area: Area
    name: str
    """What was looked at, in a word or two."""
    level: Level
    """`note`: worth knowing, nothing is broken; `problem`: something does not work, or soon will not."""
    says: str
    """What was seen."""
    cure: str = ""
    """What to do about it; empty where there is nothing to be done."""


__all__ = ["Area", "CheckUp", "Finding", "Level", "examine"]


@dataclass(frozen=True, slots=True)
class CheckUp:
    """What the doctor found, and did."""

    findings: tuple[Finding, ...]
    """As it is now, after the repairs."""
    repairs: tuple[str, ...] = ()
    """What was repaired, a sentence each."""


def examine(index: Path | None, llm: "LlmSettings | None" = None) -> Iterator[Finding]:
    """Looks at everything and changes nothing.

    Args:
        index: the index's folder; None when nothing has been indexed yet.
        llm: the language model to be asked as well; None to leave it alone.
    """
    yield from examine_environment(index)
    if index is None:
        cure = "make one with: hybrid_retrieve.py index FOLDER"
        yield Finding("index", "index", "note", "nothing has been indexed yet", cure)
    else:
        yield from examine_index(index)
    if llm is not None:
        yield from _examine_llm(llm)


def _examine_llm(settings: "LlmSettings") -> Iterator[Finding]:
    from retriever.llm.check import check_llm

    for found in check_llm(settings):
        # What is amiss says what to do in the same sentence.
        yield Finding("language model", found.what, "well" if found.is_well else "problem", found.says)


# The machine, the packages and the bundled model.

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 37, 0)
"""The first with STRICT tables."""
PACKAGES = ("chromadb", "numpy", "onnxruntime", "rank-bm25", "networkx", "markdown-it-py", "ollama")
LITTLE_SPACE = 50_000_000
"""Bytes; less is not enough for any index."""


def examine_environment(index: Path | None) -> Iterator[Finding]:
    """Looks at all that an index needs around it."""
    yield _python()
    yield _sqlite()
    yield _packages()
    yield _model()
    if index is not None:
        yield Finding("environment", "location", "well", f"the index is {index}")
        yield _space(index)
        yield _writability(index)


def _python() -> Finding:
    says = f"Python {platform.python_version()} on {sys.platform} {platform.machine()}"
    if sys.version_info < OLDEST_PYTHON:
        return Finding("environment", "Python", "problem", says, "install Python 3.11 or newer")
    return Finding("environment", "Python", "well", says)


def _sqlite() -> Finding:
    says = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return Finding("environment", "SQLite", "problem", says, "use a Python that comes with SQLite 3.37 or newer")
    return Finding("environment", "SQLite", "well", says)


def _packages() -> Finding:
    found = {name: _version(name) for name in PACKAGES}
    says = ", ".join(f"{name} {number or 'is missing'}" for name, number in found.items())
    if not all(found.values()):
        return Finding("environment", "packages", "problem", says, "install again: uv sync")
    return Finding("environment", "packages", "well", says)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _model() -> Finding:
    try:
        read_card(BUNDLED_MODEL).verify(BUNDLED_MODEL)
    except EncoderError as error:
        return Finding("environment", "bundled model", "problem", str(error), "install again: uv sync --reinstall")
    return Finding("environment", "bundled model", "well", f"{BUNDLED_MODEL.name} has its checksum")


def _space(index: Path) -> Finding:
    """A new snapshot lies beside the old one until it is in force, and a vacuum writes the database twice."""
    free = shutil.disk_usage(_existing(index)).free
    says = f"{size(free)} free"
    needed = max(LITTLE_SPACE, 2 * _size(index))
    if free < needed:
        cure = f"free {size(needed - free)}, or keep the index on another disk (--index)"
        return Finding("environment", "disk", "problem", f"{says}; an update may need {size(needed)}", cure)
    return Finding("environment", "disk", "well", says)


def _writability(index: Path) -> Finding:
    place = _existing(index)
    if os.access(place, os.W_OK | os.X_OK):
        return Finding("environment", "permissions", "well", f"{place} can be written")
    cure = "change its permissions, or name another index with --index"
    return Finding(
        "environment", "permissions", "note", f"{place} can be read only: asking works, indexing does not", cure
    )


def _existing(index: Path) -> Path:
    return next(place for place in (index, *index.absolute().parents) if place.exists())


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0


# The snapshot in force, compared with its checksums and with the rows it was made of.


def examine_snapshot(connection: sqlite3.Connection, index: Path, repair: str) -> Iterator[Finding]:
    """Opens every part and compares it; ChromaDB is opened only when its files are as they were written."""
    number = reading.snapshot_number(connection)
    if not number:
        cure = "run: hybrid_retrieve.py index FOLDER"
        yield Finding("index", "snapshot", "problem", "the first indexing has not finished", cure)
        return
    for name, look in (("words", _compare_words), ("vectors in ChromaDB", _compare_vectors)):
        try:
            with closing(Snapshot(index, number, reading.manifest_hash(connection))) as snapshot:
                yield Finding("index", name, "well", look(connection, snapshot))
        except SnapshotError as error:
            yield Finding("index", name, "problem", str(error), repair)
    yield from _older(index, number)


def _compare_words(connection: sqlite3.Connection, snapshot: Snapshot) -> str:
    nodes = reading.counts(connection).sections
    if len(snapshot.lexical) != nodes:
        raise SnapshotError(f"{snapshot.folder / 'lexical'} has {len(snapshot.lexical)} of {nodes} sections")
    return f"{counted(nodes, 'section')}; every file has its checksum"


def _compare_vectors(connection: sqlite3.Connection, snapshot: Snapshot) -> str:
    fingerprint = snapshot.manifest.fingerprint
    if not fingerprint:
        return "none were made"
    keys, _, matrix = text_vectors.distinct_vectors(connection, fingerprint)
    snapshot.vectors.verify(keys, matrix)
    return f"{counted(len(keys), 'vector')}, near what the exact scan finds; every file has its checksum"


def _older(index: Path, number: int) -> Iterator[Finding]:
    for folder in sorted(index.glob("snapshot-*")):
        if folder != folder_of(index, number) and not is_read(folder):
            says = f"{folder.name} is not in force, and nobody reads it"
            yield Finding("index", "left over", "note", says, "the next `index` removes it")


# The parts of one index: the database, the snapshot, the folders, what is left over, and who uses it.


def examine_index(index: Path) -> Iterator[Finding]:
    """Looks at everything in the folder; changes nothing."""
    repair = f"run: hybrid_retrieve.py doctor --repair --index {index}"
    try:
        with translate_sqlite_errors(index), closing(open_database(index)) as connection:
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
    yield from examine_snapshot(connection, index, repair)
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
    there, chunks = text_vectors.vector_count(connection, fingerprint), reading.counts(connection).chunks
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
    readers = sum(is_read(folder) for folder in index.glob("snapshot-*"))
    yield Finding("index", "locks", level, f"{says}; {counted(readers, 'snapshot')} being read")


# Reads out of a damaged index.sqlite what no document can give back, and the vectors, into a new one.

SAVED = {
    "folders": ("folder", ("folder_key",)),
    "forgotten": ("forgotten path", ("folder_key", "path")),
    "queries": ("recorded question", ("query_id",)),
    "opened": ("opened section", ("node_id",)),
    "vectors": ("vector", ("rowid",)),
    "tokens": ("token list", ("rowid",)),
    "summaries": ("summary text", ("writer", "text_hash")),
}
"""Tables, what a report calls one of their rows, and the order in which SQLite stores these.

Indexing makes the other tables again; of `meta` only the settings are saved.
"""
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the second where an error message quotes a damaged schema
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What could be read of a damaged index."""

    folders: tuple[str, ...]
    """The indexed folders; empty when they cannot be read."""
    summary: str
    """How much was saved, and of what not everything could be read: a sentence for people."""


def salvage(damaged: Path, draft: Path) -> Salvaged:
    """Fills the database of a new index; nothing is written to the damaged one.

    Args:
        damaged: the database.
        draft: the folder of the new index, empty.

    Raises:
        StorageError: the disk is full or read-only.
    """
    saved, broken = {}, []
    with closing(create_database(draft)) as target, closing(_open_damaged(damaged)) as source:
        target.execute("PRAGMA foreign_keys = OFF")
        with transaction(target):
            settings = _read_settings(source)
            if settings is None:
                broken.append("settings")
            writing.set_meta(target, "settings", settings or "{}")
            for table, (name, _) in SAVED.items():
                before = target.total_changes
                if not _copy_table(source, target, table):
                    broken.append(f"{name}s")
                saved[name] = target.total_changes - before
            _remove_odd_vectors(target)
            target.execute("DELETE FROM forgotten WHERE folder_key NOT IN (SELECT folder_key FROM folders)")
        folders = tuple(path for (path,) in target.execute("SELECT path FROM folders ORDER BY folder_key"))
    counts = ", ".join(counted(count, name) for name, count in saved.items() if count) or "nothing"
    lost = f"; not all could be read of: {', '.join(broken)}" if broken else ""
    return Salvaged(folders, f"saved of the damaged one: {counts}{lost}")


def _open_damaged(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    # Then SQLite passes over a table whose definition is damaged, and reads the others; nothing is written here.
    connection.execute("PRAGMA writable_schema = ON")
    return connection


def _read_settings(source: sqlite3.Connection) -> str | None:
    """The settings that the index was made with, in JSON; None when they cannot be read."""
    try:
        row = source.execute("SELECT value FROM meta WHERE key = 'settings'").fetchone()
        given_settings(DEFAULT_PROFILE, None, json.loads(row[0])).profile()
    except (*UNREADABLE, RetrieverError, ValueError, TypeError, AttributeError):
        return None
    return str(row[0])


def _copy_table(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> bool:
    """Copies the rows that can be read and believed; whether that was all of them."""
    columns = [name for _, name, *_ in target.execute(f"PRAGMA table_info({table})")]
    insert = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    whole = True
    for row in _read_rows(source, table, columns):
        if row is None or (table == "vectors" and not _is_unit(row[-1])):
            whole = False
            continue
        try:
            target.execute(insert, row)
        except sqlite3.IntegrityError:  # a value of another type than the table's
            whole = False
    return whole


def _read_rows(source: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[Row | None]:
    """From the first row to the first that cannot be read, then from the last back; None for what lies between."""
    for direction in ("ASC", "DESC"):
        order = ", ".join(f"{column} {direction}" for column in SAVED[table][1])
        try:
            yield from source.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}")
            return
        except UNREADABLE:
            yield None


def _is_unit(vector: object) -> bool:
    import numpy as np

    if not isinstance(vector, bytes) or len(vector) % 4:
        return False
    with np.errstate(all="ignore"):
        norm = float(np.linalg.norm(np.frombuffer(vector, "<f4").astype(float)))
    return abs(norm - 1) <= NORM_TOLERANCE


def _remove_odd_vectors(target: sqlite3.Connection) -> None:
    """Those that have not as many numbers as most of the same encoder."""
    lengths: dict[str, Counter[int]] = {}
    for fingerprint, length, count in target.execute(
        "SELECT fingerprint, length(vector), count(*) FROM vectors GROUP BY 1, 2"
    ):
        lengths.setdefault(fingerprint, Counter())[length] += count
    for fingerprint, counter in lengths.items():
        ((usual, _),) = counter.most_common(1)
        target.execute("DELETE FROM vectors WHERE fingerprint = ? AND length(vector) <> ?", (fingerprint, usual))


# What `doctor --repair` does: the least that makes an index whole again, nothing where it is.
#
# Derived parts are made anew from index.sqlite. A damaged index.sqlite stays as it is while a new index is made beside
# it, in a draft folder; then the new one takes its place in one step. A repair that is killed before that step leaves the
# damaged index and the draft, which the next repair removes.

DRAFT_NAME = f"{FILE_NAME}.draft"
DAMAGED_NAME = f"{FILE_NAME}.damaged"
LOGS = ("-wal", "-shm")  # what SQLite keeps beside a database


def repair(index: Path, progress: Progress | None = None, encoder: Encoder | None = None) -> Iterator[str]:
    """Makes an index whole; says what was done, a sentence each.

    Args:
        index: the index's folder.
        progress: told how far indexing has come, where documents are indexed again.
        encoder: the caller's own, as in `open_retriever`.

    Raises:
        IndexUnusableError: the index is locked, of another format, or the disk is full or read-only.
        DocumentsError: a folder of documents is away; the damaged index is as it was.
        EncoderError: a text whose vector was lost cannot be embedded; the damaged index is as it was.
    """
    if not is_index(index):
        return
    with writer_lock(index, WAIT_FOR_WRITER_S), writing_to(index), translate_sqlite_errors(index):
        shutil.rmtree(index / DRAFT_NAME, ignore_errors=True)  # of a repair that was killed
        if not _is_damaged(index):
            yield from _repair_snapshot(index)
            return
        _empty_log(index)
        draft = index / DRAFT_NAME
        draft.mkdir(mode=0o700)
        try:
            salvaged = salvage(index / FILE_NAME, draft)
            report = None
            if salvaged.folders:
                with closing(create_database(draft)) as connection, transaction(connection):
                    own = own_documents(index, reading.index_settings(connection))
                    given = given_settings(DEFAULT_PROFILE, None, own)
                    writing.set_meta(connection, "snapshot", str(_highest_snapshot(index)))
                request = IndexRequest(draft, (), given.profile(), given.for_index(), encoder)
                # The draft may look at what this user has named for the index, not at all that its database names.
                known = named_folders(index)
                name_folders(draft, [Path(folder) for folder in known.folders], known.documents or {})
                report = update_index(request, progress or NoProgress())
            _swap(draft, index)
        finally:
            forget_named(draft)
            shutil.rmtree(draft, ignore_errors=True)
    yield f"a new index took the place of the damaged one, which was kept as {index / DAMAGED_NAME}"
    yield salvaged.summary
    if report is None:
        yield f"which folders it held cannot be read; run: hybrid_retrieve.py index FOLDER --index {index}"
        return
    texts = f"{report.embedded:,} texts embedded, {report.reused_vectors:,} known already"
    yield f"{counted(report.documents, 'document')} indexed again: {texts}"


def _is_damaged(index: Path) -> bool:
    try:
        with closing(open_database(index)) as connection:
            return any(True for _ in find_damage(connection))
    except IndexDamagedError:
        return True
    except NoIndexError:  # a first indexing was killed before it made the tables
        return False


def _repair_snapshot(index: Path) -> Iterator[str]:
    with closing(create_database(index)) as connection:
        number = reading.snapshot_number(connection)
        if number and any(found.level == "problem" for found in examine_snapshot(connection, index, "")):
            with transaction(connection):
                number = renew_snapshot(connection, index)
            yield f"snapshot {number} was made anew from the database; nothing was embedded"
        remove_old_snapshots(index, number)


def _empty_log(index: Path) -> None:
    """Moves what SQLite's log holds into the damaged database, so that the swap may remove the log.

    Raises:
        IndexLockedError: a process is reading the log, and did not stop in time.
    """
    uri = f"{(index / FILE_NAME).as_uri()}?mode=rw"
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # a definition that is damaged is then passed over
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise IndexLockedError(f"a process is reading the index {index}; end it, then run the repair again")


def _highest_snapshot(index: Path) -> int:
    """Of the folders that are there: the new index takes a higher number, so no folder stands in its way."""
    numbers = [folder.name.removeprefix("snapshot-") for folder in index.glob("snapshot-*")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def _swap(draft: Path, index: Path) -> None:
    """Puts the draft in the place of the damaged database, which keeps its content under another name.

    The new snapshot comes first: the damaged database does not name it. The one step is the last `replace`.
    """
    with closing(create_database(draft)) as connection:
        number = reading.snapshot_number(connection)  # 0 where no folder could be read, so that nothing was indexed
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if number:
        folder_of(draft, number).rename(folder_of(index, number))
    for path in kept_aside(index):
        if path != draft:
            path.unlink()
    for log in LOGS:  # or SQLite would take them for the new database's
        (index / f"{FILE_NAME}{log}").unlink(missing_ok=True)
    try:
        os.link(index / FILE_NAME, index / DAMAGED_NAME)
    except OSError:  # a file system without hard links
        shutil.copyfile(index / FILE_NAME, index / DAMAGED_NAME)
        (index / DAMAGED_NAME).chmod(0o600)
    sync(index)
    (draft / FILE_NAME).replace(index / FILE_NAME)
    sync(index)
    remove_old_snapshots(index, number)
