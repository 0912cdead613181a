"""What searches need beside the rows of an index, and of which words it is made: files of a snapshot, or tables.

In PostgreSQL tables hold the words of each document as rows of it, which go with their document. A question reads those
of its own words, in one snapshot of the database.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TypeVar

import numpy as np

from retriever.lexical import tokens as tokenizer
from retriever.lexical.bm25 import FORMAT
from retriever.lexical.languages import READ, READ_APART, detect_language, mark_language
from retriever.lexical.properties import mark_property, tokenize_properties
from retriever.lexical.spelling import list_words
from retriever.lexical.table_index import POSTING, encode_term, signed_letters
from retriever.lexical.tokens import tokenize
from retriever.protocols import Progress
from retriever.store import reading, writing
from retriever.store.database import Connection, transaction
from retriever.store.store import Store
from retriever.trace import NoProgress

NO_PROGRESS = NoProgress()
SEARCHED_FIELDS = frozenset({"aliases", "tags"})  # of the front matter; titles have every section already
SECTIONS_AT_ONCE = 100  # are read between two words on the progress
Stored = TypeVar("Stored", reading.StoredNode, reading.OutlineNode)
VERSION = f"{FORMAT} {tokenizer.RULES}"
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
        """Remove states that nobody uses any more."""
        return

    def list_old(self, current: int) -> list[str]:
        """Return the files that may still hold what was deleted, because another process reads them."""
        return []

    def examine(self, connection: Connection) -> Iterator[tuple[str, str]]:
        """Compare it with the rows; yield what was looked at, and what is wrong with it, if anything."""
        yield from ()


def open_derived(store: Store) -> Derived:
    """Return what is derived from the rows of a store."""
    if store.is_shared:
        return DerivedTables()
    from retriever.indexing.snapshot import DerivedFiles  # which is one, too

    return DerivedFiles(store.folder)


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
    """Keys and values of the front matter that is searched with it."""

    @property
    def written(self) -> str:
        """All of it, to tell words from slips by."""
        return "\n".join((self.text, *map(" ".join, self.properties)))


def read_texts(connection: Connection, documents: Sequence[int] | None = None) -> dict[int, SearchedText]:
    """What is read of the words of each node that has lines, by its key: title, breadcrumb, summary and own text.

    The front matter is no text: the file's other names, its tags and properties are read with its first node that has
    text.

    Args:
        connection: to the rows.
        documents: the keys of those that are read; None for all.
    """
    fields = reading.fields(connection, documents)
    texts = {}
    nodes = reading.rankable_nodes(connection, documents and reading.rankable_keys(connection, documents))
    for document_key, group in groupby(nodes, key=lambda stored: stored.document_key):
        document = list(group)
        language = detect_language(
            "\n".join(f"{stored.node.title}\n{stored.node.body[:READ]}" for stored in document[:READ])
        )
        properties = fields.get(document_key, ())
        names = [value for key, value in properties if key in SEARCHED_FIELDS]
        reader = find_reader(document)
        for stored in document:
            node = stored.node
            read = (node.title, *node.breadcrumb, node.summary, node.body, *(names if stored is reader else ()))
            texts[stored.key] = SearchedText("\n".join(read), language, properties if stored is reader else ())
    return texts


def find_reader(nodes: Sequence[Stored]) -> Stored:
    """The node of a document that is searched by its other names and tags: the first with text, else the first."""
    return next((node for node in nodes if node.holder_id is None), nodes[0])


def tokenize_texts(texts: Mapping[int, SearchedText], progress: Progress = NO_PROGRESS) -> dict[int, list[str]]:
    """What BM25 reads of each node; a term that no text gives says its language, unless that is English."""
    tokens = {}
    progress.start("words", len(texts), "sections")
    for done, (key, item) in enumerate(texts.items(), start=1):
        languages = (item.language,) if item.language in READ_APART else ()
        tokens[key] = tokenize(item.text, languages)
        tokens[key] += map(mark_property, tokenize_properties(item.properties, languages))
        tokens[key] += [mark_language(item.language)] if item.language else []
        if not done % SECTIONS_AT_ONCE:
            progress.advance("words", done)
    progress.finish("words")
    return tokens


# In PostgreSQL.


class DerivedTables(Derived):
    """The postings of an index in PostgreSQL; the server keeps its graph of near vectors up to date."""

    def is_whole(self, connection: Connection) -> bool:
        """Return whether the postings were made by the rules of this version."""
        return reading.meta(connection, "lexical_version") == VERSION

    def build(
        self, connection: Connection, difference: Difference | None = None, progress: Progress = NO_PROGRESS
    ) -> int:
        """Write the words of new documents; those of documents that are gone went with their rows."""
        if difference is None:
            documents = list(reading.prefixes(connection))
            for table in ("postings", "words"):
                connection.execute(f"DELETE FROM {table}")
            writing.set_meta(connection, "lexical_version", VERSION)
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
        rows = ((document, own := encode_term(word), count, signed_letters(own)) for word, count in written.items())
        writing.insert(connection, "words", "document_key, word, sections, letters", rows)
