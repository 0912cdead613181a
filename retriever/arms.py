"""The two arms: what the vectors find for a question, and what its words find."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from retriever.mapping import ChunkHit, best_chunk, distance_and_rank, in_order, node_of
from retriever.open_index import View
from retriever.profile import Profile
from retriever.store import reading
from retriever.tokens import tokenize
from retriever.types import FloatMatrix, Ranked, Ranking


def dense_ranking(view: View, vectors: FloatMatrix, profile: Profile) -> Ranking:
    """The sections of the nearest chunks of a question; the evidence of each is its score beside the best one's.

    Args:
        view: the index.
        vectors: (1, d) float32, the question's.
        profile: how many chunks, and how a section's score is made of theirs.
    """
    search = view.scan if profile.vector_search == "exact" else view.chroma
    (nearest,) = search.search(vectors, profile.vector_top_n)
    hits = _sections_of_chunks(view, nearest)
    by_rank = profile.node_evidence == "distance_and_rank"
    items = _with_prior(view, distance_and_rank(hits) if by_rank else best_chunk(hits), profile)
    best = max((item.score for item in items), default=0.0)
    if profile.rank_weighting == "evidence":
        items = tuple(replace(item, evidence=max(0.0, item.score / best) if best > 0 else 1.0) for item in items)
    return Ranking("dense", "cosine / log2(1 + rank)" if by_rank else "cosine", profile.dense_weight, items)


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
    """Which share of the question, by the rarity of its words, the section that speaks of most covers, 0 to 1."""


def lexical_ranking(view: View, question: str, profile: Profile) -> LexicalEvidence:
    """The sections that share words with the question, by BM25; the evidence of each is its coverage.

    The coverage of a section is the share of the question that it speaks of, where each word weighs by its rarity.
    """
    tokens = tokenize(question)
    found = view.lexical.search(tokens, profile.lexical_top_n).ranking
    coverage = view.lexical.coverage(tokens, [key for key, _ in found])
    known = reading.documents_of_nodes(view.connection, [key for key, _ in found])
    view.tree.load(document_key for _, document_key in known.values())
    evidence = coverage if profile.rank_weighting == "evidence" else [1.0] * len(found)
    items = (Ranked(known[key][0], score, share) for (key, score), share in zip(found, evidence, strict=True))
    ranking = Ranking("lexical", "bm25", profile.lexical_weight, _with_prior(view, items, profile))
    return LexicalEvidence(ranking, tuple(dict.fromkeys(tokens)), max(coverage, default=0.0))


def _with_prior(view: View, items: Iterable[Ranked], profile: Profile) -> tuple[Ranked, ...]:
    """The items with their pages' priors in their scores, in their new order; a score below 0 stays as it is."""
    listed = list(items)
    keys = {item.node_id: view.tree.document_key(item.node_id) for item in listed}
    shares = reading.boilerplate(view.connection, set(keys.values()))
    priors = {node_id: 1.0 - profile.page_prior * shares[key] for node_id, key in keys.items()}
    return in_order(
        replace(item, score=item.score * (priors[item.node_id] if item.score > 0 else 1)) for item in listed
    )
