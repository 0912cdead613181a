"""Documents and sections by their names, and what indexing found wrong with them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from retriever.store.database import Connection
from retriever.store.reading import GIVEN, StoredDocument, read_titles, select


@dataclass(frozen=True, slots=True)
class DocumentName:
    """A document and what it is called."""

    key: int
    node_id: str
    """Of its file."""
    folder: str
    """Absolute."""
    path: str
    """Relative to `folder`."""
    title: str
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SectionName:
    """A section and what it is called."""

    key: int
    """Of its document."""
    node_id: str
    title: str
    anchor: str
    breadcrumb: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CitedDocument:
    """A document as it was indexed, and how its file is cited."""

    document: StoredDocument
    folder: str
    """Absolute."""
    name: str
    """Its id: its path in the folder, after the folder's prefix."""


def document_names(connection: Connection) -> list[DocumentName]:
    """What each document is called, by folder and path."""
    rows = connection.execute(
        "SELECT document_key, prefix || documents.path, folders.path, documents.path, title, aliases"
        " FROM documents JOIN folders USING (folder_key) ORDER BY folder_key, documents.path"
    )
    return [
        DocumentName(key, node_id, folder, path, title, tuple(json.loads(names)))
        for key, node_id, folder, path, title, names in rows
    ]


def section_names(connection: Connection, document_key: int | None = None) -> list[SectionName]:
    """What the sections of one document are called, or of all; each document's in their order."""
    query = "SELECT document_key, node_id, title, anchor, breadcrumb FROM nodes WHERE kind = 'section'"
    if document_key is None:
        rows = connection.execute(f"{query} ORDER BY document_key, node_key")
    else:
        rows = connection.execute(f"{query} AND document_key = ? ORDER BY node_key", (document_key,))
    return [
        SectionName(key, node_id, title, anchor, read_titles(breadcrumb))
        for key, node_id, title, anchor, breadcrumb in rows
    ]


def cited_documents(connection: Connection, document_keys: Iterable[int]) -> Iterator[CitedDocument]:
    """These documents, in any order; `retriever.looking.references` reads their names back."""
    query = (
        "SELECT document_key, documents.path, size, mtime_ns, digest, ctime_ns, inode, folders.path, prefix"
        f" FROM documents JOIN folders USING (folder_key) WHERE document_key {GIVEN}"
    )

    def read(row: tuple[Any, ...]) -> CitedDocument:
        *stored, folder, prefix = row
        document = StoredDocument._make(stored)
        return CitedDocument(document, folder, prefix + document.path)

    return map(read, select(connection, query, document_keys))


def skipped(connection: Connection) -> tuple[tuple[str, str], ...]:
    """What was left out, as ids are written, and why."""
    query = "SELECT prefix || skipped.path, reason FROM skipped JOIN folders USING (folder_key)"
    return tuple(connection.execute(f"{query} ORDER BY folder_key, skipped.path"))


def warnings(connection: Connection) -> tuple[tuple[str, str], ...]:
    """Ids of documents, and what of each is not as it should be."""
    query = "SELECT prefix || documents.path, warnings FROM documents JOIN folders USING (folder_key)"
    rows = connection.execute(f"{query} WHERE warnings <> '[]' ORDER BY folder_key, documents.path")
    return tuple((path, warning) for path, warnings in rows for warning in json.loads(warnings))


def broken_links(connection: Connection) -> tuple[tuple[str, int, str, str], ...]:
    """(id of the document, line, target as written, why) of each link that leads nowhere, by path and line."""
    rows = connection.execute(
        "SELECT prefix || documents.path, line, target_path, target_anchor, problem FROM links"
        " JOIN nodes ON nodes.node_key = source_key JOIN documents USING (document_key) JOIN folders USING (folder_key)"
        " WHERE problem IS NOT NULL ORDER BY documents.path, folder_key, line, position"
    )
    return tuple((path, line, f"{to}#{anchor}" if anchor else to, problem) for path, line, to, anchor, problem in rows)
