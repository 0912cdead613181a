"""Candidates become hits: their texts, snippets and citations."""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pageindex.node import Node
from retriever.indexing.consent import FolderAccess
from retriever.indexing.snapshot import SEARCHED_FIELDS, find_reader
from retriever.lexical.tokens import tokenize
from retriever.searching.citations import open_anchors
from retriever.searching.open_index import View
from retriever.settings.schema import DocumentSettings, FusionSettings
from retriever.store import reading
from retriever.store.reading import StoredChunk
from retriever.text import cut, snippet
from retriever.types import Candidate, Hit, Source


@dataclass(frozen=True, slots=True)
class HitSettings:
    """How hits are shown: fields of a profile, by their names there."""

    final_text_chars: int
    final_summary_chars: int
    documents: DocumentSettings
    fusion: FusionSettings


def build_hits(
    view: View, candidates: Sequence[Candidate], words: Collection[str], settings: HitSettings
) -> tuple[Hit, ...]:
    """The hits of the candidates, in their order.

    Args:
        view: the index.
        candidates: best first.
        words: the question's, as BM25 reads them.
        settings: how much of a section is shown.
    """
    ids = [candidate.node_id for candidate in candidates]
    view.tree.load_nodes(ids)
    chunks = read_chunks(view.connection, ids)
    keys = {node_id: view.tree.document_key(node_id) for node_id in ids}
    anchors = open_anchors(view.connection, set(keys.values()), FolderAccess.of(view.index, settings.documents))
    fields = reading.fields(view.connection, set(keys.values()))
    hits = []
    for rank, candidate in enumerate(candidates, start=1):
        node = view.tree.node(candidate.node_id)
        assert node.body_span is not None, "only nodes with lines are ranked"
        anchor = anchors.anchor(keys[node.id], node.body_span, node.body or node.text)
        chunk = find_matched_chunk(candidate, chunks[node.id], words)
        text = cut(node.body, settings.final_text_chars)
        hits.append(
            Hit(
                rank=rank,
                node_id=node.id,
                folder=anchors.folders[keys[node.id]],
                file=node.path,
                span=anchor.span,
                title=node.title,
                breadcrumb=node.breadcrumb,
                snippet=snippet(chunk.text if chunk else "", words, tokenize),
                summary=cut(node.summary, settings.final_summary_chars),
                text=text,
                text_cut=text != node.body,
                score=candidate.score,
                scale=candidate.scale or settings.fusion.method,
                evidence=candidate.evidence,
                matched_fields=find_matched_fields(view, node, fields.get(keys[node.id], ()), words),
                citation_state=anchor.state,
            )
        )
    return tuple(hits)


def find_matched_fields(
    view: View, node: Node, fields: Sequence[tuple[str, str]], words: Collection[str]
) -> tuple[tuple[str, str], ...]:
    """What of a document's front matter the scope names, or the question where the section is searched by it."""
    is_named = view.part.names_field if view.part is not None else None
    reader = find_reader(view.tree.sections(view.tree.document_key(node.id))) if fields else None
    return tuple(
        (key, value)
        for key, value in fields
        if (is_named and is_named(key, value))
        or (reader is node and key in SEARCHED_FIELDS and not set(words).isdisjoint(tokenize(value)))
    )


def read_chunks(connection: sqlite3.Connection, node_ids: Iterable[str]) -> dict[str, list[StoredChunk]]:
    """The chunks of each node, in the order of the text; an empty list for a node that has none."""
    chunks: dict[str, list[StoredChunk]] = {node_id: [] for node_id in node_ids}
    for chunk in reading.chunks_of_nodes(connection, chunks):
        chunks[chunk.node_id].append(chunk)
    return chunks


def find_matched_chunk(
    candidate: Candidate | Hit, chunks: Sequence[StoredChunk], words: Collection[str]
) -> StoredChunk | None:
    """The chunk of a section that the semantic search found, if it did; else the one with most of the words, if any."""
    matched = {item.matched for item in candidate.evidence if item.source is Source.SEMANTIC}
    found = [chunk for chunk in chunks if chunk.span in matched] or list(chunks)
    if len(found) < 2:  # tokenizing costs more than everything else here
        return found[0] if found else None
    return max(found, key=lambda chunk: len(set(words) & set(tokenize(chunk.text))))
