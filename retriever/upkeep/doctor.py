"""Examine the installation and an index, say what to do about each problem, and repair an index on request."""

import json
import platform
import shlex
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from retriever.display import pluralize
from retriever.embedding.encoder import BUNDLED_MODELS
from retriever.embedding.onnx import ModelCard
from retriever.errors import (
    DocumentsError,
    EncoderError,
    IndexDamagedError,
    IndexUnusableError,
    IndexVersionError,
    LanguageModelError,
    NoIndexError,
    OldIndexError,
    RetrieverError,
    name_installer,
    suggest,
)
from retriever.indexing.request import WAIT_FOR_WRITER_S, explain_refusal, read_named_folders
from retriever.indexing.update import update_index
from retriever.looking.indexes import find_index, index_request
from retriever.places import FolderStore, Store
from retriever.protocols import Encoder, Progress
from retriever.served.generator import Generator
from retriever.settings import DEFAULT_PROFILE, Profile, load_profile, validate
from retriever.store import reading, text_vectors
from retriever.store.database import (
    INDEX_FORMAT,
    PAGE_BYTES,
    Connection,
    copy_into,
    make_schema,
    translate_sqlite_errors,
)
from retriever.store.files import FILE_NAME, LOGS, is_folder, require_own, writer_lock, writing_to
from retriever.trace import NoProgress
from retriever.upkeep.probe import SAYS, SECONDS, probe

Level = Literal["well", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """One thing that was examined."""

    name: str  # what was examined, in a word or two
    level: Level  # `note`: worth knowing, nothing is broken; `problem`: something does not work, or soon will not
    says: str  # what was seen
    cure: str = ""  # what to do about it; empty where there is nothing to be done


@dataclass(frozen=True)
class CheckUp:
    """The findings, and the repairs."""

    findings: tuple[Finding, ...]  # as it is now, after the repairs
    repairs: tuple[str, ...] = ()  # what was repaired, a sentence each


def check_up(
    index: str | Path | None = None,
    *,
    repair: bool = False,
    llm: bool = False,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    encoder: Encoder | None = None,
) -> CheckUp:
    """Examine the installation and an index, and repair the index on request.

    Args:
        index: the index's folder, found as in `open_retriever`.
        repair: make broken parts anew first, and save what a damaged database holds.
        llm: try what the language model can do as well.
        profile: for `llm`, a name in configs/ or the path of a YAML file.
        settings: for `llm`, settings over those of the profile, nested as in a profile file.
        progress: told how far a repair has come, where documents are indexed again.
        encoder: the caller's own embedding model, for such a repair.

    Raises:
        RetrieverError: a repair failed; the message says what to do.
    """
    try:
        place: Store | None = find_index(index)
    except NoIndexError:
        place = None
    repairs = tuple(repair_index(place, progress, encoder)) if repair and place else ()
    found = [*examine_software()]
    if place is None:
        cure = suggest("index FOLDER")
        found.append(Finding("index", "note", "nothing has been indexed yet", cure))
    else:
        found += examine_index(place)
    if llm:
        found += examine_language_model(load_profile(profile, settings))
    return CheckUp(tuple(found), repairs)


def examine_software() -> Iterator[Finding]:
    """Examine what is installed, and the bundled model."""
    engines = f"SQLite {sqlite3.sqlite_version}, ChromaDB {version('chromadb')}, ONNX Runtime {version('onnxruntime')}"
    python = f"Python {platform.python_version()} on {sys.platform} {platform.machine()}"
    yield Finding("software", "well", f"{python}, {engines}")
    try:
        for folder in BUNDLED_MODELS.values():
            ModelCard.read(folder).verify(folder)
        names = " and ".join(folder.name for folder in BUNDLED_MODELS.values())
        yield Finding("bundled models", "well", f"{names} have their checksums")
    except EncoderError as error:
        yield Finding("bundled models", "problem", str(error), f"install again: {name_installer()}")


def examine_language_model(profile: Profile) -> Iterator[Finding]:
    """Try what the language model can do; that and its speed are kept for the stages."""
    generator = Generator(profile)
    name = "model"
    try:
        model = generator.look_up()
        reads = f"it reads {model.window} tokens (llm.num_ctx)"
        yield Finding(name, "well", f"{generator.name} is there, at {generator.server.url}; {reads}")
        if generator.server.is_base:
            yield Finding("template", "problem", "it has no chat template: choose a model that follows instructions")
        name, started = "answer", time.monotonic()
        abilities = probe(generator)
        seconds = time.monotonic() - started
        took = f"tried on some tasks in {seconds:.0f} s"
        if seconds >= SECONDS:
            took += ", the longest time: on an idle machine it may be seen to do more"
        yield Finding(name, "well", f"{took}; {generator.speed}" if generator.speed else took)
        for name, (what, how) in SAYS.items():
            if getattr(abilities, name):
                yield Finding(name, "well", f"was seen {what}")
            elif not (name == "odds" and abilities.lists):
                cure = f"left out; {how} uses it all the same" if how else ""
                yield Finding(name, "note", f"was not seen {what}", cure)
    except LanguageModelError as error:
        yield Finding(name, "problem", str(error))


def examine_index(index: Store) -> Iterator[Finding]:
    """Examine the database and the snapshot."""
    repair = suggest(f"doctor --repair --index {shlex.quote(str(index))}")
    try:
        with index.read() as connection:
            # What reads rows of a damaged database could fail anywhere, so the rest waits for its repair.
            damage = list(connection.find_damage())
            if damage:
                yield from (Finding(FILE_NAME, "problem", clause, repair) for clause in damage)
            else:
                yield from examine_rows(connection)
                yield from examine_derived(connection, index, repair)
    except NoIndexError as error:
        yield Finding("index", "note", str(error))
    except IndexUnusableError as error:  # one of another version says itself what to do
        cure = "" if isinstance(error, IndexVersionError) else repair
        yield Finding(FILE_NAME, "problem", str(error), cure)


def examine_rows(connection: Connection) -> Iterator[Finding]:
    """Examine how much a whole database holds, and whether every text has its vector."""
    counts = reading.counts(connection)
    parts = ((counts.documents, "document"), (counts.sections, "section"), (counts.chunks, "chunk"))
    says = ", ".join(pluralize(number, noun) for number, noun in parts)
    yield Finding("rows", "well", says)

    fingerprint = reading.meta(connection, "fingerprint") or ""
    if not fingerprint:
        yield Finding("vectors", "note", "made without an encoder: searched by words and structure alone")
    elif waiting := text_vectors.pending_count(connection):
        says = f"{pluralize(waiting, 'text')} without a vector yet: their sections are found by words alone"
        yield Finding("vectors", "note", says, suggest("index FOLDER"))
    else:
        yield Finding("vectors", "well", "every chunk has one")


def examine_derived(connection: Connection, index: Store, repair: str) -> Iterator[Finding]:
    """Compare what is derived from the rows with them; `repair` is what to do about what is damaged."""
    if not reading.snapshot(connection):
        cure = suggest("index FOLDER")
        yield Finding("snapshot", "problem", "the first indexing has not finished", cure)
        return
    for name, error in index.derived().examine(connection):
        if error:
            yield Finding(name, "problem", str(error), repair)
        else:
            yield Finding(name, "well", "as in the database")


# Repair: an index is made anew from its documents, and keeps what can be read of the old one.
#
# Out of a damaged index.sqlite comes what no document can give back (folders, settings, what was forgotten) and what
# would take long to make (vectors), each table up to the first row that cannot be read. SQLite's own backup puts that
# in the place of the damaged database, all of it or nothing; then the documents are indexed again.

# Tables that are saved, and what a report calls one of their rows; of `meta` the settings are saved.
SAVED = {"folders": "folder", "forgotten": "forgotten path", "vectors": "vector"}
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the second where an error message quotes a damaged schema


def repair_index(store: Store, progress: Progress | None = None, encoder: Encoder | None = None) -> Iterator[str]:
    """Make an index whole; yield what was done, a sentence each.

    Raises:
        DocumentsError: a folder of documents is away; a damaged index is then as it was.
        EncoderError: a lost vector cannot be made again.
        IndexUnusableError: the index is locked, of a later format, or cannot be written.
    """
    if not store.exists():
        return
    if is_damaged(store):
        # What a database has lost is in the backups of its server, or made again by `index`.
        yield replace_database(store.folder)
    try:
        with store.read() as connection:
            stored = {folder.path for folder in reading.folders(connection)}
            is_finished = bool(reading.snapshot(connection))
            found = store.derived().examine(connection)
            is_broken = any(error for _, error in found)
    except NoIndexError:  # a first indexing was killed before it made the tables
        return
    if is_finished:
        if is_broken:
            store.renew_derived(WAIT_FOR_WRITER_S)
            yield "the snapshot was made anew from the database; nothing was embedded"
        return
    named = read_named_folders(store)
    if not stored <= set(named) or not named:  # what this user has not named is not looked at
        says = explain_refusal(", ".join(sorted(stored))) if stored else "which folders it held cannot be read"
        command = suggest(f"index {shlex.join(sorted(stored)) or 'FOLDER'} --index {shlex.quote(str(store))}")
        yield f"{says}; {command}"
        return
    request = index_request(() if stored else named, store, DEFAULT_PROFILE, None, encoder)
    report = update_index(request, progress or NoProgress())
    texts = f"{report.embedded:,} texts embedded"
    yield f"{pluralize(report.documents, 'document')} indexed again: {texts}"


def is_damaged(store: Store) -> bool:
    """Return whether the rows are damaged, or of an earlier format."""
    try:
        with store.read() as connection:
            return next(connection.find_damage(), None) is not None
    except (IndexDamagedError, OldIndexError):
        return True
    except NoIndexError:
        return False


def replace_database(index: Path) -> str:
    """Put a database with what can be saved in the place of a damaged one, all or nothing; return what was saved."""
    require_own(index)
    with (
        writer_lock(index, WAIT_FOR_WRITER_S),
        writing_to(index),
        translate_sqlite_errors(index),
        closing(sqlite3.connect("", isolation_level=None)) as saved,  # a temporary file
    ):
        saved.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        make_schema(saved)
        says = salvage(index / FILE_NAME, saved)
        named = read_named_folders(FolderStore(index))
        away = [path for (path,) in saved.execute("SELECT path FROM folders") if path in named and not is_folder(path)]
        if away:
            raise DocumentsError(f"{', '.join(away)} is not there; bring it back, then repair the index")
        try:
            copy_into(saved, index / FILE_NAME)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname != "SQLITE_NOTADB":
                raise
            for name in (FILE_NAME, *LOGS):  # not even its first page can be read, so nothing was saved
                (index / name).unlink(missing_ok=True)
            copy_into(saved, index / FILE_NAME)
    return says


def salvage(damaged: Path, target: sqlite3.Connection) -> str:
    """Fill an empty database with what can be read of a damaged one; return how much that was, a sentence."""
    saved, version = {}, 0
    with closing(sqlite3.connect(f"{damaged.as_uri()}?mode=ro", uri=True)) as source:
        source.execute("PRAGMA writable_schema = ON")  # passes over a table whose definition is damaged
        with suppress(*UNREADABLE, RetrieverError, ValueError, TypeError, AttributeError):
            (version,) = source.execute("PRAGMA user_version").fetchone()
            (settings,) = source.execute("SELECT value FROM meta WHERE key = 'settings'").fetchone()
            validate((("index", json.loads(settings)),))
            target.execute("INSERT INTO meta VALUES ('settings', ?)", (settings,))
        for table, name in SAVED.items():
            if table == "vectors" and version != INDEX_FORMAT:  # other numbers
                continue
            columns = [column for _, column, *_ in target.execute(f"PRAGMA table_info({table})")]
            listed, marks = ", ".join(columns), ", ".join("?" * len(columns))
            before = target.total_changes
            target.execute("BEGIN")
            with suppress(*UNREADABLE):  # up to the first row that cannot be read, or is not as it should be
                rows = source.execute(f"SELECT {listed} FROM {table}")
                target.executemany(f"INSERT OR IGNORE INTO {table} ({listed}) VALUES ({marks})", rows)
            target.execute("COMMIT")
            saved[name] = target.total_changes - before
    target.execute("DELETE FROM forgotten WHERE folder_key NOT IN (SELECT folder_key FROM folders)")
    counts = ", ".join(pluralize(count, name) for name, count in saved.items() if count) or "nothing"
    return f"saved of the old database: {counts}"
