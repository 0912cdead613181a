"""Examines the installation and an index, and says what to do about each problem; changes nothing.

`retriever.repair` mends what is broken.
"""

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from retriever.archive import name_drafts
from retriever.display.phrases import format_size, pluralize
from retriever.embedding import BUNDLED_MODEL
from retriever.embedding.onnx import ModelCard
from retriever.embedding.prefixes import describe_prefixes
from retriever.errors import (
    Command,
    DocumentsError,
    EncoderError,
    IndexUnusableError,
    IndexVersionError,
    NoIndexError,
    SnapshotError,
)
from retriever.indexing.changes import detect_changes, list_known_folder, settle_unsure
from retriever.indexing.consent import drop_widening_settings, explain_refusal, read_named_folders
from retriever.indexing.forget import list_forgotten
from retriever.indexing.snapshot import CHROMA, Snapshot, locate_snapshot
from retriever.installation import CURE, find_conflicts
from retriever.languages import advise_models, survey_texts
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.settings.schema import ExpansionSettings, Profile, RerankSettings, RerankStageSettings
from retriever.store import reading, text_vectors
from retriever.store.address import read_address
from retriever.store.checking import find_damage
from retriever.store.connection import Connection
from retriever.store.database import FILE_NAME, INDEX_FORMAT, list_aside, read_index
from retriever.store.locks import is_read, writer_of
from retriever.vectors.manifest import VectorsManifest

Area = Literal["environment", "index", "language model"]
Level = Literal["well", "note", "problem"]

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 37, 0)  # the first with STRICT tables
PACKAGES = ("chromadb", "numpy", "onnxruntime", "rank-bm25", "networkx", "markdown-it-py", "ollama")
LEAST_ROOM = 600  # bytes: a question of some sentences
LITTLE_SPACE = 50_000_000  # bytes; with less no index can be made


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


def examine(index: Path | None, models: Profile | None = None) -> Iterator[Finding]:
    """Examines everything; `index` is None before the first indexing, `models` unless those of a profile are asked."""
    yield from examine_software()
    if index is None:
        cure = Command("index FOLDER").render()
        yield Finding("index", "index", "note", "nothing has been indexed yet", cure)
    else:
        if not read_address(index):
            yield from examine_disk(index)
        yield from examine_index(index)
    if models is not None:
        yield from examine_models(models)


def judge(area: Area, name: str, says: str, cure: str, level: Level = "problem") -> Finding:
    """A finding that is well unless there is something to be done about it."""
    return Finding(area, name, level if cure else "well", says, cure)


def examine_software() -> Iterator[Finding]:
    """Python, SQLite, the packages and the bundled model."""
    says = f"Python {platform.python_version()} on {sys.platform} {platform.machine()}"
    cure = "install Python 3.11 or newer" if sys.version_info < OLDEST_PYTHON else ""
    yield judge("environment", "Python", says, cure)
    cure = "use a Python that comes with SQLite 3.37 or newer" if sqlite3.sqlite_version_info < OLDEST_SQLITE else ""
    yield judge("environment", "SQLite", f"SQLite {sqlite3.sqlite_version}", cure)

    # By their metadata: to import them all would take as long as a question.
    installed = []
    for name in PACKAGES:
        try:
            installed.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            installed.append(f"{name} is missing")
    cure = "install again: uv sync" if any(text.endswith(" is missing") for text in installed) else ""
    yield judge("environment", "packages", ", ".join(installed), cure)
    conflicts = list(find_conflicts())
    for says, is_in_the_way in conflicts:
        yield Finding("environment", "package names", "problem" if is_in_the_way else "note", says, CURE)
    if not conflicts:
        yield Finding("environment", "package names", "well", "no other distribution has `pageindex` or `retriever`")

    try:
        ModelCard.read(BUNDLED_MODEL).verify(BUNDLED_MODEL)
        yield Finding("environment", "bundled model", "well", f"{BUNDLED_MODEL.name} has its checksums")
    except EncoderError as error:
        yield Finding("environment", "bundled model", "problem", str(error), "install again: uv sync --reinstall")


def examine_models(profile: Profile) -> Iterator[Finding]:
    """The language model, whether it has room for what the profile asks of it, and the profile's cross-encoder."""
    from retriever.expansion.prompt import (
        build_instructions,
        count_answer_tokens,
        count_usual_tokens,
        plan_expansion,
    )
    from retriever.rerank.llm import estimate_windows
    from retriever.served.check import check_llm
    from retriever.served.generator import ServedGenerator
    from retriever.served.speed import USUAL

    area: Area = "language model"
    expands = profile.use_llm and bool(profile.rewordings or profile.hyde_variants) and profile.hyde.gate != "never"
    reranks = profile.use_llm and profile.rerank.kind == "llm"
    looks_further = profile.use_llm and profile.rounds > 0
    # Only what this profile will ask is asked: who runs one model is told nothing of another.
    is_well = True
    wanted = ((profile.llm.expansion_model, expands), (profile.llm.rerank_model, reranks), ("", looks_further))
    models = dict.fromkeys(model or profile.llm.model for model, is_asked in wanted if is_asked)
    for model in models or [profile.llm.model]:
        for found in check_llm(replace(profile.llm, model=model), measures=True):
            is_well = is_well and found.is_well  # what is wrong says what to do in the same sentence
            yield Finding(area, found.what, "well" if found.is_well else "problem", found.says)
    if not (expands or reranks or looks_further or profile.summaries.kind == "llm"):
        says = "this profile asks no language model; `doctor --llm --profile full` checks what `full` needs"
        yield Finding(area, "stages", "note" if profile.rerank.kind == "none" else "well", says)
    expander, reranker, _ = (
        ServedGenerator(replace(profile.llm, model=name or profile.llm.model)) for name, _ in wanted
    )
    cure = "a model that reads more, or a larger llm.num_ctx"
    if is_well and expands:
        speed = expander.speed or USUAL
        settings, _ = plan_expansion(profile.part(ExpansionSettings), "", speed, expander.stage_s)
        room = expander.room(build_instructions(settings), count_answer_tokens(settings))
        texts = (
            pluralize(settings.rewordings, "rewording"),
            pluralize(settings.hyde_variants, "passage"),
        )
        # By the plan that a question would make, so that the time named here is the time waited there.
        seconds = speed.seconds(build_instructions(settings), count_usual_tokens(settings))
        says = f"{' and '.join(texts)} of a question, in about {seconds:.0f} s"
        problem = f"{says}, and no room is left for a question" if room < LEAST_ROOM else ""
        yield judge(area, "expansion", problem or says, cure if problem else "")
    if is_well and reranks:
        windows = estimate_windows(reranker, profile.part(RerankStageSettings))
        says = f"{profile.candidate_cap} candidates in {pluralize(windows, 'window')} of the model's context"
        yield judge(area, "reranking", says if windows else "no two candidates fit", "" if windows else cure)
    yield from examine_reranker(profile.rerank)


def examine_reranker(settings: RerankSettings) -> Iterator[Finding]:
    """The model that scores the candidates one after another, if the profile has one; a server is asked about two."""
    from retriever.rerank import cross_encoder, endpoint, onnx

    area: Area = "language model"
    match settings.kind:
        case "cross-encoder":
            problem, cure = cross_encoder.find_problem(settings)
            yield judge(area, "cross-encoder", problem or f"{settings.model} is on this machine", cure)
        case "onnx" | "endpoint":
            problem = (onnx if settings.kind == "onnx" else endpoint).find_problem(settings)
            well = f"{settings.model} is there and has its checksums"
            well = well if settings.kind == "onnx" else f"{settings.url} reranks"
            yield Finding(area, "reranker", "problem" if problem else "well", problem or well)


def examine_disk(index: Path) -> Iterator[Finding]:
    """Where the index is, whether its disk has room, and whether it can be written."""
    yield Finding("environment", "location", "well", f"the index is {index}")
    existing = next(place for place in (index, *index.absolute().parents) if place.exists())

    free = shutil.disk_usage(existing).free
    used = sum(path.stat().st_size for path in index.rglob("*") if path.is_file()) if index.is_dir() else 0
    # A new snapshot lies beside the old one until it is in force, and a vacuum writes the database twice.
    needed = max(LITTLE_SPACE, 2 * used)
    more = f"; an update may need {format_size(needed)}" if free < needed else ""
    cure = f"free {format_size(needed - free)}, or keep the index on another disk (--index)" if more else ""
    yield judge("environment", "disk", f"{format_size(free)} free{more}", cure)
    if os.access(existing, os.W_OK | os.X_OK):
        yield Finding("environment", "permissions", "well", f"{existing} can be written")
    else:
        says = f"{existing} can be read only: asking works, indexing does not"
        cure = "change its permissions, or name another index with --index"
        yield Finding("environment", "permissions", "note", says, cure)


def examine_index(index: Path) -> Iterator[Finding]:
    """The database, the snapshot, the folders, what is left over, and who uses the index."""
    repair = Command(f"doctor --repair --index {index}").render()
    address = read_address(index)
    try:
        with read_index(index) as connection:
            # What reads rows of a damaged database could fail anywhere, so the rest waits for its repair.
            damage = list(find_damage(connection))
            if damage:
                yield from (Finding("index", FILE_NAME, "problem", clause, repair) for clause in damage)
            else:
                yield from examine_rows(connection)
                yield from examine_languages(connection, index)
                says, is_known = describe_prefixes(_index_profile(connection, index).encoder)
                if says:  # what a served embedding model is given before each text: without it, many find far less
                    yield Finding("index", "prefixes", "well" if is_known else "note", says)
                yield from examine_parts(connection) if address else examine_snapshot(connection, index, repair)
                yield from examine_folders(connection, index)
    except NoIndexError as error:
        yield Finding("index", "index", "note", str(error))
    except IndexVersionError as error:  # says itself what to do
        yield Finding("index", FILE_NAME, "problem", str(error))
    except IndexUnusableError as error:
        yield Finding("index", FILE_NAME, "problem", str(error), repair)
    if address:
        return
    yield from examine_leftovers(index)
    writer = writer_of(index)
    says = f"process {writer} is writing" if writer else "nobody is writing"
    readers = pluralize(sum(is_read(folder) for folder in index.glob("snapshot-*")), "snapshot")
    yield Finding("index", "locks", "note" if writer else "well", f"{says}; {readers} being read")


def examine_rows(connection: Connection) -> Iterator[Finding]:
    """How much a whole database holds: documents, vectors, links, duplicates, and what is kept out."""
    counts = reading.counts(connection)
    parts = ((counts.documents, "document"), (counts.sections, "section"), (counts.chunks, "chunk"))
    says = ", ".join(pluralize(number, noun) for number, noun in parts)
    is_file = isinstance(connection, sqlite3.Connection)
    where, form = (FILE_NAME, f"format {INDEX_FORMAT}, ") if is_file else ("tables", "")
    yield Finding("index", where, "well", f"{form}{says}; every row can be read")

    # Three states that look alike in the counts: no encoder, a first run that goes on, and vectors that are lost.
    fingerprint = reading.meta(connection, "fingerprint") or ""
    embedded = text_vectors.vector_count(connection, fingerprint) if fingerprint else 0
    if not fingerprint:
        yield Finding("index", "vectors", "note", "made without an encoder: searched by words and structure alone")
    elif text_vectors.embedded_share(connection) < 1:
        says = f"{embedded:,} of {counts.chunks:,} chunks have a vector; the others are found by words alone"
        yield Finding("index", "vectors", "note", says, Command("index FOLDER", "to go on, run").render())
    elif embedded < counts.chunks:
        says = f"{embedded:,} of {counts.chunks:,} chunks have a vector"
        yield Finding("index", "vectors", "problem", says, Command("index FOLDER").render())
    else:
        unused = "SELECT count(*) FROM vectors WHERE text_hash NOT IN (SELECT text_hash FROM chunks)"
        (more,) = connection.execute(unused).fetchone()
        says = f"; {more:,} more are kept of texts that may come back" if more else ""
        yield Finding("index", "vectors", "well", f"every chunk has one{says}")

    rows = connection.execute("SELECT problem, count(*) FROM links WHERE problem IS NOT NULL GROUP BY problem")
    broken = ", ".join(f"{number:,} {problem}" for problem, number in rows)
    says = f"broken links in the documents: {broken}" if broken else "every link leads somewhere"
    yield judge("index", "links", says, "mend the documents" if broken else "", "note")

    copies = "SELECT count(*) AS n FROM documents GROUP BY digest HAVING count(*) > 1"
    texts, documents = connection.execute(f"SELECT count(*), coalesce(sum(n), 0) FROM ({copies}) AS copies").fetchone()
    says = f"{documents:,} documents have only {texts:,} different texts" if texts else "no two documents are the same"
    yield judge("index", "duplicates", says, "leave copies out with --ignore" if texts else "", "note")

    if forgotten := list(list_forgotten(connection)):
        yield Finding("index", "forgotten", "note", f"{pluralize(len(forgotten), 'path')} kept out by `forget`")


def examine_languages(connection: Connection, index: Path) -> Iterator[Finding]:
    """How much of the documents the embedding model knows, where that can be told here."""
    survey = survey_texts(connection, _index_profile(connection, index).encoder)
    if survey is not None and reading.meta(connection, "fingerprint"):
        folders = [folder.path for folder in reading.folders(connection)]
        says = f"{survey.describe()}, and is found by its words more than by its meaning"
        cure = "; ".join(advise_models(folders)) if survey.is_worth_a_note else ""
        yield judge("index", "languages", says if cure else survey.describe(), cure, "note")


def _index_profile(connection: Connection, index: Path) -> Profile:
    given = drop_widening_settings(index, reading.index_settings(connection))
    return collect_settings(DEFAULT_PROFILE, None, given).profile()


def examine_snapshot(connection: Connection, index: Path, repair: str) -> Iterator[Finding]:
    """Compares the snapshot in force with its checksums and rows; `repair` is what to do about a damaged one."""
    number = reading.snapshot_number(connection)
    if not number:
        cure = Command("index FOLDER").render()
        yield Finding("index", "snapshot", "problem", "the first indexing has not finished", cure)
        return
    manifest_hash = reading.manifest_hash(connection)
    try:
        with closing(Snapshot(index, number, manifest_hash)) as snapshot:
            sections, found = reading.counts(connection).sections, len(snapshot.lexical)
            if found != sections:
                raise SnapshotError(f"{snapshot.folder / 'lexical'} has {found} of {sections} sections")
        yield Finding("index", "words", "well", f"{pluralize(sections, 'section')}; every file has its checksum")
    except SnapshotError as error:
        yield Finding("index", "words", "problem", str(error), repair)

    try:
        yield Finding("index", "vectors in ChromaDB", "well", examine_chroma(connection, index))
    except SnapshotError as error:
        yield Finding("index", "vectors in ChromaDB", "problem", str(error), repair)

    for folder in sorted(index.glob("snapshot-*")):
        if folder != locate_snapshot(index, number) and not is_read(folder):
            says = f"{folder.name} is not in force, and nobody reads it"
            yield Finding("index", "left over", "note", says, "the next `index` removes it")


def examine_chroma(connection: Connection, index: Path) -> str:
    """Open the vectors in ChromaDB, and count them; SnapshotError where they are damaged."""
    number, manifest_hash = reading.snapshot_number(connection), reading.manifest_hash(connection)
    with closing(Snapshot(index, number, manifest_hash)) as snapshot:
        folder, fingerprint = snapshot.folder / CHROMA, snapshot.manifest.fingerprint
        if not fingerprint:
            return "none were made"
        if not folder.exists():
            return "not made; the next `index` does, and a search that asks it"
        if VectorsManifest.read(folder).snapshot != manifest_hash:
            return "of an older snapshot; the next `index` brings it up to date, and a search that asks it"
        found, wanted = len(snapshot.vectors), len(text_vectors.distinct_keys(connection, fingerprint))
        if found != wanted:
            raise SnapshotError(f"{folder} has {found} of {pluralize(wanted, 'vector')}")
        return f"{pluralize(found, 'vector')}; every file has its checksum"


def examine_parts(connection: Connection) -> Iterator[Finding]:
    """Whether the postings in tables are of all sections, and of this version."""
    from retriever.indexing.parts import count_sections, is_current

    sections, found = reading.counts(connection).sections, count_sections(connection)
    problem = "" if is_current(connection) else "the postings are of another version"
    if found != sections:
        problem = f"the postings are of {found:,} of {pluralize(sections, 'section')}"
    cure = Command("doctor --repair").render()
    yield judge("index", "words", problem or pluralize(sections, "section"), cure if problem else "")


def examine_folders(connection: Connection, index: Path) -> Iterator[Finding]:
    """Each indexed folder: whether this user has named it, whether it is there, and what changed in it."""
    settings = _index_profile(connection, index).documents
    named = read_named_folders(index).folders
    for folder in reading.folders(connection):
        if folder.path not in named:
            cure = Command(f"index --index {index} {folder.path}", "if it is meant, run").render()
            yield Finding("index", "folder", "note", explain_refusal([folder.path]), cure)
            continue
        # What cannot be read is known as well: it has changed only where its size or times have.
        known = reading.documents(connection, folder.key) | reading.unreadable(connection, folder.key)
        try:
            diff = detect_changes(folder, known, list_known_folder(folder, known, settings))
            changed = len(settle_unsure(diff, settings.max_file_bytes))
        except DocumentsError as error:
            cure = Command(f"forget {folder.path}", "bring it back, or run").render()
            yield Finding("index", "folder", "note", f"{error}; its documents are kept as they were", cure)
            continue
        says = f"{folder.path}: {pluralize(changed, 'file')} changed since it was indexed"
        yield judge("index", "folder", says, Command(f"index {folder.path}").render() if changed else "", "note")


def examine_leftovers(index: Path) -> Iterator[Finding]:
    """What a killed run left, which goes with the next one, and what a repair kept on purpose."""
    for path in list_aside(index):
        if path.is_dir():
            says = f"{path.name} is of a repair that {'is at work' if writer_of(index) else 'was killed'}"
            yield Finding("index", "left over", "note", says, "the next `doctor --repair` removes it")
        else:
            says = f"{path.name}, {format_size(path.stat().st_size)}: the damaged database that the last repair kept"
            cure = "remove it when all is well; it holds texts of documents"
            yield Finding("index", "left over", "note", says, cure)
    for path in filter(Path.exists, name_drafts(index)):
        says = f"{path} is being imported" if writer_of(path) else f"{path} is of an import that was killed"
        yield Finding("index", "left over", "note", says, "the next `import` to this place removes it")
