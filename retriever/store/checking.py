"""Whether index.sqlite can be used: its pages, its tables, and whether each row reads as a search reads it.

Damage and other people's indexes are found by the same look, so nothing is checked again while a question is answered.
SQLite has no checksum of what it stores: a bit that flips inside a text or a number is not found.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from math import isfinite

from pageindex.links import LinkKind
from pageindex.node import NodeKind, Span, file_id
from retriever.store import reading, text_vectors
from retriever.store.connection import Connection
from retriever.store.database import MAX_CHARS
from retriever.store.reading import StoredNode

YEARS_S = (-62_135_596_800, 253_402_300_799)  # seconds since 1970 of the years 1 to 9999, which a date can have


def find_damage(connection: Connection) -> Iterator[str]:
    """Yield everything that is wrong, a clause each; nothing for an index that can be used. Reads all of it."""
    try:
        broken = list(connection.find_broken_pages())
        yield from broken
        if broken:
            return
        for table, read in _READERS.items():
            try:
                read(connection)
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
                yield f"a row of {table} makes no sense: {error}"[:MAX_CHARS]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        yield str(error)


def _read_meta(connection: Connection) -> None:
    reading.snapshot_number(connection)
    for key in ("settings", "documents"):
        dict(json.loads(reading.meta(connection, key) or "{}").items())
    json.loads(reading.meta(connection, "index_config") or "null")


def _read_backgrounds(connection: Connection) -> None:
    questions = set()
    for (content,) in connection.execute("SELECT content FROM backgrounds"):
        match json.loads(content):  # as `indexing.background` writes it
            case {"best": [*best], "total": sum_, "squares": squares, "fingerprint": str(), "chunks": int() as chunks}:
                questions.add(len(best))
                if chunks < 1 or len(questions) > 1 or not all(map(isfinite, (sum_, squares, *best))):
                    raise ValueError(content)
            case _:
                raise ValueError(content)


def _read_documents(connection: Connection) -> None:
    for aliases, warnings, boilerplate, mtime_ns, dated in connection.execute(
        "SELECT aliases, warnings, boilerplate, mtime_ns, dated FROM documents"
    ):
        for text in (aliases, warnings):
            if not all(isinstance(item, str) for item in json.loads(text)):
                raise ValueError(text)
        if not (
            0 <= boilerplate <= 1 and all(YEARS_S[0] <= time <= YEARS_S[1] for time in (mtime_ns // 10**9, dated or 0))
        ):
            raise ValueError(f"{boilerplate}, {mtime_ns}, {dated}")


def _read_sections(connection: Connection) -> None:
    """Read the nodes, each document a tree whose lines follow one another, and the chunks, each within its node."""
    prefixes, spans = reading.prefixes(connection), dict[int, Span | None]()
    document: list[StoredNode] = []
    for stored in reading.nodes_of_documents(connection, prefixes):
        if document and document[0].document_key != stored.document_key:
            _check_document(document, prefixes[document[0].document_key])
            document = []
        document.append(stored)
        spans[stored.key] = stored.node.span
    if document:
        _check_document(document, prefixes[document[0].document_key])
    for chunk in reading.chunks(connection, _keys(connection, "chunks", "chunk_key")).values():
        span = spans[chunk.node_key]
        if span is None or not span.first <= chunk.span.first <= chunk.span.last <= span.last:
            raise ValueError(f"chunk {chunk.key} has the lines {chunk.span} of {chunk.node_id}, which has {span}")


def _check_document(nodes: list[StoredNode], prefix: str) -> None:
    """Raise ValueError unless the first node is the file, each other one is below an earlier one, and lines fit."""
    above: set[str] = set()
    shown = {stored.node.id for stored in nodes if stored.node.span}
    lines = 0
    for stored in nodes:
        node = stored.node
        is_file = not above
        if (node.kind is NodeKind.FILE) != is_file or (stored.parent_id not in above and not is_file):
            raise ValueError(f"{node.id} is below no section that comes before it")
        if is_file and (stored.parent_id is not None or node.id != file_id(prefix, node.path)):
            raise ValueError(f"{node.id} is not the id of {node.path}")
        above.add(node.id)
        if not all(isinstance(title, str) for title in node.breadcrumb):
            raise ValueError(node.breadcrumb)
        if stored.holder_id is not None and stored.holder_id not in shown:
            raise ValueError(f"{stored.holder_id}, which is to be shown for {node.id}, has no lines")
        held = node.text.count("\n") + (not node.text.endswith("\n")) if node.text else 0
        if node.span and (node.span.first, node.span.last) != (lines + 1, lines + held):
            raise ValueError(f"{node.id} has the lines {node.span}, and a text of {held} after line {lines}")
        if not 0 <= node.front_matter_lines <= held or (held and not node.span):
            raise ValueError(f"{node.id} has a text of {held} lines, {node.front_matter_lines} of them front matter")
        lines += held


def _keys(connection: Connection, table: str, key: str) -> list[int]:
    return [found for (found,) in connection.execute(f"SELECT {key} FROM {table}")]


def _read_vectors(connection: Connection) -> None:
    for (fingerprint,) in connection.execute("SELECT DISTINCT fingerprint FROM vectors").fetchall():
        text_vectors.chunk_vectors(connection, fingerprint)


# By table, what reads every row of it.
_READERS: Mapping[str, Callable[[Connection], object]] = {
    "meta": _read_meta,
    "backgrounds": _read_backgrounds,
    "documents": _read_documents,
    "nodes or chunks": _read_sections,
    "links": lambda connection: [LinkKind(kind) for (kind,) in connection.execute("SELECT DISTINCT kind FROM links")],
    "vectors": _read_vectors,
}
