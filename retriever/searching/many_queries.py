"""What the arms find for all texts of a search: in one list for each arm, or in one for each text."""

from collections.abc import Sequence
from dataclasses import replace

from retriever.query import Query
from retriever.searching.arms import DenseEvidence, LexicalEvidence, dense_ranking, lexical_ranking
from retriever.searching.open_index import View
from retriever.searching.queries import average_vectors
from retriever.settings.profile import Profile
from retriever.types import FloatMatrix


def dense_evidence(
    view: View, vectors: FloatMatrix, queries: Sequence[Query], profile: Profile
) -> tuple[DenseEvidence, ...]:
    """The question's first: for the mean of all vectors, or with `dense_per_query` for each text its own.

    Args:
        view: the index.
        vectors: (n, d) float32, of the queries.
        queries: n of them, the question first.
        profile: how much each list holds, and weighs beside the others.
    """
    if not profile.dense_per_query:
        return (dense_ranking(view, average_vectors(vectors, [query.dense_weight for query in queries]), profile),)
    heaviest = max(query.dense_weight for query in queries)
    return tuple(
        dense_ranking(view, vectors[place : place + 1], _of_one(profile, query.dense_weight / heaviest))
        for place, query in enumerate(queries)
        if query.dense_weight
    )


def lexical_evidence(view: View, queries: Sequence[Query], profile: Profile) -> tuple[LexicalEvidence, ...]:
    """The question's first: for the words of all texts, or with `lexical_per_query` for each text its own."""
    if not profile.lexical_per_query:
        return (lexical_ranking(view, queries, profile),)
    heaviest = max(query.lexical_weight for query in queries)
    return tuple(
        lexical_ranking(view, [replace(query, lexical_weight=1.0)], _of_one(profile, query.lexical_weight / heaviest))
        for query in queries
        if query.lexical_weight
    )


def _of_one(profile: Profile, share: float) -> Profile:
    """The profile for the list of one text, which weighs a share of what the heaviest does."""
    return replace(
        profile,
        vector_top_n=profile.dense_per_query or profile.vector_top_n,
        dense_weight=profile.dense_weight * share,
        lexical_top_n=profile.lexical_per_query or profile.lexical_top_n,
        lexical_weight=profile.lexical_weight * share,
    )
