"""Candidates become hits: their texts, snippets and citations."""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from retriever.indexing.consent import FolderAccess
from retriever.lexical.tokens import tokenize
from retriever.searching.citations import open_anchors
from retriever.searching.open_index import View
from retriever.searching.reasons import find_question_words, list_reasons
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
    view: View, candidates: Sequence[Candidate], question: str, words: Collection[str], settings: HitSettings
) -> tuple[Hit, ...]:
    """The hits of the candidates, in their order.

    Args:
        view: the index.
        candidates: best first.
        question: as it was asked.
        words: the question's, as BM25 reads them.
        settings: how much of a section is shown.
    """
    ids = [candidate.node_id for candidate in candidates]
    beside = {item.via.node_id for candidate in candidates for item in candidate.evidence if item.via}
    view.tree.load_nodes([*ids, *beside])
    titles = {node_id: view.tree.node(node_id).title for node_id in beside}
    chunks = read_chunks(view.connection, ids)
    keys = {node_id: view.tree.document_key(node_id) for node_id in ids}
    anchors = open_anchors(view.connection, set(keys.values()), FolderAccess.of(view.index, settings.documents))
    hits = []
    for rank, candidate in enumerate(candidates, start=1):
        node = view.tree.node(candidate.node_id)
        assert node.span is not None, "only nodes with lines are ranked"
        anchor = anchors.anchor(keys[node.id], node.span, node.text)
        chunk = find_matched_chunk(candidate, chunks[node.id], words)
        text = cut(node.text, settings.final_text_chars)
        whole = "\n".join((*node.breadcrumb, node.title, node.text))
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
                text_cut=text != node.text,
                score=candidate.score,
                scale=candidate.scale or settings.fusion.method,
                evidence=candidate.evidence,
                words=find_question_words(question, words, whole),
                reasons=list_reasons(candidate.evidence, titles),
                citation_state=anchor.state,
            )
        )
    return tuple(hits)


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
