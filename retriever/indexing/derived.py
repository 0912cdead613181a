"""What searches need beside the rows of an index, and of which words it is made: files of a snapshot, or tables.

A snapshot is a folder that is derived from index.sqlite and never changed once it is in force:

    snapshot-17/lexical/         BM25, always
    snapshot-17/spellings/       words as they are written, to correct typos by
    snapshot-17/manifest.json    sizes of the files of these two, and how many sections they have
    snapshot-17/chroma/          ChromaDB, with a manifest of its own that names the snapshot whose vectors these are

snapshot-17/ is made beside snapshot-16/, from it or from scratch; the transaction that holds the new documents names
the new snapshot. Whatever dies in between leaves snapshot-16 in force. An update that a question waits for leaves
ChromaDB out: searches do without it, and the next `index` makes it anew.

In PostgreSQL tables hold the words of each document as rows of it, which go with their document. A question reads those
of its own words, in one snapshot of the database.
"""

import contextlib
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from itertools import chain, groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np

from pageindex.corpus import read_file
from retriever.embedding.vectors import VectorIndex, write_vectors
from retriever.errors import SnapshotError
from retriever.lexical.bm25 import LexicalIndex, build_lexical
from retriever.lexical.languages import READ, detect_language, mark_language
from retriever.lexical.properties import mark_property, tokenize_properties
from retriever.lexical.spelling import Spellings, build_spellings, list_words
from retriever.lexical.table_index import POSTING, encode_term
from retriever.lexical.tokens import tokenize
from retriever.protocols import Progress
from retriever.store import Store, reading, text_vectors, writing
from retriever.store.database import Connection, transaction
from retriever.store.files import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    READERS_NAME,
    Manifest,
    is_read,
    list_snapshots,
    next_snapshot,
    share_snapshot,
    sync,
    writing_to,
)
from retriever.trace import NoProgress

NO_PROGRESS = NoProgress()
SEARCHED_FIELDS = frozenset({"aliases", "tags"})  # of the front matter; titles have every section already
SECTIONS_AT_ONCE = 100  # are read between two words on the progress
Stored = TypeVar("Stored", reading.StoredNode, reading.OutlineNode)
DOCUMENTS_AT_ONCE = 500  # whose words are in memory


@dataclass(frozen=True, slots=True)
class Difference:
    """What went and came since the state before."""

    removed: Sequence[int]
    """Keys of sections."""
    documents: Sequence[int]
    """Keys of the new documents."""


class Derived(ABC):
    """What is derived from the rows; writing methods are for the one writer, inside its transaction."""

    @abstractmethod
    def is_whole(self, connection: Connection) -> bool:
        """Return whether what is in force can be used, and so patched."""

    @abstractmethod
    def build(
        self, connection: Connection, difference: Difference | None = None, progress: Progress = NO_PROGRESS
    ) -> int:
        """Derive the next state from the rows and put it in force; return its number.

        Args:
            connection: in the transaction that names the state.
            difference: what is new since the state in force; None to derive everything anew.
            progress: told how far it is.

        Raises:
            StorageError: it cannot be written.
            SnapshotError: what was made does not add up.
        """

    def update_graph(self, connection: Connection, progress: Progress = NO_PROGRESS) -> None:
        """Bring the graph of near vectors to the state in force, outside of a transaction."""
        return

    def remove_old(self, current: int) -> None:
        """Remove states that no reader uses any more."""
        return

    def list_old(self, current: int) -> list[str]:
        """Return the files that may still hold what was deleted, because another process reads them."""
        return []

    def examine(self, connection: Connection) -> Iterator[tuple[str, SnapshotError | None]]:
        """Compare it with the rows; yield what was looked at, and why it cannot be used, if so."""
        yield from ()


def open_derived(store: Store) -> Derived:
    """Return what is derived from the rows of a store."""
    return DerivedTables() if store.is_shared else DerivedFiles(store.folder)


def renew_derived(store: Store, wait_s: float = 0.0) -> int:
    """Make anew what is derived from the rows, for which nothing is embedded; return the number of the new state."""
    derived = open_derived(store)
    with store.write(wait_s) as connection:
        with transaction(connection):
            number = derived.build(connection)
        derived.remove_old(number)
    return number


# The words of sections.


@dataclass(frozen=True, slots=True)
class SearchedText:
    """What is read of the words of a node."""

    text: str
    language: str
    """Of its document (`detect_language`)."""
    properties: Sequence[tuple[str, str]] = ()
    """Keys and values of the front matter that is searched with it, and its path."""

    @property
    def written(self) -> str:
        """All of it, to tell words from typos by."""
        return "\n".join((self.text, *map(" ".join, self.properties)))


def read_texts(connection: Connection, documents: Sequence[int]) -> dict[int, SearchedText]:
    """Read what is searched of each node that has lines, by its key: title, breadcrumb, summary and own text.

    The front matter is no text: the file's other names, its tags and properties are read with its first node that has
    text.
    """
    fields = reading.fields(connection, documents)
    texts = {}
    nodes = (stored for stored in reading.nodes_of_documents(connection, documents) if stored.node.span)
    for document_key, group in groupby(nodes, key=lambda stored: stored.document_key):
        document = list(group)
        language = detect_language(
            "\n".join(f"{stored.node.title}\n{stored.node.searched_body[:READ]}" for stored in document[:READ])
        )
        properties = fields.get(document_key, ())
        names = [value for key, value in properties if key in SEARCHED_FIELDS]
        reader = find_reader(document)
        for stored in document:
            node = stored.node
            read = (
                node.title,
                *node.breadcrumb,
                node.summary,
                node.searched_body,
                *(names if stored is reader else ()),
            )
            own = properties if stored is reader else ()
            texts[stored.key] = SearchedText("\n".join(read), language, (*own, ("", node.path.rpartition(".")[0])))
    return texts


def find_reader(nodes: Sequence[Stored]) -> Stored:
    """Return the node of a document that its other names and tags belong to: the first with text, else the first."""
    return next((node for node in nodes if node.holder_id is None), nodes[0])


def tokenize_texts(texts: Mapping[int, SearchedText], progress: Progress = NO_PROGRESS) -> dict[int, list[str]]:
    """Return what BM25 reads of each node; a term that no text gives says its language, unless that is English."""
    tokens = {}
    progress.start("words", len(texts), "sections")
    for done, (key, item) in enumerate(texts.items(), start=1):
        languages = (item.language,) if item.language else ()
        tokens[key] = tokenize(item.text, languages)
        tokens[key] += map(mark_property, tokenize_properties(item.properties, languages))
        tokens[key] += map(mark_language, languages)
        if not done % SECTIONS_AT_ONCE:
            progress.advance("words", done)
    progress.finish("words")
    return tokens


# In a folder.

# A change of more than this share is made from scratch: patching costs more.
REBUILD_SHARE = 0.3
CHROMA = "chroma"  # the folder in a snapshot


class Snapshot:
    """An open snapshot: its parts are opened when they are first used, and shared with no other process.

    The folder of another snapshot under its name is told by the `manifest_hash`. Raises SnapshotError when it is not
    there, not whole, or was not made by this version.
    """

    def __init__(self, index: Path, number: int, manifest_hash: str) -> None:
        self.number = number
        self.folder = locate_snapshot(index, number)
        self.manifest_hash = manifest_hash
        try:
            with contextlib.ExitStack() as stack:
                # Locked before anything is read: a writer removes no snapshot that somebody holds.
                stack.enter_context(share_snapshot(self.folder))
                if hash_manifest(self.folder) != manifest_hash:
                    raise SnapshotError(f"{self.folder} is not what index.sqlite names")
                self.manifest = Manifest.read(self.folder)
                self.manifest.check(self.folder)
                self._opened = stack.pop_all()
        except OSError as error:
            raise SnapshotError(f"{self.folder} cannot be opened: {error.strerror}") from error

    @cached_property
    def lexical(self) -> LexicalIndex:
        return LexicalIndex.open(self.folder / "lexical")

    @cached_property
    def spellings(self) -> Spellings:
        """The words of the documents as they are written."""
        return Spellings.open(self.folder / "spellings")

    @cached_property
    def vectors(self) -> VectorIndex:
        """The chunks' vectors in ChromaDB; SnapshotError when they are damaged, or not of this snapshot."""
        vectors = VectorIndex(self.folder / CHROMA, self.manifest.fingerprint, self.manifest_hash)
        return self._opened.enter_context(contextlib.closing(vectors))

    def close(self) -> None:
        """Let the snapshot be removed once it is out of force."""
        self._opened.close()


def locate_snapshot(index: Path, number: int) -> Path:
    return index / f"snapshot-{number}"


def hash_manifest(folder: Path) -> str:
    """Return the SHA-256 of a snapshot's manifest, which names the snapshot."""
    return sha256(read_file(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES)).hexdigest()


def build_words(connection: Connection, folder: Path, progress: Progress) -> None:
    """Build the spellings and the postings of all sections."""
    texts = read_texts(connection, list(reading.prefixes(connection)))
    progress.start("spellings", 1, "steps")
    build_spellings(folder / "spellings", {key: item.written for key, item in texts.items()})
    progress.finish("spellings")
    tokens = tokenize_texts(texts, progress)
    del texts  # as large as the documents, and what is made of the tokens is larger
    build_lexical(folder / "lexical", tokens)


def has_chroma(index: Path, number: int, manifest_hash: str) -> bool:
    """Return whether the snapshot's ChromaDB exists and is of no older snapshot, without opening it."""
    try:
        return Manifest.read(locate_snapshot(index, number) / CHROMA).snapshot == manifest_hash
    except SnapshotError:
        return False


def settle(folder: Path) -> None:
    """Write a folder through to the disk, for this user alone: ChromaDB and numpy obey the umask."""
    with writing_to(folder):
        for path in folder.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        for path in [*folder.rglob("*"), folder, folder.parent]:  # the commit that names them must not be older
            sync(path)


class DerivedFiles(Derived):
    """The snapshots of an index in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_whole(self, connection: Connection) -> bool:
        """Return whether the snapshot in force can be opened."""
        try:
            number, manifest_hash = reading.snapshot_number(connection), reading.manifest_hash(connection)
            Snapshot(self._folder, number, manifest_hash).close()
        except SnapshotError:
            return False
        return True

    def build(
        self, connection: Connection, difference: Difference | None = None, progress: Progress = NO_PROGRESS
    ) -> int:
        """Make the next snapshot, out of the one in force where most of that can stay."""
        current = reading.snapshot_number(connection)
        number = max(current + 1, next_snapshot(self._folder))  # a name that nothing has
        folder, previous = locate_snapshot(self._folder, number), locate_snapshot(self._folder, current)
        with writing_to(folder):
            folder.mkdir(mode=0o700)
            (folder / READERS_NAME).touch(mode=0o600)
        try:
            if difference is None:
                raise SnapshotError("there is nothing to patch")
            manifest = Manifest.read(previous)
            added = read_texts(connection, difference.documents)
            if len(difference.removed) + len(added) > REBUILD_SHARE * manifest.count:
                raise SnapshotError("too much has changed")
            manifest.check(previous)
            removed, tokens = difference.removed, tokenize_texts(added)
            build_lexical(folder / "lexical", tokens, previous / "lexical", removed)
            written = {key: item.written for key, item in added.items()}
            build_spellings(folder / "spellings", written, previous / "spellings", removed)
        except (OSError, SnapshotError):  # the older one cannot be used, and nothing of it is needed
            for part in ("lexical", "spellings"):
                shutil.rmtree(folder / part, ignore_errors=True)
            build_words(connection, folder, progress)
        fingerprint = reading.meta(connection, "fingerprint") or ""
        Manifest("", fingerprint, len(LexicalIndex.open(folder / "lexical"))).write(folder)
        with writing_to(folder):
            manifest_hash = hash_manifest(folder)
        settle(folder)
        writing.set_meta(connection, "snapshot", str(number))
        writing.set_meta(connection, "manifest_hash", manifest_hash)
        return number

    def update_graph(self, connection: Connection, progress: Progress = NO_PROGRESS) -> None:
        """Bring ChromaDB to the snapshot in force, out of an older folder of it where most of that can stay."""
        number, manifest_hash = reading.snapshot_number(connection), reading.manifest_hash(connection)
        fingerprint = reading.meta(connection, "fingerprint") or ""
        place = locate_snapshot(self._folder, number)
        if not number or not fingerprint or text_vectors.pending_count(connection):  # it would lack the ones to come
            return
        if not place.is_dir() or has_chroma(self._folder, number, manifest_hash):
            return
        keys = text_vectors.distinct_keys(connection, fingerprint)
        dimension = text_vectors.dimension(connection, fingerprint) or 0
        manifest = Manifest(manifest_hash, fingerprint, len(keys), dimension)
        older = [folder / CHROMA for folder in list_snapshots(self._folder) if (folder / CHROMA).is_dir()]
        load = partial(text_vectors.chunk_vectors, connection, fingerprint)
        progress.start("ordering", len(keys), "vectors")
        with (
            writing_to(place),
            TemporaryDirectory(prefix=f"{CHROMA}.draft-", dir=place, ignore_cleanup_errors=True) as name,
        ):
            draft = Path(name, CHROMA)
            write_vectors(draft, manifest, keys, load, older[-1] if older else None)
            settle(draft)
            if (place / CHROMA).exists():
                shutil.rmtree(place / CHROMA)  # which follows no link
            draft.rename(place / CHROMA)
            sync(place)
        progress.finish("ordering")

    def remove_old(self, current: int) -> None:
        """Remove every snapshot but the current one, unless it is being read: the next writer tries again."""
        for older in list_snapshots(self._folder):
            if older != locate_snapshot(self._folder, current) and not is_read(older):
                shutil.rmtree(older, ignore_errors=True)

    def examine(self, connection: Connection) -> Iterator[tuple[str, SnapshotError | None]]:
        """Compare the snapshot in force with its manifest and with the rows."""
        number, manifest_hash = reading.snapshot_number(connection), reading.manifest_hash(connection)
        fingerprint, chroma = reading.meta(connection, "fingerprint"), locate_snapshot(self._folder, number) / CHROMA
        try:
            with contextlib.closing(Snapshot(self._folder, number, manifest_hash)) as snapshot:
                _check_count(snapshot.folder / "lexical", len(snapshot.lexical), reading.counts(connection).sections)
        except SnapshotError as error:
            yield "words", error
            return
        yield "words", None
        problem = None
        try:  # one of an older snapshot is made anew by the next `index`
            if fingerprint and chroma.exists() and Manifest.read(chroma).snapshot == manifest_hash:
                with contextlib.closing(VectorIndex(chroma, fingerprint, manifest_hash)) as vectors:
                    _check_count(chroma, len(vectors), len(text_vectors.distinct_keys(connection, fingerprint)))
        except SnapshotError as error:
            problem = error
        yield "vectors in ChromaDB", problem

    def list_old(self, current: int) -> list[str]:
        """Return the folders of the other snapshots."""
        return [str(path) for path in list_snapshots(self._folder) if path.name != f"snapshot-{current}"]


def _check_count(part: Path, found: int, wanted: int) -> None:
    if found != wanted:
        raise SnapshotError(f"{part} has {found:,} of {wanted:,}")


# In PostgreSQL.


class DerivedTables(Derived):
    """The postings of an index in PostgreSQL; the server keeps its graph of near vectors up to date."""

    def is_whole(self, connection: Connection) -> bool:
        """Return whether the postings were made once: they change with their rows."""
        return reading.snapshot_number(connection) > 0

    def build(
        self, connection: Connection, difference: Difference | None = None, progress: Progress = NO_PROGRESS
    ) -> int:
        """Write the words of new documents; those of documents that are gone went with their rows."""
        if difference is None:
            documents = list(reading.prefixes(connection))
            for table in ("postings", "words"):
                connection.execute(f"DELETE FROM {table}")
        else:
            documents = list(difference.documents)
        for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
            write_words(connection, documents[start : start + DOCUMENTS_AT_ONCE], progress)
        # Never the number of another state: what other processes keep of one, they keep by it.
        (number,) = connection.execute("SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)").fetchone()
        writing.set_meta(connection, "snapshot", str(number))
        return int(number)


def write_words(connection: Connection, documents: list[int], progress: Progress) -> None:
    """Write the words of documents, by their keys, in place of what was there: as BM25 reads them, and as written."""
    for table in ("postings", "words"):
        connection.executemany(f"DELETE FROM {table} WHERE document_key = ?", ((key,) for key in documents))
    texts = read_texts(connection, documents)
    tokens, words = tokenize_texts(texts, progress), list_words({key: item.written for key, item in texts.items()})
    of_documents: dict[int, list[int]] = {}
    for key in texts:
        of_documents.setdefault(key >> writing.NODE_BITS, []).append(key)
    for document, keys in of_documents.items():
        postings: dict[str, list[tuple[int, int, int]]] = {}
        for key in keys:
            for term, count in Counter(tokens[key]).items():
                postings.setdefault(term, []).append((key, count, len(tokens[key])))
        size = (len(keys), sum(len(tokens[key]) for key in keys), document)
        connection.execute("UPDATE documents SET sections = ?, length = ? WHERE document_key = ?", size)
        blocks = ((document, encode_term(term), np.array(held, POSTING).tobytes()) for term, held in postings.items())
        writing.insert(connection, "postings", "document_key, term, block", blocks)
        written = Counter(chain.from_iterable(words[key] for key in keys))
        rows = ((document, encode_term(word), count) for word, count in written.items())
        writing.insert(connection, "words", "document_key, word, sections", rows)
