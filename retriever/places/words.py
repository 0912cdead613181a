"""The words of sections, of which an index derives what searches need: one reading of them for every place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from retriever.lexical.languages import READ, detect_language, mark_language
from retriever.lexical.properties import mark_property, tokenize_properties
from retriever.lexical.tokens import tokenize
from retriever.store import reading
from retriever.store.database import Connection
from retriever.types import Progress

SEARCHED_FIELDS = frozenset({"aliases", "tags"})  # of the front matter; titles have every section already
SECTIONS_AT_ONCE = 100  # are read between two words on the progress
Stored = TypeVar("Stored", reading.StoredNode, reading.OutlineNode)


@dataclass(frozen=True, slots=True)
class SearchedText:
    """The texts of a node whose words are searched."""

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


def tokenize_texts(texts: Mapping[int, SearchedText], progress: Progress) -> dict[int, list[str]]:
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
