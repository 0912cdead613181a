"""Folders and an index -> an up-to-date index. Touches only what changed; the one place that writes documents.

It looks, reads, embeds and commits, in this order: whatever fails leaves the index as it was. Another embedding model
makes everything anew beside the snapshot in force, which answers until the new one is complete; vectors are kept as
they come, so that an interruption loses a few seconds of work.

Where nothing is in force yet, the words are committed before anything is embedded, and answer from then on: documents
and BM25 first, then chunks, with their texts in the table `pending`, then the vectors, in any order.
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pageindex.corpus import Listing, Skipped
from pageindex.document import parse_document
from pageindex.node import Node
from retriever.embedding import open_encoder
from retriever.embedding.prefixes import describe_prefixes
from retriever.errors import CommandHint, DocumentsError, EncoderError, UsageError
from retriever.indexing.background import renew_background
from retriever.indexing.changes import (
    Changes,
    StatDiff,
    detect_changes,
    list_folders,
    list_known_folder,
    name_folders_apart,
    read_changes,
)
from retriever.indexing.consent import explain_refusal, name_folders, read_named_folders
from retriever.indexing.derived import NodeChanges, open_derived
from retriever.indexing.embed import cut_chunks, embed_pending, embed_texts, find_missing, hash_texts
from retriever.indexing.report import IndexReport
from retriever.indexing.request import IndexRequest
from retriever.lexical.names import names_of_nodes
from retriever.protocols import Encoder, Likely, Progress
from retriever.settings.schema import APPROXIMATE
from retriever.store import listing, reading, text_vectors, writing
from retriever.store.connection import Connection
from retriever.store.database import transaction
from retriever.store.reading import StoredFolder

if TYPE_CHECKING:
    from pageindex.document import Document

FEW_SECTIONS = 200  # of which nobody asks for words before the vectors are there: that takes a few seconds


class TakenError(Exception):
    """Another process was first; nothing is written."""


@dataclass(frozen=True, slots=True)
class EmbedCounts:
    """What became of the texts of new chunks."""

    new: int = 0  # texts that the encoder read
    reused: int = 0  # texts whose vectors were there already


def update_index(
    request: IndexRequest,
    progress: Progress,
    on_words: Callable[[], object] = lambda: None,
    likely: Likely = tuple,
) -> IndexReport:
    """Brings an index up to date with its folders; raises as `retriever.api.index_folders`.

    Args:
        request: the folders, and how.
        progress: told how far it is.
        on_words: called when a first indexing, unless it is a small one, answers by words; what it takes is waited for.
        likely: which sections are embedded first, where words answer already.
    """
    started = time.perf_counter()
    listings = list_folders(request.docs, request.profile.documents)  # before the index is touched, or made
    with request.store.write(request.wait_s) as (connection, waited):
        if waited:  # what was seen of the folders is old by now
            listings = list_folders(request.docs, request.profile.documents)
        if request.docs:
            name_folders(request.store, request.docs, request.settings.get("documents", {}))
        derived = open_derived(request.store)
        derived.remove_old(reading.snapshot_number(connection))
        is_anew = (
            reading.meta(connection, "index_config") != request.index_config
            or has_lost_texts(connection, request)
            or serves_another_model(connection, request)
        )
        changes = find_changes(connection, request, listings, progress, is_anew=is_anew)
        encoder, embedded = request.encoder, EmbedCounts()
        # Under another prefix the ids of a folder's nodes are others.
        is_renamed = not {folder.prefix for folder in reading.folders(connection)} <= {
            change.folder.prefix for change in changes
        }
        has_changed = is_anew or is_renamed or any(change.rows or change.removed for change in changes)
        if has_changed or not derived.is_whole(connection):
            encoder = encoder or open_encoder(request.profile.encoder)
            if not is_anew and is_other_model(connection, encoder):  # behind the same name
                if not request.docs:
                    raise EncoderError("another embedding model is behind that name by now; index the documents again")
                is_anew = True
                changes = find_changes(connection, request, listings, progress, is_anew=True)
            if reading.meta(connection, "index_config"):
                embedded = index_changes(connection, request, changes, encoder, progress, is_anew=is_anew)
            else:
                embedded = index_words_first(connection, request, changes, encoder, progress, on_words)
            derived.remove_old(reading.snapshot_number(connection))
        else:
            with transaction(connection):
                note_files(connection, changes)
                clear_queue(connection, changes)
                remember_settings(connection, request)
        if text_vectors.pending_count(connection) and not request.leaves_pending:
            encoder = encoder or open_encoder(request.profile.encoder)
            if encoder is None or is_other_model(connection, encoder):
                raise EncoderError("another embedding model is behind that name by now; index the documents again")
            embedded = replace(embedded, new=embedded.new + embed_pending(connection, encoder, progress, likely))
        if wants_graph(request):
            derived.update_graph(connection, progress)
        return make_report(connection, request, changes, embedded, started)


def make_report(
    connection: Connection,
    request: IndexRequest,
    changes: Sequence[Changes],
    embedded: EmbedCounts,
    started: float,
) -> IndexReport:
    """What a run did that began at this moment of `time.perf_counter()`."""
    counts = reading.counts(connection)
    return IndexReport(
        path=str(request.store),
        folders=tuple(folder.path for folder in reading.folders(connection)),
        added=sum(len(change.added) for change in changes),
        changed=sum(len(change.changed) for change in changes),
        moved=sum(change.moved for change in changes),
        removed=sum(len(change.removed) for change in changes),
        unchanged=sum(change.unchanged + len(change.touched) for change in changes),
        documents=counts.documents,
        sections=counts.sections,
        chunks=counts.chunks,
        embedded=embedded.new,
        prefixes="" if request.encoder else describe_prefixes(request.profile.encoder)[0],
        reused_vectors=embedded.reused,
        skipped=listing.skipped(connection),
        seconds=time.perf_counter() - started,
        snapshot=reading.snapshot_number(connection),
    )


def find_changes(
    connection: Connection,
    request: IndexRequest,
    listings: Mapping[str, Listing],
    progress: Progress,
    *,
    is_anew: bool,
) -> list[Changes]:
    """What changed in the folders of the index and the new ones, whose key is 0; everything, if it is made anew."""
    diffs = compare_folders(connection, request, listings, is_anew=is_anew)
    return [read_changes(diff, request.profile.documents.max_file_bytes, progress) for diff in diffs]


def compare_folders(
    connection: Connection, request: IndexRequest, listings: Mapping[str, Listing], *, is_anew: bool
) -> list[StatDiff]:
    """As `find_changes`, without a look into files.

    Raises:
        UsageError: a folder holds one that the index has already: its sections would be found twice.
    """
    stored = reading.folders(connection)
    for path in listings:
        if inner := next((folder.path for folder in stored if is_inside(folder.path, path)), None):
            hint = CommandHint(f"forget {inner} --index {request.store}", "take that out first, or name another index")
            raise UsageError(f"{path} holds {inner}, which this index has already", hint=hint)
    new = [StoredFolder(0, path, "") for path in listings if path not in {folder.path for folder in stored}]
    folders = name_folders_apart([*stored, *new])
    diffs = []
    for folder in folders:
        known = reading.documents(connection, folder.key)
        if is_anew:  # a digest that no content has: every document differs
            known = {path: document._replace(size=-1, digest="") for path, document in known.items()}
        try:
            listing = listings.get(folder.path)
            if listing is None:
                if folder.path not in read_named_folders(request.store).folders:
                    raise DocumentsError(explain_refusal([folder.path]))
                listing = list_known_folder(folder, known, request.profile.documents)
        except DocumentsError as error:
            if is_anew:
                raise DocumentsError(f"{error}; bring it back, or make another index with --index") from error
            # It may come back, so that what is known of it stays, and the report says so.
            reason = Skipped(".", f"the folder is kept as it was: {error}")
            diffs.append(StatDiff(folder, Listing((), (reason,)), (), (), (), (), unchanged=len(known)))
            continue
        diffs.append(detect_changes(folder, known, listing))
    return diffs


def is_inside(path: str, outer: str) -> bool:
    return path != outer and Path(path).is_relative_to(outer)


def is_other_model(connection: Connection, encoder: Encoder | None) -> bool:
    return encoder is not None and encoder.fingerprint != reading.meta(connection, "fingerprint")


def has_lost_texts(connection: Connection, request: IndexRequest) -> bool:
    """Return whether chunks lack a vector that they had: what is there is not made again."""
    fingerprint = reading.meta(connection, "fingerprint")
    return bool(request.docs and fingerprint and text_vectors.count_lost(connection, fingerprint))


def serves_another_model(connection: Connection, request: IndexRequest) -> bool:
    """Whether a server has another model behind the name by now; of local ones the index config knows."""
    # Ollama can bring another model under an old name; vectors of two models do not compare.
    asks_server = request.profile.encoder.kind in {"ollama", "openai"} and request.encoder is None
    if not asks_server or not request.docs:  # a question must not wait for it, `index` may
        return False
    try:
        return is_other_model(connection, open_encoder(request.profile.encoder))
    except EncoderError:
        return False  # if nothing is to be embedded, it is not needed


def wants_graph(request: IndexRequest) -> bool:
    """Return whether the graph of near vectors is brought up to date: where it is asked, or this writer's affair."""
    is_asked = request.profile.vector_search in APPROXIMATE
    return open_derived(request.store).wants_graph(is_asked=is_asked, is_due=request.with_chroma)


@contextmanager
def pause_collection() -> Iterator[None]:
    """Nothing is collected meanwhile: a tenth of the time where all that is made is kept, and holds no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@pause_collection()
def index_words_first(
    connection: Connection,
    request: IndexRequest,
    changes: Sequence[Changes],
    encoder: Encoder | None,
    progress: Progress,
    on_words: Callable[[], object],
) -> EmbedCounts:
    """A first index in two transactions: what answers by words, then the chunks, their texts marked as pending.

    Between the two, no settings are noted: who finds it like that reads everything anew.
    """
    parsed = parse_changes(changes, progress)
    nodes = list_nodes(parsed)
    with transaction(connection):
        write_documents(connection, request, changes, parsed, progress)
        fingerprint = encoder.fingerprint if encoder else ""
        open_derived(request.store).build(connection, fingerprint, None, with_graph=False, progress=progress)
        remember_settings(connection, request, is_whole=False)
    parsed = []
    if reading.counts(connection).sections > FEW_SECTIONS:
        on_words()
    texts: dict[bytes, str] = {}
    with transaction(connection):
        for chunks in cut_chunks(nodes, encoder, request.profile.chunks, progress):
            writing.put_chunks(connection, chunks)
            texts |= hash_texts(chunks) if encoder else {}
        missing = find_missing(connection, encoder, texts) if encoder else {}
        writing.put_pending(connection, fingerprint, missing)
        renew_background(connection, encoder)
        remember_settings(connection, request)
    return EmbedCounts(reused=len(texts) - len(missing))


def index_changes(
    connection: Connection,
    request: IndexRequest,
    changes: Sequence[Changes],
    encoder: Encoder | None,
    progress: Progress,
    *,
    is_anew: bool,
) -> EmbedCounts:
    """What changed since the state in force, which answers until all of it is embedded."""
    parsed = parse_changes(changes, progress)
    chunks = list(chain.from_iterable(cut_chunks(list_nodes(parsed), encoder, request.profile.chunks, progress)))
    texts, missing = hash_texts(chunks) if encoder else {}, {}
    if encoder is not None:
        missing = find_missing(connection, encoder, texts)
        embed_texts(connection, encoder, missing, progress)
    with transaction(connection):  # the new rows and the name of the snapshot that is made of them, or neither
        # Their keys are needed after the rows are gone: the postings are patched by them.
        removed = reading.rankable_keys(connection, [old.key for change in changes for old in change.replaced])
        derived = open_derived(request.store)
        can_patch = not is_anew and derived.is_whole(connection)
        new = write_documents(connection, request, changes, parsed, progress)
        writing.put_chunks(connection, chunks)
        # This is most of the memory in use, and the snapshot needs it.
        parsed, chunks = [], []
        fingerprint = encoder.fingerprint if encoder else ""
        if is_anew and encoder:
            writing.remove_other_models(connection, fingerprint)
        # `forget` may have removed vectors beside a worker, while no chunk had their texts.
        writing.put_pending(connection, fingerprint, find_missing(connection, encoder, texts) if encoder else {})
        difference = NodeChanges(removed, reading.rankable_keys(connection, new)) if can_patch else None
        with_graph = wants_graph(request)
        derived.build(connection, fingerprint, difference, with_graph=with_graph, progress=progress)
        renew_background(connection, encoder)
        remember_settings(connection, request)
    return EmbedCounts(len(missing), len(texts) - len(missing))


def parse_changes(changes: Sequence[Changes], progress: Progress) -> "list[dict[str, Document]]":
    """The new documents of each folder, by path."""
    parsed: list[dict[str, Document]] = []
    progress.start("parsing", sum(len(change.rows) for change in changes), "files")
    done = 0
    for change in changes:
        documents = {}
        for rows in (change.added, change.changed):
            for place, (stat, text) in enumerate(rows):
                assert text is not None  # nothing is parsed twice
                document = parse_document(stat.path, text.text, change.folder.prefix)
                if text.warnings:
                    document = replace(document, warnings=(*text.warnings, *document.warnings))
                documents[stat.path] = document
                rows[place] = stat, None  # the nodes have the text from here on
                done += 1
                progress.advance("parsing", done)
        parsed.append(documents)
    progress.finish("parsing")
    return parsed


def list_nodes(parsed: "Sequence[Mapping[str, Document]]") -> list[Node]:
    """All nodes of parsed documents, in their order."""
    return [placed.node for documents in parsed for item in documents.values() for placed in item.nodes]


def write_documents(
    connection: Connection,
    request: IndexRequest,
    changes: Sequence[Changes],
    parsed: "Sequence[Mapping[str, Document]]",
    progress: Progress,
) -> list[int]:
    """Replaces the rows of the changed documents, without their chunks; the keys of the new ones."""
    writing.remove_documents(connection, [document.key for change in changes for document in change.replaced])
    folders, new = note_files(connection, changes), []
    clear_queue(connection, changes)
    progress.start("writing", sum(len(change.rows) for change in changes), "files")
    for change, documents, folder in zip(changes, parsed, folders, strict=True):
        for stat in change.rows:
            document = documents[stat.path]
            new.append(writing.put_document(connection, folder.key, stat, document, names_of_nodes(document)))
            progress.advance("writing", len(new))
    for folder in folders:
        writing.set_link_targets(connection, folder)
    progress.finish("writing")
    return new


def note_files(connection: Connection, changes: Sequence[Changes]) -> list[StoredFolder]:
    """Keeps what was looked at and is no new content: folders, sizes and times, what cannot be read."""
    folders = []
    for change in changes:
        folder = change.folder if change.folder.key else writing.add_folder(connection, change.folder)
        writing.set_place(connection, folder)
        if not change.units:
            writing.set_stat(connection, change.touched)
            writing.set_skipped(connection, folder.key, change.unreadable, change.skipped)
        folders.append(folder)
    return folders


def clear_queue(connection: Connection, changes: Sequence[Changes]) -> None:
    """Take out what waits for workers in the folders that were looked at, as it was seen before; or what a worker did.

    Raises:
        TakenError: another process has indexed, or forgotten, what the worker had in hand.
    """
    for change in changes:
        if change.units:
            done = connection.executemany("DELETE FROM queue WHERE unit = ?", ((unit,) for unit in change.units))
            if done.rowcount < len(change.units):
                raise TakenError
        elif change.is_listed:
            writing.remove_queued(connection, change.folder.key, lambda _: True)


def remember_settings(connection: Connection, request: IndexRequest, *, is_whole: bool = True) -> None:
    """Keeps the settings: what is asked of this index later begins with them; the config of a whole index alone."""
    for key, value in request.remembered.items():
        if is_whole or key != "index_config":
            writing.set_meta(connection, key, value)
