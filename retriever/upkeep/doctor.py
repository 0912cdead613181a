"""Examine the installation and an index, and say what to do about each problem; `repair` mends what is broken."""

import platform
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from retriever.display.phrases import pluralize
from retriever.embedding import BUNDLED_MODEL
from retriever.embedding.onnx import RERANKER_CARD, ModelCard
from retriever.errors import (
    CommandHint,
    EncoderError,
    IndexUnusableError,
    IndexVersionError,
    NoIndexError,
    RerankerError,
    name_installer,
)
from retriever.indexes import find_index
from retriever.indexing.derived import open_derived
from retriever.protocols import Encoder, Progress
from retriever.rerank.cross_encoders import check_rerank_server
from retriever.served.generator import check_llm
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.settings.schema import Profile
from retriever.store import listing, reading, text_vectors
from retriever.store.database import FILE_NAME, Connection
from retriever.store.store import Store
from retriever.upkeep.repair import repair_index

Area = Literal["environment", "index", "language model"]
Level = Literal["well", "note", "problem"]


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
    """What was found, and repaired."""

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
        llm: ask the language model as well, and look whether there is all that the profile needs of models.
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
        cure = CommandHint("index FOLDER").render()
        found.append(Finding("index", "index", "note", "nothing has been indexed yet", cure))
    else:
        found += examine_index(place)
    if llm:
        found += examine_models(collect_settings(profile, settings).profile())
    return CheckUp(tuple(found), repairs)


def examine_software() -> Iterator[Finding]:
    """Examine what is installed, and the bundled model."""
    engines = f"SQLite {sqlite3.sqlite_version}, ChromaDB {version('chromadb')}, ONNX Runtime {version('onnxruntime')}"
    python = f"Python {platform.python_version()} on {sys.platform} {platform.machine()}"
    yield Finding("environment", "software", "well", f"{python}, {engines}")
    try:
        ModelCard.read(BUNDLED_MODEL).verify(BUNDLED_MODEL)
        yield Finding("environment", "bundled model", "well", f"{BUNDLED_MODEL.name} has its checksums")
    except EncoderError as error:
        yield Finding("environment", "bundled model", "problem", str(error), f"install again: {name_installer()}")


def examine_models(profile: Profile) -> Iterator[Finding]:
    """Examine the language model that this profile asks, and what scores its candidates one after another."""
    settings = profile.rerank
    is_asked = profile.use_llm and bool(
        ((profile.rewordings or profile.hyde_variants) and profile.hyde != "never")
        or settings.kind == "llm"
        or profile.rounds
    )
    # A profile that needs none has its short answers written by one, if it runs.
    if is_asked or settings.kind == "none":
        for what, is_well, says in check_llm(profile.llm):
            yield Finding("language model", what, "well" if is_well else "problem", says)
    if not is_asked:
        says = "this profile asks no language model; `doctor --llm --profile full` checks what `full` needs"
        yield Finding("language model", "stages", "note" if settings.kind == "none" else "well", says)
    problem = says = ""
    match settings.kind:
        case "onnx":
            folder = Path(settings.model).expanduser()
            says = f"{folder} is there and has its checksums"
            try:
                ModelCard.read(folder, RERANKER_CARD).verify(folder)
            except EncoderError as error:
                problem = str(error)
        case "endpoint":
            try:
                says = check_rerank_server(settings, profile.final_text_chars)
            except RerankerError as error:
                problem = str(error)
        case _:
            return
    yield Finding("language model", "reranker", "problem" if problem else "well", problem or says)


def examine_index(index: Store) -> Iterator[Finding]:
    """Examine the database and the snapshot."""
    repair = CommandHint(f"doctor --repair --index {index}").render()
    try:
        with index.read() as connection:
            # What reads rows of a damaged database could fail anywhere, so the rest waits for its repair.
            damage = list(connection.find_damage())
            if damage:
                yield from (Finding("index", FILE_NAME, "problem", clause, repair) for clause in damage)
            else:
                yield from examine_rows(connection, index)
                yield from examine_derived(connection, index, repair)
    except NoIndexError as error:
        yield Finding("index", "index", "note", str(error))
    except IndexUnusableError as error:  # one of another version says itself what to do
        cure = "" if isinstance(error, IndexVersionError) else repair
        yield Finding("index", FILE_NAME, "problem", str(error), cure)


def examine_rows(connection: Connection, index: Store) -> Iterator[Finding]:
    """Examine how much a whole database holds, and whether every text has its vector."""
    counts = reading.counts(connection)
    parts = ((counts.documents, "document"), (counts.sections, "section"), (counts.chunks, "chunk"))
    says = ", ".join(pluralize(number, noun) for number, noun in parts)
    yield Finding("index", "rows", "well", says)
    skipped, remarks = len(listing.skipped(connection)), len(listing.warnings(connection))
    found = ((counts.broken_links, "broken link"), (skipped, "skipped file"), (remarks, "remark"))
    if named := ", ".join(pluralize(number, noun) for number, noun in found if number):
        yield Finding("index", "documents", "note", named, CommandHint("status -v", "to see which, run").render())

    fingerprint = reading.meta(connection, "fingerprint") or ""
    if not fingerprint:
        yield Finding("index", "vectors", "note", "made without an encoder: searched by words and structure alone")
    elif waiting := text_vectors.pending_count(connection):
        says = f"{pluralize(waiting, 'text')} without a vector yet: their sections are found by words alone"
        yield Finding("index", "vectors", "note", says, CommandHint("index FOLDER").render())
    else:
        yield Finding("index", "vectors", "well", "every chunk has one")


def examine_derived(connection: Connection, index: Store, repair: str) -> Iterator[Finding]:
    """Compare what is derived from the rows with them; `repair` is what to do about what is damaged."""
    if not reading.snapshot_number(connection):
        cure = CommandHint("index FOLDER").render()
        yield Finding("index", "snapshot", "problem", "the first indexing has not finished", cure)
        return
    for name, problem in open_derived(index).examine(connection):
        level: Level = "problem" if problem else "well"
        yield Finding("index", name, level, problem or "as in the database", repair if problem else "")
