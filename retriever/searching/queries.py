"""What is searched for: a question, and the texts that are searched with besides it, each with its weight.

The semantic search takes the weighted mean of the texts' vectors, as HyDE does (Gao, Ma, Lin and Callan, "Precise
Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023); the keyword search takes their words, each counted by
the weight of its text. So an expanded search gives one list for each kind of search, as a plain one does. Measured
against a list for each text (docs/internals/evaluation.md), this is as good or better.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from retriever.query import Correction, Expansion, ExpansionReport, FollowUp, Query, Scope
from retriever.searching.open_index import View
from retriever.settings.schema import Profile

if TYPE_CHECKING:
    from retriever.types import FloatMatrix


PASSAGE_KEYWORD_WEIGHT = 0.5  # in keyword search, where a passage has many words; the question's is 1


@dataclass(frozen=True, slots=True)
class ExpandedQuery:
    question: str
    expansion: Expansion = field(default_factory=Expansion)
    report: ExpansionReport | None = None  # none where no expansion was asked for
    follow_up: FollowUp | None = None  # none where the question stands alone
    asked: str = ""  # the question as it was asked, with its filters
    scope: Scope = field(default_factory=Scope)  # what may be found
    corrections: tuple[Correction, ...] = ()  # what was mended in it
    half_typed: str = ""  # as it was typed, where its last word may be half typed
    right: Sequence[str] | None = None  # words that are no slips, where it is still to be mended; else None


def find_rarity(view: View, terms: Sequence[str]) -> dict[str, float]:
    """How rare the terms are in the documents, of those that stand there."""
    found = view.lexical.search(terms, 1).terms if terms else ()
    return {term.term: term.rarity for term in found if term.documents}


def weigh_queries(question: str, expansion: Expansion, profile: Profile) -> tuple[Query, ...]:
    """The question first, then the texts of its expansion, with the weights that the profile gives them.

    Each of the others weighs at most as much as the question; all of them together more.
    """
    passage_weights = (profile.hyde_variant_weight, PASSAGE_KEYWORD_WEIGHT)
    others = [
        Query(text, *((1.0, 1.0) if kind == "rewording" else passage_weights), kind) for kind, text in expansion.texts
    ]
    return normalize_weights([Query(question, 1.0, 1.0), *others])


def normalize_weights(queries: Sequence[Query]) -> tuple[Query, ...]:
    """The queries, the question first, with weights that add up to 1 in each search; without those that have none."""
    semantic = sum(query.semantic_weight for query in queries)
    keyword = sum(query.keyword_weight for query in queries)
    return tuple(
        replace(query, semantic_weight=query.semantic_weight / semantic, keyword_weight=query.keyword_weight / keyword)
        for query in queries
        if query.semantic_weight or query.keyword_weight
    )


def average_vectors(vectors: "FloatMatrix", weights: Sequence[float]) -> "FloatMatrix":
    """The weighted mean of unit vectors, as a unit vector.

    Args:
        vectors: (n, d) float32, the question's first.
        weights: n of them, at least 0.

    Returns:
        (1, d) float32; the question's own vector when it is alone, or when the others cancel it.
    """
    mean = np.asarray(weights, np.float32) @ vectors
    length = float(np.linalg.norm(mean))
    return vectors[:1] if len(vectors) == 1 or length < 1e-6 else (mean / length)[np.newaxis]


def weigh_words(texts: Iterable[tuple[Sequence[str], float]]) -> Mapping[str, float]:
    """How much each word counts: the sum, over its occurrences, of the weights of their texts.

    Args:
        texts: the words of each, from `tokenize`, and its weight.
    """
    counts: dict[str, float] = {}
    for words, weight in texts:
        for word, times in Counter(words).items():
            counts[word] = counts.get(word, 0.0) + times * weight
    return {word: count for word, count in counts.items() if count}
