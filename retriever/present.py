"""Candidates become hits: their texts, snippets and citations."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from retriever.open_index import View
from retriever.passages import best_passage, cut, snippet
from retriever.profile import Profile
from retriever.store import reading
from retriever.store.reading import StoredChunk
from retriever.tokens import tokenize
from retriever.types import Candidate, Hit

SCALE = "rrf"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all hits of an answer are made with."""

    view: View
    profile: Profile
    words: Collection[str]
    """The question's, as BM25 reads them."""
    folders: Mapping[int, str]
    """By document key."""
    chunks: Mapping[str, Sequence[StoredChunk]]
    """By node id, in the order of the text."""


def hits_of(view: View, candidates: Sequence[Candidate], words: Collection[str], profile: Profile) -> tuple[Hit, ...]:
    """The hits of the candidates, in their order."""
    ids = [candidate.node_id for candidate in candidates]
    view.tree.load_nodes(ids)
    chunks: dict[str, list[StoredChunk]] = {node_id: [] for node_id in ids}
    for chunk in reading.chunks_of_nodes(view.connection, ids):
        chunks[chunk.node_id].append(chunk)
    folders = reading.folder_of(view.connection, (view.tree.document_key(node_id) for node_id in ids))
    around = Surroundings(view, profile, words, folders, chunks)
    return tuple(_hit(rank, candidate, around) for rank, candidate in enumerate(candidates, start=1))


def _hit(rank: int, candidate: Candidate, around: Surroundings) -> Hit:
    node = around.view.tree.node(candidate.node_id)
    assert node.span is not None, "only nodes with lines are ranked"
    text = cut(node.text, around.profile.final_text_chars)
    return Hit(
        rank=rank,
        node_id=node.id,
        folder=around.folders[around.view.tree.document_key(node.id)],
        file=node.path,
        span=node.span,
        title=node.title,
        breadcrumb=node.breadcrumb,
        snippet=snippet(_passage(candidate, around), around.words, tokenize),
        summary=cut(node.summary, around.profile.final_summary_chars),
        text=text,
        text_cut=text != node.text,
        score=candidate.score,
        scale=SCALE,
        evidence=candidate.evidence,
    )


def _passage(candidate: Candidate, around: Surroundings) -> str:
    """The chunk that the dense arm found, if it did; else the one with most of the question's words."""
    chunks = around.chunks[candidate.node_id]
    lines = {piece.origin for piece in candidate.evidence if piece.arm == "dense"}
    found = [chunk.text for chunk in chunks if str(chunk.span) in lines] or [chunk.text for chunk in chunks]
    return found[0] if len(found) == 1 else best_passage(found, around.words, tokenize)
