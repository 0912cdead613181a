"""A question with other wordings of it: what each text of a search weighs, and how they become one query for each arm.

The dense arm searches with the weighted mean of the texts' vectors, as HyDE does (Gao, Ma, Lin and Callan, "Precise
Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023), the lexical arm with their words, each counted by the
weight of its text. So an expanded search is as long as a plain one: one list from each arm, fused in the same way.
Measured against a list for each text and arm (docs/evaluation.md), one list for each arm is as good or better.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from retriever.profile import Profile
from retriever.tokens import tokenize

if TYPE_CHECKING:
    from retriever.types import FloatMatrix


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a language model made of a question without seeing the documents."""

    rewordings: tuple[str, ...] = ()
    """The question in other words; none is blank."""
    passages: tuple[str, ...] = ()
    """Hypothetical: what a document that answers it might say; none is blank."""


@dataclass(frozen=True, slots=True)
class Query:
    """One text of a search, and how much each arm heeds it."""

    text: str
    dense_weight: float
    """At least 0; those of one search add up to 1, and none is above the question's."""
    lexical_weight: float
    """Likewise."""


def weighted_queries(question: str, expansion: Expansion | None, profile: Profile) -> tuple[Query, ...]:
    """The question first, then its rewordings and passages, with the weights that the profile gives them."""
    expansion = expansion or Expansion()
    rewording, passage = profile.rewording_weight, profile.hyde_variant_weight
    texts = [Query(question, 1.0, 1.0)]
    texts += [Query(text, rewording, rewording) for text in expansion.rewordings]
    texts += [Query(text, passage, profile.passage_lexical_weight) for text in expansion.passages]
    dense = sum(query.dense_weight for query in texts)
    lexical = sum(query.lexical_weight for query in texts)
    return tuple(
        replace(query, dense_weight=query.dense_weight / dense, lexical_weight=query.lexical_weight / lexical)
        for query in texts
    )


def blended(vectors: "FloatMatrix", weights: Sequence[float]) -> "FloatMatrix":
    """The weighted mean of unit vectors, as a unit vector.

    Args:
        vectors: (n, d) float32, the question's first.
        weights: n of them, at least 0.

    Returns:
        (1, d) float32; the question's own vector when it is alone, or when the others cancel it.
    """
    import numpy as np

    mean = np.asarray(weights, np.float32) @ vectors
    length = float(np.linalg.norm(mean))
    return vectors[:1] if len(vectors) == 1 or length < 1e-6 else (mean / length)[np.newaxis]


def weighted_words(queries: Sequence[Query]) -> Mapping[str, float]:
    """How much each word of the texts counts: the sum, over its occurrences, of the weights of their texts."""
    counts: dict[str, float] = {}
    for query in queries:
        for word, times in Counter(tokenize(query.text)).items():
            counts[word] = counts.get(word, 0.0) + times * query.lexical_weight
    return {word: count for word, count in counts.items() if count}
