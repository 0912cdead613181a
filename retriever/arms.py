"""The two arms: what the vectors find for a question, and what its words find."""

from collections.abc import Sequence
from dataclasses import dataclass

from retriever.mapping import ChunkHit, best_chunk, distance_and_rank, in_order, node_of
from retriever.open_index import View
from retriever.profile import Profile
from retriever.store import reading
from retriever.tokens import tokenize
from retriever.types import FloatMatrix, Ranked, Ranking


def dense_ranking(view: View, vectors: FloatMatrix, profile: Profile) -> Ranking:
    """The sections of the nearest chunks of a question.

    Args:
        view: the index.
        vectors: (1, d) float32, the question's.
        profile: how many chunks, and how a section's score is made of theirs.
    """
    search = view.scan if profile.vector_search == "exact" else view.chroma
    (nearest,) = search.search(vectors, profile.vector_top_n)
    hits = _sections_of_chunks(view, nearest)
    if profile.node_evidence == "distance_and_rank":
        return Ranking("dense", "cosine / log2(1 + rank)", profile.dense_weight, distance_and_rank(hits))
    return Ranking("dense", "cosine", profile.dense_weight, best_chunk(hits))


def _sections_of_chunks(view: View, nearest: Sequence[tuple[int, float]]) -> list[tuple[str, ChunkHit]]:
    """(chunk key, cosine) -> (node id, chunk hit), in the same order."""
    stored = reading.chunks(view.connection, [key for key, _ in nearest])
    view.tree.load(chunk.document_key for chunk in stored.values())
    hits = []
    for key, similarity in nearest:
        hit = ChunkHit(stored[key].span, (), similarity)
        node = node_of(hit, view.tree.sections(stored[key].document_key))
        if node is not None:
            hits.append((node.id, hit))
    return hits


@dataclass(frozen=True, slots=True)
class LexicalEvidence:
    """What the words of a question found."""

    ranking: Ranking
    words: tuple[str, ...]
    """The question's words as BM25 reads them, each once, in its order."""
    coverage: float
    """Which share of the question, by the rarity of its words, the best section speaks of, 0 to 1."""


def lexical_ranking(view: View, question: str, profile: Profile) -> LexicalEvidence:
    """The sections that share words with the question, by BM25.

    A list that found little says little: under `lexical_weighting: evidence` its weight is multiplied by its coverage.
    """
    tokens = tokenize(question)
    found = view.lexical.search(tokens, profile.lexical_top_n).ranking
    best = view.lexical.coverage(tokens, [key for key, _ in found[:1]])
    coverage = max(best, default=0.0)
    known = reading.documents_of_nodes(view.connection, [key for key, _ in found])
    view.tree.load(document_key for _, document_key in known.values())
    items = in_order(Ranked(known[key][0], score) for key, score in found)
    weight = profile.lexical_weight * (coverage if profile.lexical_weighting == "evidence" else 1.0)
    return LexicalEvidence(Ranking("lexical", "bm25", weight, items), tuple(dict.fromkeys(tokens)), coverage)
