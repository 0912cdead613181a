"""One state of an index, as searches see it: its rows, and what it keeps of them.

Filters name documents by their folders, tags, days and fields, which are read once a state.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import compress
from pathlib import PurePosixPath
from typing import Self, TypeAlias

import numpy as np

from pageindex.node import Node
from retriever.embedding.vectors import VectorSearch
from retriever.lexical.bm25 import Bm25, IntArray
from retriever.lexical.sections import TEXT_FIELDS, find_days
from retriever.lexical.spelling import Spellings
from retriever.places import Store
from retriever.places.background import Background, read_background
from retriever.settings import APPROXIMATE, VectorChoice
from retriever.store import reading, text_vectors
from retriever.store.database import Connection, transaction
from retriever.store.reading import OutlineNode
from retriever.store.text_vectors import NearChunk
from retriever.store.writing import NODE_BITS
from retriever.types import FloatMatrix, Ranked

# Document keys to (key, value) of their front matter and tags.
Fields: TypeAlias = Mapping[int, Sequence[tuple[str, str]]]

MAX_CHOICES = 300  # of folders, and of tags, in a list to choose from


@dataclass(frozen=True)
class Choices:
    """The folders, tags, days and fields that filters can name."""

    folders: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Those of the most documents first."""
    properties: tuple[str, ...] = ()
    """`status=draft`, likewise."""


@dataclass(frozen=True)
class ScopedDocument:
    """The properties of a document that scopes ask for."""

    key: int
    path: str
    names: tuple[str, ...]
    """Paths that mean it: as it is indexed, as its ids have it, below the name of its folder."""
    title: str
    dated: int | None
    """Seconds since 1970: the date in its front matter."""
    mtime_ns: int
    """Of its file; 0 when it could not be trusted."""

    @cached_property
    def day(self) -> str:
        """`2024-05-01`: the date in its front matter, else in its path, else in its title, else its file's time.

        Of several the last, the most exact one of `2024/05/2024-05-01.md`; of a month its first day.
        """
        if self.dated is not None:
            with suppress(ValueError, OverflowError, OSError):
                return datetime.fromtimestamp(self.dated, UTC).date().isoformat()
        if days := find_days(self.path.rpartition(".")[0]) or find_days(self.title):
            return f"{days[-1]}-01"[:10]
        # A time that cannot be trusted was too young, or too old, when the file was read.
        return (date.fromtimestamp(self.mtime_ns / 1e9) if self.mtime_ns else date.today()).isoformat()


def list_choices(documents: Sequence[ScopedDocument], fields: Fields) -> Choices:
    """Return what a form offers."""
    pairs = (f"{key}={value}" for own in fields.values() for key, value in own if key not in TEXT_FIELDS)
    return Choices(
        tuple(list_document_folders(documents)[:MAX_CHOICES]),
        tuple(list_values(fields, "tags")[:MAX_CHOICES]),
        tuple(name for name, _ in Counter(pairs).most_common(MAX_CHOICES)),
    )


def list_document_folders(documents: Iterable[ScopedDocument]) -> list[str]:
    """Return the folders that hold documents, below those that were indexed; the outermost first.

    >>> paths = ("b/deep/x.md", "a/y.md", "z.md")
    >>> list_document_folders(ScopedDocument(0, path, (), "", None, 0) for path in paths)
    ['a', 'b', 'b/deep']
    """
    parents = {str(above) for item in documents for above in PurePosixPath(item.path).parents}
    return sorted(parents - {"."}, key=lambda path: (path.count("/"), path))


def list_values(fields: Fields, key: str) -> list[str]:
    """Return the values that a field has, those of the most documents first.

    >>> list_values({1: [("tags", "tea")], 2: [("tags", "mail"), ("tags", "tea"), ("status", "draft")]}, "tags")
    ['tea', 'mail']
    """
    counts = Counter(value for own in fields.values() for name, value in own if name == key)
    return [value for value, _ in counts.most_common()]


@dataclass(frozen=True)
class Part:
    """The part of an index that a scope leaves."""

    node_keys: IntArray
    """Of the sections that are left, ascending."""
    documents: int
    """How many documents have them."""

    def holds(self, node_keys: Sequence[int]) -> list[bool]:
        """Return for each node whether it is left."""
        found: list[bool] = np.isin(node_keys, self.node_keys).tolist()
        return found


# The tree of the documents that a search touches, read from the index as it is needed.


class StoredTree:
    """A tree that grows by whole documents, so that an answer costs what it touches, not what is indexed.

    What its methods say of a node never depends on what else has been loaded: a document comes with all its nodes, and
    folders, which would have to know all documents, are left out. Texts are those of `read` alone. Belongs to one
    snapshot; every method must be called in a snapshot of that.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._nodes: dict[str, OutlineNode] = {}
        self._families: dict[str, list[OutlineNode]] = {}  # the children of each node that has any
        self._sections: dict[int, list[OutlineNode]] = {}

    def load_nodes(self, node_ids: Iterable[str]) -> None:
        """Read the documents of these nodes that are not loaded yet."""
        new = [node_id for node_id in node_ids if node_id not in self._nodes]
        keys = reading.keys_of_nodes(self._connection, new) if new else {}
        documents = {key >> NODE_BITS for key in keys.values()}
        # A whole document at a time: its sections' places in the tree depend on one another, and on no other file.
        for node in reading.outlines(self._connection, documents) if documents else ():
            if node.parent_id is not None:  # before the node itself is known: none is below itself
                self._families.setdefault(self._nodes[node.parent_id].id, []).append(node)
            self._nodes[node.id] = node
            sections = self._sections.setdefault(node.document_key, [])
            if node.span:
                sections.append(node)

    def read(self, node_ids: Iterable[str]) -> dict[str, Node]:
        """Read the nodes with their texts, by their ids; they need not be loaded, and are not kept."""
        return reading.nodes(self._connection, node_ids)

    def sections(self, document_key: int) -> Sequence[OutlineNode]:
        """Return the nodes of a loaded document that have lines, in document order."""
        return self._sections[document_key]

    def document_key(self, node_id: str) -> int:
        """Return the key of the document that a loaded node belongs to."""
        return self._nodes[node_id].document_key

    def node(self, node_id: str) -> OutlineNode:
        """Return a loaded node."""
        return self._nodes[node_id]

    def holder(self, node_id: str) -> str:
        """Return the node that is shown for a loaded one: itself, where it has text of its own."""
        return self._nodes[node_id].holder_id or node_id

    def parent(self, node_id: str) -> OutlineNode | None:
        """Return the node that contains it; None for a file."""
        parent_id = self._nodes[node_id].parent_id
        return None if parent_id is None else self._nodes[parent_id]

    def children(self, node_id: str) -> Sequence[OutlineNode]:
        """Return the nodes that it contains, in document order."""
        return self._families.get(node_id, ())

    def siblings(self, node_id: str, count: int | None = None) -> Sequence[OutlineNode]:
        """Return the other children of its parent, nearest first, at most `count`; a file has none."""
        node = self._nodes[node_id]
        family = self._families[node.parent_id] if node.parent_id else [node]
        place = family.index(node)
        near = sorted(range(len(family)), key=lambda at: abs(at - place))
        return [family[at] for at in near[1:]][:count]


@dataclass
class View:
    """One state of an index; its parts are opened when they are first used."""

    connection: Connection
    """In a snapshot of that state."""
    state: reading.StoredState
    """The state in force."""
    store: Store
    """The index's place."""
    whole: Self | None = None
    """The whole index, where this is a part of it."""
    part: Part | None = None
    """The part of the index that may be found; None for all of it."""
    _graph: VectorSearch | None = field(default=None, init=False)

    def within(self, part: Part) -> Self:
        """Return a part of this state."""
        return replace(self, whole=self, part=part)

    @cached_property
    def documents(self) -> tuple[ScopedDocument, ...]:
        """All documents, by folder and path; scopes are decided by them."""
        rows = self.connection.execute(
            "SELECT prefix, folders.path, document_key, documents.path, title, dated, mtime_ns"
            " FROM documents JOIN folders USING (folder_key) ORDER BY folder_key, documents.path"
        )
        return tuple(
            ScopedDocument(key, path, (path, prefix + path, f"{PurePosixPath(folder).name}/{path}"), *rest)
            for prefix, folder, key, path, *rest in rows
        )

    @cached_property
    def fields(self) -> Fields:
        """The front matter and tags of all documents."""
        return reading.fields(self.connection, (document.key for document in self.documents))

    def are_allowed(self, node_ids: Sequence[str]) -> list[bool]:
        """Return for each node whether it may be found."""
        if self.part is None:
            return [True] * len(node_ids)
        keys = reading.keys_of_nodes(self.connection, node_ids)
        return self.part.holds([keys[node_id] for node_id in node_ids])

    def keep_allowed(self, items: Sequence[Ranked]) -> tuple[Ranked, ...]:
        """Return the items that may be found."""
        return tuple(compress(items, self.are_allowed([item.node_id for item in items])))

    @cached_property
    def tree(self) -> StoredTree:
        """The documents that searches touch."""
        return self.whole.tree if self.whole else StoredTree(self.connection)

    @cached_property
    def background(self) -> Background | None:
        """The cosines of questions on other topics; None without vectors."""
        return self.whole.background if self.whole else read_background(self.connection)

    @property
    def common(self) -> float:
        """The mean cosine of unrelated texts; 0 where it is not known."""
        return self.background.common if self.background else 0.0

    @cached_property
    def counts(self) -> reading.Counts:
        """How much there is of everything."""
        if self.whole and self.part:
            return replace(self.whole.counts, documents=self.part.documents, sections=len(self.part.node_keys))
        return reading.counts(self.connection)

    @cached_property
    def lexical(self) -> Bm25:
        """BM25 over the nodes that may be found."""
        if self.whole and self.part:
            return self.whole.lexical.restrict(self.part.node_keys)
        return Bm25(self.connection)

    @cached_property
    def spellings(self) -> Spellings:
        """The words of the documents."""
        return self.whole.spellings if self.whole else Spellings(self.connection)

    @cached_property
    def scan(self) -> VectorSearch:
        """The exact search among the vectors of all texts that may be found."""
        node_keys = self.part.node_keys if self.part else None
        return self.store.open_scan(self.connection, self.state, node_keys)

    @property
    def graph(self) -> VectorSearch | None:
        """As `Store.open_graph`; one that comes later is seen."""
        if self._graph is None:
            self._graph = self.store.open_graph(self.connection, self.state)
        return self._graph

    def find_nearest(self, vector: FloatMatrix, limit: int, how: VectorChoice) -> list[NearChunk]:
        """Return the chunks of the texts that are nearest to a question, best first, ties by node id, then by key.

        Args:
            vector: (1, d) float32, a unit vector or a mean of some.
            limit: how many texts at most.
            how: by a scan of all vectors, or by a graph of near ones.

        Raises:
            SnapshotError: the graph cannot be searched.
        """
        # Of a part, a graph would find too few: those that lie on the way to others are left out.
        graph = self.graph if self.part is None and how in APPROXIMATE else None
        nearest = (graph or self.scan).search(vector, limit)
        rows = reading.select(self.connection, text_vectors.NEAR_TEXTS, nearest, self.state.fingerprint)
        return text_vectors.near_chunks(rows, vector, self.common)

    def close(self) -> None:
        """Release what was opened."""
        if self._graph is not None:
            self._graph.close()


class OpenIndex:
    """Follows the index through its states, and to another one in its place; used by one thread at a time.

    Raises:
        NoIndexError: there is no index in that folder.
        IndexUnusableError: or one of its other kinds.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._connection = store.open()
        self._identity = store.identify()
        self._view: View | None = None

    @contextmanager
    def view(self) -> Iterator[View]:
        """Yield one consistent state, whatever a writer does meanwhile.

        Raises:
            IndexDamagedError: the rows contradict one another.
            NoIndexError: the index was moved away.
        """
        now = self.store.identify()
        if now != self._identity:  # another index is in its place: one may be moved away and made again
            self._close_view()
            connection = self.store.open()
            self._connection.close()
            self._connection, self._identity = connection, now
        with self.store.explain_errors(), transaction(self._connection, "DEFERRED"):
            # Read inside the transaction: what is in force may be another one by the next statement.
            state = reading.read_state(self._connection)
            if self._view is None or self._view.state != state:
                self._close_view()
                self._view = View(self._connection, state, self.store)
            yield self._view

    def close(self) -> None:
        """Close the files."""
        self._close_view()
        self._connection.close()

    def _close_view(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None
