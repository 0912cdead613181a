"""Examines the installation and an index, and says what to do about each problem; changes nothing.

`retriever.upkeep.repair` mends what is broken.
"""

import platform
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Literal

from retriever.display.phrases import pluralize
from retriever.embedding import BUNDLED_MODEL
from retriever.embedding.onnx import ModelCard
from retriever.errors import (
    CommandHint,
    DocumentsError,
    EncoderError,
    IndexUnusableError,
    IndexVersionError,
    NoIndexError,
)
from retriever.indexing.changes import detect_changes, list_known_folder, settle_unsure
from retriever.indexing.consent import drop_widening_settings, explain_refusal, read_named_folders
from retriever.indexing.derived import open_derived
from retriever.invocation import name_installer
from retriever.rerank import cross_encoder, endpoint, onnx
from retriever.served.check import check_llm
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.settings.schema import Profile
from retriever.store import listing, reading, text_vectors
from retriever.store.checking import find_damage
from retriever.store.connection import Connection
from retriever.store.database import FILE_NAME
from retriever.store.store import Store

Area = Literal["environment", "index", "language model"]
Level = Literal["well", "note", "problem"]

OLDEST_SQLITE = (3, 37, 0)  # the first with STRICT tables
OUR_PACKAGES = ("pageindex", "retriever")  # names of other distributions too
PACKAGES = ("chromadb", "numpy", "onnxruntime", "rank-bm25", "networkx", "markdown-it-py", "ollama")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was examined."""

    area: Area
    name: str  # what was examined, in a word or two
    level: Level  # `note`: worth knowing, nothing is broken; `problem`: something does not work, or soon will not
    says: str  # what was seen
    cure: str = ""  # what to do about it; empty where there is nothing to be done


@dataclass(frozen=True, slots=True)
class CheckUp:
    """What the doctor found, and did."""

    findings: tuple[Finding, ...]  # as it is now, after the repairs
    repairs: tuple[str, ...] = ()  # what was repaired, a sentence each


def examine(index: Store | None, models: Profile | None = None) -> Iterator[Finding]:
    """Examine everything; `index` is None before the first indexing, `models` unless those of a profile are asked."""
    yield from examine_software()
    if index is None:
        cure = CommandHint("index FOLDER").render()
        yield Finding("index", "index", "note", "nothing has been indexed yet", cure)
    else:
        yield from examine_index(index)
    if models is not None:
        yield from examine_models(models)


def judge(area: Area, name: str, says: str, cure: str, level: Level = "problem") -> Finding:
    """Return a finding that is well unless there is something to be done about it."""
    return Finding(area, name, level if cure else "well", says, cure)


def examine_software() -> Iterator[Finding]:
    """Examine Python, SQLite, the packages and the bundled model."""
    installed = [f"Python {platform.python_version()} on {sys.platform} {platform.machine()}"]
    installed.append(f"SQLite {sqlite3.sqlite_version}")
    cure = "use a Python that comes with SQLite 3.37 or newer" if sqlite3.sqlite_version_info < OLDEST_SQLITE else ""
    for name in PACKAGES:
        try:
            installed.append(f"{name} {version(name)}")  # not imported: that would take as long as a question
        except PackageNotFoundError:
            installed.append(f"{name} is missing")
            cure = f"install again: {name_installer()}"
    yield judge("environment", "software", ", ".join(installed), cure)
    providers = packages_distributions()
    others = {name for package in OUR_PACKAGES for name in providers.get(package, ()) if name != "hybrid-retrieve"}
    if others:
        says = f"{', '.join(sorted(others))} has a package of the same name as ours: one of them may hide the other"
        cure = "keep this program in an environment of its own: uv tool install ."
        yield Finding("environment", "package names", "note", says, cure)
    else:
        yield Finding("environment", "package names", "well", "no other distribution has `pageindex` or `retriever`")

    try:
        ModelCard.read(BUNDLED_MODEL).verify(BUNDLED_MODEL)
        yield Finding("environment", "bundled model", "well", f"{BUNDLED_MODEL.name} has its checksums")
    except EncoderError as error:
        yield Finding("environment", "bundled model", "problem", str(error), f"install again: {name_installer()}")


def examine_models(profile: Profile) -> Iterator[Finding]:
    """Examine the language models that this profile asks, and what scores its candidates one after another."""
    expands = profile.use_llm and bool(profile.rewordings or profile.hyde_variants) and profile.hyde.gate != "never"
    reranks = profile.use_llm and profile.rerank.kind == "llm"
    is_asked = expands or reranks or (profile.use_llm and profile.rounds > 0)
    # A profile that needs none has its short answers written by one, if it runs.
    for found in check_llm(profile.llm, measures=True) if is_asked or profile.rerank.kind == "none" else ():
        # What is wrong says what to do in the same sentence.
        yield Finding("language model", found.what, "well" if found.is_well else "problem", found.says)
    if not is_asked:
        says = "this profile asks no language model; `doctor --llm --profile full` checks what `full` needs"
        yield Finding("language model", "stages", "note" if profile.rerank.kind == "none" else "well", says)
    settings = profile.rerank
    match settings.kind:
        case "cross-encoder":
            problem, cure = cross_encoder.find_problem(settings)
            yield judge("language model", "cross-encoder", problem or f"{settings.model} is on this machine", cure)
        case "onnx":
            problem = onnx.find_problem(settings)
            says = problem or f"{settings.model} is there and has its checksums"
            yield Finding("language model", "reranker", "problem" if problem else "well", says)
        case "endpoint":
            says, problem = endpoint.check_server(settings, profile.final_text_chars)
            yield Finding("language model", "reranker", "problem" if problem else "well", problem or says)


def examine_index(index: Store) -> Iterator[Finding]:
    """Examine the database, the snapshot, the folders, what is left over, and who uses the index."""
    repair = CommandHint(f"doctor --repair --index {index}").render()
    try:
        with index.read() as connection:
            # What reads rows of a damaged database could fail anywhere, so the rest waits for its repair.
            damage = list(find_damage(connection))
            if damage:
                yield from (Finding("index", FILE_NAME, "problem", clause, repair) for clause in damage)
            else:
                yield from examine_rows(connection, index)
                yield from examine_derived(connection, index, repair)
                yield from examine_folders(connection, index)
    except NoIndexError as error:
        yield Finding("index", "index", "note", str(error))
    except IndexVersionError as error:  # says itself what to do
        yield Finding("index", FILE_NAME, "problem", str(error))
    except IndexUnusableError as error:
        yield Finding("index", FILE_NAME, "problem", str(error), repair)
    cure = "remove it when no repair is at work; it holds texts of documents"
    for path in index.list_leftovers():
        yield Finding("index", "left over", "note", f"{path} is of a repair that was killed", cure)
    is_written, says = index.describe_use()
    yield Finding("index", "locks", "note" if is_written else "well", says)


def examine_rows(connection: Connection, index: Store) -> Iterator[Finding]:
    """Examine how much a whole database holds, and whether every text has its vector."""
    counts = reading.counts(connection)
    parts = ((counts.documents, "document"), (counts.sections, "section"), (counts.chunks, "chunk"))
    says = ", ".join(pluralize(number, noun) for number, noun in parts)
    yield Finding("index", index.rows_name, "well", f"{says}; every row can be read")
    skipped, remarks = len(listing.skipped(connection)), len(listing.warnings(connection))
    found = ((counts.broken_links, "broken link"), (skipped, "skipped file"), (remarks, "remark"))
    if named := ", ".join(pluralize(number, noun) for number, noun in found if number):
        yield Finding("index", "documents", "note", named, CommandHint("status -v", "to see which, run").render())

    # Three states that look alike in the counts: no encoder, a first run that goes on, and what is lost.
    fingerprint = reading.meta(connection, "fingerprint") or ""
    if not fingerprint:
        yield Finding("index", "vectors", "note", "made without an encoder: searched by words and structure alone")
    elif reading.read_state(connection).embedded_share < 1:
        embedded = text_vectors.vector_count(connection, fingerprint)
        says = f"{embedded:,} of {counts.chunks:,} chunks have a vector; the others are found by words alone"
        yield Finding("index", "vectors", "note", says, CommandHint("index FOLDER", "to go on, run").render())
    elif lost := text_vectors.count_lost(connection, fingerprint):
        says = f"of {lost:,} of {counts.chunks:,} chunks the vector is lost"
        yield Finding("index", "vectors", "problem", says, CommandHint("index FOLDER").render())
    else:
        unused = "SELECT count(*) FROM vectors WHERE text_hash NOT IN (SELECT text_hash FROM chunks)"
        (more,) = connection.execute(unused).fetchone()
        says = f"; {more:,} more are kept of texts that may come back" if more else ""
        yield Finding("index", "vectors", "well", f"every chunk has one{says}")


def _index_profile(connection: Connection, index: Store) -> Profile:
    given = drop_widening_settings(index, reading.index_settings(connection))
    return collect_settings(DEFAULT_PROFILE, None, given).profile()


def examine_derived(connection: Connection, index: Store, repair: str) -> Iterator[Finding]:
    """Compare what is derived from the rows with them; `repair` is what to do about what is damaged."""
    if not reading.snapshot_number(connection):
        cure = CommandHint("index FOLDER").render()
        yield Finding("index", "snapshot", "problem", "the first indexing has not finished", cure)
        return
    for name, problem, says in open_derived(index).examine(connection):
        yield judge("index", name, problem or says, repair if problem else "")


def examine_folders(connection: Connection, index: Store) -> Iterator[Finding]:
    """Examine each indexed folder: whether this user has named it, whether it is there, and what changed in it."""
    settings = _index_profile(connection, index).documents
    named = read_named_folders(index).folders
    for folder in reading.folders(connection):
        if folder.path not in named:
            cure = CommandHint(f"index --index {index} {folder.path}", "if it is meant, run").render()
            yield Finding("index", "folder", "note", explain_refusal([folder.path]), cure)
            continue
        # What cannot be read is known as well: it has changed only where its size or times have.
        known = reading.documents(connection, folder.key) | reading.unreadable(connection, folder.key)
        try:
            diff = detect_changes(folder, known, list_known_folder(folder, known, settings))
            changed = len(settle_unsure(diff, settings.max_file_bytes))
        except DocumentsError as error:
            cure = CommandHint(f"forget {folder.path}", "bring it back, or run").render()
            yield Finding("index", "folder", "note", f"{error}; its documents are kept as they were", cure)
            continue
        says = f"{folder.path}: {pluralize(changed, 'file')} changed since it was indexed"
        yield judge("index", "folder", says, CommandHint(f"index {folder.path}").render() if changed else "", "note")
