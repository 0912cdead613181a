"""The two arms: what the vectors find for a question, and what its words find."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from retriever.errors import SnapshotError
from retriever.lexical.tokens import tokenize
from retriever.query import Query
from retriever.searching.fusion import temporal_scores
from retriever.searching.late_interaction import max_similarities
from retriever.searching.mapping import ChunkHit, best_chunk, distance_and_rank, in_order, node_of
from retriever.searching.open_index import View
from retriever.searching.queries import average_vectors, weigh_words
from retriever.searching.question_words import measure_known, measure_together, read_form, split_words
from retriever.settings.schema import Profile
from retriever.store import queries as recorded
from retriever.store import reading, text_vectors
from retriever.store import reading as priors
from retriever.types import Candidate, FloatMatrix, QuestionForm, Ranked, Ranking, TokenBits
from retriever.vectors import uses_chroma

COSINE_TOLERANCE = 1e-3
"""What float32 and ChromaDB's own normalising may change of a cosine, with room: they differ by about 1e-7."""

TOGETHER_IN = 5
"""Sections in which the words of a question are looked for side by side: as many as the verdict is about."""


@dataclass(frozen=True, slots=True)
class DenseEvidence:
    """What the vector of a question found."""

    ranking: Ranking
    cosine: float | None
    """Of the nearest chunk, without any prior; None when there are no chunks."""


def dense_ranking(view: View, vectors: FloatMatrix, profile: Profile) -> DenseEvidence:
    """The sections of the nearest chunks of a question; the evidence of each is its score beside the best one's.

    Args:
        view: the index.
        vectors: (1, d) float32, the question's.
        profile: how many chunks, and how a section's score is made of theirs.
    """
    search = view.chroma if uses_chroma(profile.vector_search, view.counts.chunks) else view.scan
    (nearest,) = search.search(vectors, profile.vector_top_n)
    exact = _with_exact_cosines(view, vectors, nearest)
    if len(exact) < min(profile.vector_top_n, len(search)):  # a record that cannot be read is left out silently
        raise SnapshotError("some vectors cannot be read; index the documents again")
    hits = _sections_of_chunks(view, _near_enough(exact, profile), profile.vector_top_n)
    by_rank = profile.node_evidence == "distance_and_rank"
    items = _with_prior(view, distance_and_rank(hits) if by_rank else best_chunk(hits), profile)
    scale = "cosine / log2(1 + rank)" if by_rank else "cosine"
    ranking = Ranking("dense", scale, profile.semantic_weight, _by_best(items, profile))
    return DenseEvidence(ranking, exact[0][1] if exact else None)


def _with_exact_cosines(
    view: View, vectors: FloatMatrix, nearest: Sequence[tuple[int, float]]
) -> list[tuple[int, float]]:
    """The nearest chunks with the cosines of their stored vectors, best first, ties by key.

    ChromaDB's differ in the seventh digit by when a chunk came in, so that an index made step by step would rank some
    pairs otherwise than one made at once. And a bit that flipped in its files shows here.

    Raises:
        SnapshotError: ChromaDB's vectors are not those of the index.
    """
    keys, _, matrix = text_vectors.chunk_vectors(view.connection, view.fingerprint, [key for key, _ in nearest])
    # Summed row by row: a product of matrices may give equal rows results that differ in the last bit.
    cosines = (matrix.astype("float64") * vectors).sum(axis=1) if keys else []
    exact = dict(zip(keys, map(float, cosines), strict=True))
    if any(abs(exact.get(key, math.inf) - similarity) > COSINE_TOLERANCE for key, similarity in nearest):
        raise SnapshotError("the vectors are not those of the index; index the documents again")
    return sorted(exact.items(), key=lambda item: (-item[1], item[0]))


def _near_enough(found: Sequence[tuple[int, float]], profile: Profile) -> Sequence[tuple[int, float]]:
    """All of them; where scores are scaled over the list, so that its last is worth nothing, those that are near."""
    if profile.fusion.method != "blended":
        return found
    return [(key, cosine) for key, cosine in found if cosine >= profile.fusion.min_cosine]


def _sections_of_chunks(view: View, nearest: Sequence[tuple[int, float]], limit: int) -> list[tuple[str, ChunkHit]]:
    """(the first chunk of a text, cosine) -> (node id, chunk hit) of the `limit` nearest chunks of any node.

    Best first, ties by node id and then in the order of the text.
    """
    alike = text_vectors.alike(view.connection, [key for key, _ in nearest])
    stored = reading.chunks(view.connection, [key for keys in alike.values() for key in keys])
    view.tree.load(chunk.document_key for chunk in stored.values())
    found = [(similarity, stored[key]) for first, similarity in nearest for key in alike[first]]
    found.sort(key=lambda item: (-item[0], item[1].node_id, item[1].key))
    hits = []
    for similarity, chunk in found[:limit]:
        hit = ChunkHit(chunk.span, (), similarity)
        node = node_of(hit, view.tree.sections(chunk.document_key))
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
    known: float
    """Which share of the question, likewise, is words that any section holds, 0 to 1 (`measure_known`)."""
    together: float
    """Which share of its pairs of words stand together in one of the first sections, 0 to 1 (`measure_together`)."""
    form: QuestionForm
    """What the question is made of."""


def lexical_ranking(view: View, queries: Sequence[Query], profile: Profile) -> LexicalEvidence:
    """The sections that share words with the question, by BM25; the evidence of each is its coverage.

    The coverage of a section is the share of the question that it speaks of, where each word weighs by its rarity;
    of several texts, the mean by their weights.
    """
    result = view.lexical.search_weighted(weigh_words(queries), profile.keyword_top_n)
    found = result.ranking
    coverage = _coverage(view, queries, [key for key, _ in found])
    known = reading.ids_of_nodes(view.connection, [key for key, _ in found])
    evidence = coverage if profile.rank_weighting == "evidence" else [1.0] * len(found)
    items = [Ranked(known[key], score, share) for (key, score), share in zip(found, evidence, strict=True)]
    ranked = _with_prior(view, items, profile)
    ranking = Ranking("lexical", "bm25", profile.keyword_weight, ranked, result.ceiling)
    asked = split_words(queries[0].text)
    first = [item.node_id for item in ranked[:TOGETHER_IN]]
    view.tree.load_nodes(first)
    return LexicalEvidence(
        ranking,
        words=tuple(dict.fromkeys(tokenize(queries[0].text))),
        coverage=max(coverage, default=0.0),
        known=measure_known(asked, {term.term: term for term in result.terms}, view.lexical),
        together=measure_together(asked, map(view.tree.node, first)),
        form=read_form(queries[0].text),
    )


def _coverage(view: View, queries: Sequence[Query], node_keys: Sequence[int]) -> list[float]:
    total = [0.0] * len(node_keys)
    for query in queries:
        shares = view.lexical.coverage(tokenize(query.text), node_keys)
        total = [before + query.keyword_weight * share for before, share in zip(total, shares, strict=True)]
    return total


def temporal_ranking(view: View, rankings: Sequence[Ranking], profile: Profile) -> Ranking:
    """The sections that the rankings hold, by how new they are and how often they were opened."""
    ids = sorted({item.node_id for ranking in rankings for item in ranking.items})
    dates = priors.dates(view.connection, ids)
    opened = recorded.opened_counts(view.connection, ids)
    times = [opened.get(node_id, 0) for node_id in ids]
    scores = temporal_scores([dates[node_id] for node_id in ids], times, profile.fusion.half_life_days)
    items = in_order(map(Ranked, ids, scores))
    return Ranking("temporal", "recency and openings", 1.0, items, max(scores, default=0.0))


def late_ranking(view: View, question: TokenBits, candidates: Sequence[Candidate], profile: Profile) -> Ranking:
    """The candidates by late interaction with the question; the evidence of each is its score beside the best one's."""
    ids = [candidate.node_id for candidate in candidates]
    tokens = text_vectors.tokens_of_nodes(view.connection, view.fingerprint, ids, question.shape[1])
    scores = max_similarities(question, [found[: profile.token_match_chunks] for found in tokens.values()])
    scored = map(Ranked, tokens, scores)
    return Ranking("late", "MaxSim", profile.token_match_weight, _by_best(_with_prior(view, scored, profile), profile))


def _by_best(items: tuple[Ranked, ...], profile: Profile) -> tuple[Ranked, ...]:
    """The items, each with its score beside the best one's as its evidence."""
    best = max((item.score for item in items), default=0.0)
    if profile.rank_weighting == "constant" or best <= 0:
        return items
    return tuple(_changed(item, item.score, max(0.0, item.score / best)) for item in items)


def _with_prior(view: View, items: Iterable[Ranked], profile: Profile) -> tuple[Ranked, ...]:
    """The items with their pages' priors in their scores, in their new order; a score below 0 stays as it is."""
    listed = list(items)
    shares = view.tree.boilerplate(item.node_id for item in listed)
    return in_order(
        _changed(item, item.score * (1.0 - profile.page_prior * shares[item.node_id]), item.evidence)
        if item.score > 0
        else item
        for item in listed
    )


def _changed(item: Ranked, score: float, evidence: float) -> Ranked:
    """`replace` would take five times as long, and there are 200 of them in a search."""
    return Ranked(item.node_id, score, evidence, item.origin)


# What the arms find for all texts of a search: in one list for each arm, or in one for each text.


def dense_evidence(
    view: View, vectors: FloatMatrix, queries: Sequence[Query], profile: Profile
) -> tuple[DenseEvidence, ...]:
    """The question's first: for the mean of all vectors, or with `semantic_per_query` for each text its own.

    Args:
        view: the index.
        vectors: (n, d) float32, of the queries.
        queries: n of them, the question first.
        profile: how much each list holds, and weighs beside the others.
    """
    if not profile.semantic_per_query:
        return (dense_ranking(view, average_vectors(vectors, [query.semantic_weight for query in queries]), profile),)
    heaviest = max(query.semantic_weight for query in queries)
    return tuple(
        dense_ranking(view, vectors[place : place + 1], _of_one(profile, query.semantic_weight / heaviest))
        for place, query in enumerate(queries)
        if query.semantic_weight
    )


def lexical_evidence(view: View, queries: Sequence[Query], profile: Profile) -> tuple[LexicalEvidence, ...]:
    """The question's first: for the words of all texts, or with `keyword_per_query` for each text its own."""
    if not profile.keyword_per_query:
        return (lexical_ranking(view, queries, profile),)
    heaviest = max(query.keyword_weight for query in queries)
    return tuple(
        lexical_ranking(view, [replace(query, keyword_weight=1.0)], _of_one(profile, query.keyword_weight / heaviest))
        for query in queries
        if query.keyword_weight
    )


def _of_one(profile: Profile, share: float) -> Profile:
    """The profile for the list of one text, which weighs a share of what the heaviest does."""
    return replace(
        profile,
        vector_top_n=profile.semantic_per_query or profile.vector_top_n,
        semantic_weight=profile.semantic_weight * share,
        keyword_top_n=profile.keyword_per_query or profile.keyword_top_n,
        keyword_weight=profile.keyword_weight * share,
    )
