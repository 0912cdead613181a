"""Folders and an index -> an up-to-date index. Touches only what changed; the one place that writes documents.

The rows of changed documents and of their words are one transaction: whatever fails before leaves the index as it was.
From then on words answer. The texts that no vector is known of wait in the table `pending` until
they are embedded, a batch at a time: an interruption loses a few seconds of work, and the next run goes on.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from pageindex.corpus import Listing, UnreadableDocumentError, read_document
from pageindex.document import Document, parse_document
from retriever.embedding import open_bundled, open_encoder
from retriever.embedding.encoder import (
    bundled_tokens,
    choose_bundled,
    measure_foreign,
    unit_rows,
)
from retriever.errors import (
    EncoderError,
    StorageError,
)
from retriever.indexing.changes import (
    FolderChanges,
    describe_file,
    find_changes,
    isolate,
    list_folders,
)
from retriever.indexing.chunk import chunk_nodes
from retriever.indexing.request import IndexReport, IndexRequest, name_folders
from retriever.lexical.sections import names_of_nodes
from retriever.places import Store
from retriever.places.background import renew_background
from retriever.places.words import build_words
from retriever.settings import Profile
from retriever.store import reading, text_vectors, writing
from retriever.store.database import Connection, transaction
from retriever.store.writing import text_hash
from retriever.trace import NO_PROGRESS
from retriever.types import Chunk, Encoder, Progress

log = logging.getLogger(__name__)


def update_index(
    request: IndexRequest, progress: Progress = NO_PROGRESS, on_words: Callable[[], object] = lambda: None
) -> IndexReport:
    """Bring an index up to date with its folders; raises as `retriever.api.index_folders`.

    Args:
        request: the folders, and how.
        progress: told how far it is.
        on_words: called when the index answers by words, unless all texts are embedded soon; what it takes is waited
            for.
    """
    started = time.perf_counter()
    listings = list_folders(request.docs, request.profile.documents)  # an error here leaves no index behind
    with request.store.write(request.wait_s) as connection:
        if request.docs:
            name_folders(request.store, request.docs)
        encoder = choose_encoder(request, connection, listings)
        is_anew = reading.meta(connection, "index_config") != request.index_config
        if request.docs and not is_anew:
            with contextlib.suppress(EncoderError):  # if nothing is to be embedded, its server is not needed
                is_anew = is_other_model(connection, encoder)
        was_whole = not text_vectors.pending_count(connection)
        changes = find_changes(connection, request, is_anew=is_anew)
        has_changed = is_anew or any(map(len, changes))
        # A question does not make all vectors anew.
        if (has_changed or not was_whole) and not is_anew and is_other_model(connection, encoder):
            raise EncoderError("that name now belongs to another embedding model; index the documents again")
        with transaction(connection):
            for change in changes:
                change.folder = writing.put_folder(connection, change.folder)
                writing.set_stat(connection, change.touched)
            if has_changed:
                index_changes(connection, request, changes, encoder, progress, is_anew=is_anew)
            for change in changes:  # what could not be read before and looks unchanged is noted already
                same = {file.path for file in change.listing.files}.difference(file.path for file in change.differing)
                writing.set_skipped(connection, change.folder.key, change.unreadable, change.listing.skipped, same)
            for key, value in request.remembered.items():
                writing.set_meta(connection, key, value)
        embedded = 0
        if encoder and (request.embeds == "all" or (request.embeds == "changed" and was_whole)):
            if text_vectors.pending_count(connection) > TEXTS_AT_ONCE:
                on_words()
            embedded = embed_pending(connection, encoder, progress, request.store)
        request.store.finish(connection, progress, with_chroma=request.with_chroma)
        return make_report(connection, request, changes, embedded, started)


def make_report(
    connection: Connection,
    request: IndexRequest,
    changes: Sequence[FolderChanges],
    embedded: int,
    started: float,
) -> IndexReport:
    """Report what a run did that began at `started`, a moment of `time.perf_counter()`."""
    counts, state = reading.counts(connection), reading.read_state(connection)
    read = sum(len(change.differing) - len(change.unreadable) for change in changes)
    changed = sum(len(change.reread) for change in changes)
    return IndexReport(
        path=str(request.store),
        folders=state.folders,
        added=read - changed,
        changed=changed,
        removed=sum(len(change.gone) + len(change.outdated) for change in changes) - changed,
        unchanged=sum(change.unchanged for change in changes),
        documents=counts.documents,
        sections=counts.sections,
        chunks=counts.chunks,
        embedded=embedded,
        skipped=reading.skipped(connection),
        seconds=time.perf_counter() - started,
        snapshot=state.snapshot,
    )


READ_FOR_LANGUAGE = 200  # documents, evenly from all


def choose_encoder(request: IndexRequest, connection: Connection, listings: Mapping[str, Listing]) -> Encoder | None:
    """Return the encoder of an index; for one without vectors, where none is named, the bundled one for its languages.

    A line of the log says so, where it is not the English one.
    """
    settings, made_by = request.profile.encoder, reading.meta(connection, "fingerprint")
    if request.encoder or made_by or settings.model or settings.kind != "onnx":
        return request.encoder or open_encoder(settings, made_by)
    files = [file for listing in listings.values() for file in listing.files]
    texts = list[str]()
    for file in files[:: -(-len(files) // READ_FOR_LANGUAGE) or 1]:
        with contextlib.suppress(UnreadableDocumentError), isolate(file.path):
            texts.append(read_document(file).text)
    foreign = measure_foreign(texts)
    chosen = choose_bundled(foreign)
    if chosen != "english":
        log.warning(
            "note: %.0f%% of the text is not in English: --encoder-model %s was chosen; another is english",
            100 * foreign,
            chosen,
        )
    return open_bundled(settings, chosen)


def is_other_model(connection: Connection, encoder: Encoder | None) -> bool:
    return encoder is not None and encoder.fingerprint != reading.meta(connection, "fingerprint")


def index_changes(
    connection: Connection,
    request: IndexRequest,
    changes: Sequence[FolderChanges],
    encoder: Encoder | None,
    progress: Progress,
    *,
    is_anew: bool,
) -> None:
    """Replace the rows of what changed, and those of its words, inside a transaction."""
    writing.remove_documents(connection, [old.key for change in changes for old in (*change.gone, *change.outdated)])
    fingerprint = encoder.fingerprint if encoder else ""
    if is_other_model(connection, encoder):
        writing.remove_other_models(connection, fingerprint)
    new = write_documents(connection, changes, request.profile, encoder, progress)
    writing.remove_stale_pending(connection, fingerprint)
    for change in changes:
        writing.set_link_targets(connection, change.folder)
    writing.set_meta(connection, "fingerprint", fingerprint)
    build_words(connection, None if is_anew else new, progress)
    renew_background(connection, encoder)


def write_documents(
    connection: Connection,
    changes: Sequence[FolderChanges],
    profile: Profile,
    encoder: Encoder | None,
    progress: Progress,
) -> list[int]:
    """Read the new and the different files one by one, and write their rows; return the keys of the documents.

    What cannot be read is noted in the changes.
    """
    new, done, total = list[int](), 0, sum(len(change.differing) for change in changes)
    progress.start("reading", total, "files")
    for change in changes:
        for file in change.differing:
            try:
                with isolate(file.path):
                    text = read_document(file)
                    document = parse_document(file.path, text.text, change.folder.prefix, change.folder.dialect)
                    document = replace(document, warnings=(*text.warnings, *document.warnings))
                    names = names_of_nodes(document)
                    chunks = chunk_document(document, encoder, profile.encoder.max_tokens)
            except UnreadableDocumentError as error:
                change.unreadable.append((describe_file(0, file, ""), error.reason))
            else:
                stat = describe_file(0, text.file, text.digest)  # younger, maybe, than what was listed
                new.append(writing.put_document(connection, change.folder.key, stat, document, names, chunks))
                if encoder is not None:  # `remove_stale_pending` removes those that have a vector
                    texts = (chunk.text for chunk in chain.from_iterable(chunks))
                    writing.put_pending(connection, {text_hash(text): text for text in texts})
            done += 1
            progress.advance("reading", done)
    progress.finish("reading")
    return new


def chunk_document(document: Document, encoder: Encoder | None, max_tokens: int) -> Sequence[Sequence[Chunk]]:
    """Cut the sections of a document into chunks of the encoder's length.

    Without an encoder the bundled model's tokens are counted: a later one will find chunks of a good length.
    """
    counter = encoder.count_tokens if encoder else bundled_tokens().count
    if encoder is not None:
        max_tokens = min(max_tokens, encoder.max_tokens)  # what is longer would not be read
    nodes = [placed.node for placed in document.nodes]
    chunks = chunk_nodes(nodes, counter, max_tokens)
    if len(nodes) > writing.MAX_NODES or max(map(len, chunks)) > writing.MAX_CHUNKS:
        limits = f"{writing.MAX_NODES:,} sections, or {writing.MAX_CHUNKS:,} chunks in one"
        raise UnreadableDocumentError(document.path, f"it has more than {limits}")
    return chunks


# Texts to vectors.

TEXTS_AT_ONCE = 256  # vectors are stored after each batch: an interruption loses a few seconds of work at most


def embed_pending(connection: Connection, encoder: Encoder, progress: Progress, store: Store) -> int:
    """Embed the texts that an index was committed without, batch by batch; return how many there were.

    Raises:
        StorageError: the index was deleted meanwhile: SQLite goes on writing to a file without a name.
    """
    done, total = 0, text_vectors.pending_count(connection)
    if total:
        progress.start("embedding", total, "texts")
    while batch := text_vectors.pending_texts(connection, TEXTS_AT_ONCE):
        if not store.exists():
            raise StorageError(f"the index {store} was deleted while its texts were embedded; index the folder again")
        embed_texts(connection, encoder, batch)
        done += len(batch)
        progress.advance("embedding", done)
    if total:
        progress.finish("embedding")
    return done


def embed_texts(connection: Connection, encoder: Encoder, texts: Mapping[bytes, str]) -> None:
    """Store the vectors of a few pending texts, by hash, in one transaction, if they are pending still."""
    vectors = unit_rows(encoder.encode_documents(list(texts.values())), len(texts), encoder.dimension)
    with transaction(connection):
        taken = writing.take_pending(connection, list(texts))
        rows = [row for row, key in enumerate(texts) if key in taken]
        writing.put_vectors(connection, encoder.fingerprint, [key for key in texts if key in taken], vectors[rows])
        renew_background(connection, encoder)
