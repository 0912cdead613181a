"""Candidates become hits: their texts, snippets and citations."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from retriever.indexing.consent import FolderAccess
from retriever.lexical.tokens import tokenize
from retriever.searching.citations import Anchors, anchors_of
from retriever.searching.open_index import View
from retriever.settings.schema import Profile
from retriever.store import reading
from retriever.store.reading import StoredChunk
from retriever.text import cut, matched_chunk, snippet
from retriever.types import Candidate, Hit


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all hits of an answer are made with."""

    view: View
    profile: Profile
    words: Collection[str]
    """The question's, as BM25 reads them."""
    anchors: Anchors
    """What the disk says of the citations."""
    chunks: Mapping[str, Sequence[StoredChunk]]
    """By node id, in the order of the text."""


def build_hits(
    view: View, candidates: Sequence[Candidate], words: Collection[str], profile: Profile
) -> tuple[Hit, ...]:
    """The hits of the candidates, in their order."""
    ids = [candidate.node_id for candidate in candidates]
    view.tree.load_nodes(ids)
    chunks: dict[str, list[StoredChunk]] = {node_id: [] for node_id in ids}
    for chunk in reading.chunks_of_nodes(view.connection, ids):
        chunks[chunk.node_id].append(chunk)
    keys = {view.tree.document_key(node_id) for node_id in ids}
    anchors = anchors_of(view.connection, keys, FolderAccess.of(view.index, profile.documents))
    around = Surroundings(view, profile, words, anchors, chunks)
    return tuple(_hit(rank, candidate, around) for rank, candidate in enumerate(candidates, start=1))


def _hit(rank: int, candidate: Candidate, around: Surroundings) -> Hit:
    node = around.view.tree.node(candidate.node_id)
    assert node.span is not None, "only nodes with lines are ranked"
    text = cut(node.text, around.profile.final_text_chars)
    chunk = matched_chunk(candidate, around.chunks[candidate.node_id], around.words, tokenize)
    document_key = around.view.tree.document_key(node.id)
    anchor = around.anchors.anchor(document_key, node.span, node.text)
    return Hit(
        rank=rank,
        node_id=node.id,
        folder=around.anchors.folders[document_key],
        file=node.path,
        span=anchor.span,
        title=node.title,
        breadcrumb=node.breadcrumb,
        snippet=snippet(chunk.text if chunk else "", around.words, tokenize),
        summary=cut(node.summary, around.profile.final_summary_chars),
        text=text,
        text_cut=text != node.text,
        score=candidate.score,
        scale=candidate.scale or around.profile.fusion.method,
        evidence=candidate.evidence,
        citation_state=anchor.state,
    )
