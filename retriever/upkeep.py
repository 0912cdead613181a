"""Examine the installation, a language model and an index, say what to do about each problem, and repair an index."""

import json
import logging
import platform
import shlex
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from retriever.display import pluralize
from retriever.embedding.encoder import BUNDLED_MODELS
from retriever.embedding.onnx import ModelCard
from retriever.embedding.vectors import VectorIndex
from retriever.errors import (
    INSTALLED,
    DocumentsError,
    EncoderError,
    IndexDamagedError,
    IndexUnusableError,
    LanguageModelError,
    LanguageModelTimeoutError,
    NoIndexError,
    OldIndexError,
    ReadOnlyError,
    SnapshotError,
    WrongAnswerError,
    suggest,
)
from retriever.expansion import FACTUAL_INTENT, TextPlan, build_expansion_task, find_exact_names, screen
from retriever.indexing.request import WAIT_FOR_WRITER_S, explain_refusal, read_named_folders
from retriever.indexing.update import update_index
from retriever.looking.indexes import find_index, index_request
from retriever.looking.status import explain_mix
from retriever.places import FolderStore, Store
from retriever.places.words import build_words, examine_words
from retriever.rerank import LlmReranker, RerankInput
from retriever.served.generator import Generator
from retriever.served.task import Abilities
from retriever.settings import DEFAULT_PROFILE, Profile, read_profile
from retriever.store import reading, text_vectors
from retriever.store.database import (
    INDEX_FORMAT,
    PAGE_BYTES,
    Connection,
    copy_into,
    make_schema,
    transaction,
    translate_sqlite_errors,
)
from retriever.store.files import FILE_NAME, LOGS, is_folder, require_own, writer_lock, writing_to
from retriever.trace import NO_PROGRESS
from retriever.types import Encoder, Progress

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
    llm: Profile | None = None,
    progress: Progress = NO_PROGRESS,
    encoder: Encoder | None = None,
) -> CheckUp:
    """Examine the installation and an index, and repair the index on request.

    Args:
        index: the index's folder, found as in `open_retriever`.
        repair: make broken parts anew first, and save what a damaged database holds.
        llm: try what the language model of this profile can do as well.
        progress: told how far a repair has come, where documents are indexed again.
        encoder: the caller's own embedding model, for such a repair.

    Raises:
        RetrieverError: a repair failed; the message says what to do.
    """
    found, repairs = [*examine_software()], tuple[str, ...]()
    try:
        place = find_index(index)
        if repair:
            repairs = tuple(repair_index(place, progress, encoder))
        found += examine_index(place)
    except NoIndexError as error:
        found.append(Finding("index", "note", error.message, error.hint))
    if llm:
        found += examine_language_model(llm)
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
        yield Finding("bundled models", "problem", str(error), f"install {INSTALLED} again")


def examine_language_model(profile: Profile) -> Iterator[Finding]:
    """Try what the language model can do; that and its speed are kept for the stages."""
    generator = Generator(profile)
    name = "model"
    try:
        model = generator.look_up()
        place = f"{generator.name} is there, at {generator.server.url}"
        yield Finding(name, "well", f"{place}; it reads {model.window} tokens (llm.num_ctx)")
        name, started = "answer", time.monotonic()
        abilities = probe(generator)
        seconds = time.monotonic() - started
        took = f"tried on some tasks in {seconds:.0f} s"
        if seconds >= PROBE_SECONDS:
            took += ", the longest time: on an idle machine it may be seen to do more"
        yield Finding(name, "well", f"{took}; {generator.speed}" if generator.speed else took)
        for name, (what, how) in SAYS.items():
            if getattr(abilities, name):
                yield Finding(name, "well", f"was seen {what}")
            else:
                yield Finding(name, "note", f"was not seen {what}", how and f"left out; {how} uses it all the same")
    except LanguageModelError as error:
        yield Finding(name, "problem", str(error))


def examine_index(index: Store) -> Iterator[Finding]:
    """Examine the database, and what is derived from it."""
    repair = suggest(f"doctor --repair --index {shlex.quote(str(index))}")
    try:
        with index.read() as connection:
            damage = list(connection.find_damage())
            yield from (Finding(FILE_NAME, "problem", clause, repair) for clause in damage)
            # What reads rows of a damaged database could fail anywhere, so the rest waits for its repair.
            if not damage:
                yield from examine_rows(connection, index, repair)
    except NoIndexError:
        raise
    except IndexUnusableError as error:
        yield Finding(FILE_NAME, "problem", error.message, error.hint or repair)


def examine_rows(connection: Connection, index: Store, repair: str) -> Iterator[Finding]:
    """Examine how much a whole database holds, whether every text has its vector, and what is derived from the rows.

    `repair` is what to do about what is damaged.
    """
    counts = reading.counts(connection)
    parts = ((counts.documents, "document"), (counts.sections, "section"), (counts.chunks, "chunk"))
    yield Finding("rows", "well", ", ".join(pluralize(*part) for part in parts))
    if not reading.meta(connection, "fingerprint"):
        yield Finding("vectors", "note", "made without an encoder: searched by words and structure alone")
    elif waiting := text_vectors.pending_count(connection):
        says = f"{pluralize(waiting, 'text')} without a vector yet: their sections are found by words alone"
        yield Finding("vectors", "note", says, suggest("index FOLDER"))
    else:
        yield Finding("vectors", "well", "every chunk has one")
    if mix := explain_mix(connection):
        yield Finding("languages", "note", mix)
    if not reading.meta(connection, "snapshot"):
        yield Finding("snapshot", "problem", "the first indexing has not finished", suggest("index FOLDER"))
        return
    for name, says in compare_derived(connection, index):
        yield Finding(name, "problem", says, repair) if says else Finding(name, "well", "as in the database")


def compare_derived(connection: Connection, index: Store) -> Iterator[tuple[str, str]]:
    """Compare what is derived from the rows with them; yield what it is, and why it cannot be used, if so."""
    yield "words", examine_words(connection)
    try:
        graph = index.open_graph(connection, reading.read_state(connection))
    except SnapshotError as error:
        if not isinstance(error, ReadOnlyError):
            yield "vectors in ChromaDB", str(error)
    else:
        if isinstance(graph, VectorIndex):  # beside the rows
            graph.close()
            yield "vectors in ChromaDB", ""


# Repair: an index is made anew from its documents, and keeps what can be read of the old one.
#
# Out of a damaged index.sqlite comes what no document can give back (folders, settings, what was forgotten) and what
# would take long to make (vectors), each table up to the first row that cannot be read. SQLite's own backup puts that
# in the place of the damaged database, all of it or nothing; then the documents are indexed again.

# Tables that are saved, and what a report calls one of their rows; of `meta` the settings are saved.
SAVED = {"folders": "folder", "forgotten": "forgotten path", "vectors": "vector"}


def repair_index(store: Store, progress: Progress = NO_PROGRESS, encoder: Encoder | None = None) -> Iterator[str]:
    """Make an index whole; yield what was done, a sentence each.

    Raises:
        DocumentsError: a folder of documents is away; a damaged index is then as it was.
        EncoderError: a lost vector cannot be made again.
        NoIndexError: there is none, or its first indexing was killed before it made the tables.
        IndexUnusableError: the index is locked, of a later format, or cannot be written.
    """
    try:
        with store.read() as connection:
            is_damaged = any(connection.find_damage())
    except (IndexDamagedError, OldIndexError):
        is_damaged = True
    if is_damaged:
        # What a database has lost is in the backups of its server, or made again by `index`.
        yield replace_database(store.folder)
    with store.read() as connection:
        state = reading.read_state(connection)
        is_broken = any(says for _, says in compare_derived(connection, store))
    if state.snapshot:
        if is_broken:
            with store.write(WAIT_FOR_WRITER_S) as connection:
                with transaction(connection):
                    build_words(connection)
                store.finish(connection, NO_PROGRESS, with_chroma=False)
            yield "the words were made anew, and the next `index` writes ChromaDB; nothing was embedded"
        return
    named = read_named_folders(store)
    stored = sorted(state.folders)
    if not set(stored) <= set(named) or not named:  # what this user has not named is not looked at
        says = explain_refusal(", ".join(stored)) if stored else "which folders it held cannot be read"
        command = suggest(f"index {shlex.join(stored) or 'FOLDER'} --index {shlex.quote(str(store))}")
        yield f"{says}; {command}"
        return
    request = index_request(() if stored else named, store, DEFAULT_PROFILE, None, encoder)
    report = update_index(request, progress)
    yield f"{pluralize(report.documents, 'document')} indexed again: {report.embedded:,} texts embedded"


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
        with suppress(sqlite3.Error, ValueError, TypeError):
            (version,) = source.execute("PRAGMA user_version").fetchone()
            (settings,) = source.execute("SELECT value FROM meta WHERE key = 'settings'").fetchone()
            read_profile(json.loads(settings))  # pydantic's error is a ValueError
            target.execute("INSERT INTO meta VALUES ('settings', ?)", (settings,))
        for table, name in SAVED.items():
            if table == "vectors" and version != INDEX_FORMAT:  # other numbers
                continue
            columns = [column for _, column, *_ in target.execute(f"PRAGMA table_info({table})")]
            listed, marks = ", ".join(columns), ", ".join("?" * len(columns))
            before = target.total_changes
            target.execute("BEGIN")
            # Up to the first row that cannot be read, or is not as it should be; an error may quote a damaged schema.
            with suppress(sqlite3.Error, UnicodeDecodeError):
                rows = source.execute(f"SELECT {listed} FROM {table}")
                target.executemany(f"INSERT OR IGNORE INTO {table} ({listed}) VALUES ({marks})", rows)
            target.execute("COMMIT")
            saved[name] = target.total_changes - before
    target.execute("DELETE FROM forgotten WHERE folder_key NOT IN (SELECT folder_key FROM folders)")
    counts = ", ".join(pluralize(count, name) for name, count in saved.items())
    return f"saved of the old database: {counts}"


# What a language model can do, on tasks whose right answers are known. Stages that it fails are left out: small models
# repeat a question instead of rewording it, write questions as passages, and give lists back as they come.

log = logging.getLogger(__name__)

PROBE_SECONDS = 60.0  # the longest wait for all of it; what is not done by then counts as failed

LISTED = "when does the library close on Saturdays?"
PASSAGES = (
    "The library is open until one in the afternoon on Saturdays.",  # which answers it
    "Children below the age of ten swim together with an adult.",
    "The museum was built in 1911, and its roof was renewed after a storm.",
    "A library card costs four euros a year.",
    "On Saturdays farmers sell fruit and cheese in front of the town hall.",
)
STARTS = (1, 0, 2)  # of the passages in each list, so that the right one is the last, the first and the fourth
# Whether each asks for a single fact.
REWORDED = {
    "why does `cron.daily` skip my backup after a restart?": False,
    "how can I stop my bicycle chain from falling off?": False,
    "how many days does cooked rice keep in the fridge?": True,
}
ENOUGH = 2  # of these, since what is written at a temperature is not always the best

# What is said of each ability: what it is, and how to use a model without it.
SAYS = {
    "lists": ("to put the right passage first in a list", "--rerank-kind llm"),
    "rewordings": ("to reword a question and keep its names", "--hyde always"),
    "passages": ("to write statements to search with, no questions and no titles", "--hyde always"),
    "intents": ("to tell a question about a single fact", ""),
}


def probe(generator: Generator) -> Abilities:
    """Ask a model at most 6 short tasks, in at most PROBE_SECONDS, and remember what it can do; LanguageModelError."""
    generator.look_up()  # a server that is away says nothing of its model
    end = time.monotonic() + PROBE_SECONDS

    def left() -> float:
        return max(0.1, end - time.monotonic())

    def finds_first(start: int) -> bool:
        shown = PASSAGES[start:] + PASSAGES[:start]
        reranker = LlmReranker(generator, seconds=left())
        scores = reranker.score(LISTED, [RerankInput("", passage) for passage in shown])
        return shown[scores.index(max(scores))] == PASSAGES[0]

    lists = False
    with suppress(WrongAnswerError, LanguageModelTimeoutError):  # else nothing can be said of the model
        lists = all(map(finds_first, STARTS))
    reworded = stated = understood = 0
    for question, is_fact in REWORDED.items():
        task = replace(build_expansion_task(question, TextPlan(1, 1, 160)), max_tokens=200, seconds=left())
        with suppress(LanguageModelError):
            written = generator.write(task).expansion()
            usable, _ = screen(question, replace(written, intent=""), find_exact_names(question))
            reworded += bool(usable.rewordings)
            stated += bool(usable.passages)
            understood += (written.intent == FACTUAL_INTENT) == is_fact
    # A server that went away meanwhile is an error here.
    abilities = Abilities(lists, reworded >= ENOUGH, stated >= ENOUGH, understood == len(REWORDED))
    generator.remember(abilities)
    return abilities


def probe_once(profile: Profile, announce: Callable[[str], None] = log.info) -> None:
    """Find out what the profile's language model can do, where that is not known yet and it can be asked."""
    generator = Generator(profile)
    with suppress(LanguageModelError):
        if generator.abilities is None:
            announce(f"trying once what {generator.name} can do, for a minute at most")
            probe(generator)


def describe_stages(profile: Profile) -> str:
    """Return how long the language model may take for a question with this profile here."""
    generator = Generator(profile)
    with suppress(LanguageModelError):
        if generator.abilities is None:
            return f"{generator.name} was not tried yet: doctor --llm"
        stages = (profile.hyde != "never") + (profile.rerank.kind in {"auto", "llm"})
        return f"{generator.name}: up to {stages * generator.stage_s:.0f} s more for a question"
    return "no language model answers"
