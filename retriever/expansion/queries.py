"""What each text of a search weighs, and how the texts become one query for each arm. Pure.

The dense arm searches with the weighted mean of the texts' vectors, as HyDE does (Gao, Ma, Lin and Callan, "Precise
Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023), the lexical arm with their words, each counted by the
weight of its text. So an expanded search is as long as a plain one: one list from each arm, fused in the same way.
Measured against a list for each text and arm (docs/evaluation.md), one list for each arm is as good or better.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from retriever.expansion.values import Expansion, Query
from retriever.lexical.tokens import tokenize
from retriever.settings.profile import Profile

if TYPE_CHECKING:
    from retriever.types import FloatMatrix

Rarity = Callable[[Sequence[str]], Mapping[str, float]]
"""Terms -> how rare each is in the documents, above 0; those that no section holds are left out."""
_WORD = re.compile(r"\S+")


def weighted_queries(
    question: str, expansion: Expansion, profile: Profile, rarity: Rarity = lambda terms: {}
) -> tuple[Query, ...]:
    """The question first, then what it was expanded to, with the weights that the profile's mode gives them."""
    own = Query(question, 1.0, 1.0)
    weights = {
        "rewording": (profile.rewording_weight, profile.rewording_weight),
        "passage": (profile.hyde_variant_weight, profile.passage_lexical_weight),
        "answer": (profile.hyde_variant_weight, profile.passage_lexical_weight),
    }
    texts = [Query(text, *weights[kind], kind) for kind, text in expansion.texts]
    rewordings = [query for query in texts if not query.is_hypothetical]
    passages = [query for query in texts if query.is_hypothetical]
    if profile.hyde.mode == "average" and passages:
        own = replace(own, dense_weight=0.0)
        passages = [replace(query, dense_weight=1 / len(passages)) for query in passages]
    elif profile.hyde.mode == "keywords" and passages:
        passages = _keywords([own, *rewordings], passages, profile, rarity)
    others = _bounded([*rewordings, *passages], profile)
    return _normalised([own, *others])


def _bounded(others: Sequence[Query], profile: Profile) -> list[Query]:
    """With the words that the profile lets reach BM25, and no heavier than it lets them be."""
    if profile.hyde.lexical == "original":
        others = [replace(query, lexical_weight=0.0) for query in others]
    if profile.hyde.bound == "each":
        return list(others)
    dense = max(1.0, sum(query.dense_weight for query in others))
    lexical = max(1.0, sum(query.lexical_weight for query in others))
    return [
        replace(query, dense_weight=query.dense_weight / dense, lexical_weight=query.lexical_weight / lexical)
        for query in others
    ]


def _normalised(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Those that either arm heeds, the question in any case, with weights that add up to 1 in each arm."""
    if not any(query.dense_weight for query in queries):
        queries = [replace(queries[0], dense_weight=1.0), *queries[1:]]
    dense = sum(query.dense_weight for query in queries)
    lexical = sum(query.lexical_weight for query in queries)
    return tuple(
        replace(query, dense_weight=query.dense_weight / dense, lexical_weight=query.lexical_weight / lexical)
        for place, query in enumerate(queries)
        if place == 0 or query.dense_weight or query.lexical_weight
    )


def kept(queries: Sequence[Query], are_kept: Sequence[bool]) -> tuple[Query, ...]:
    """The queries that are kept, the question's always among them, with the weights that they then have."""
    return _normalised([query for query, is_kept in zip(queries, are_kept, strict=True) if is_kept])


def _keywords(asked: Sequence[Query], passages: Sequence[Query], profile: Profile, rarity: Rarity) -> list[Query]:
    """One text for the lexical arm alone, of the passages' words that were not asked for yet.

    The best are those that stand in most passages and in few sections: passages * rarity, as in tf-idf.
    """
    known = {term for query in asked for term in tokenize(query.text)}
    times = Counter(term for query in passages for term in set(tokenize(query.text)) - known)
    rare = rarity(sorted(times))
    best = sorted(rare, key=lambda term: (-times[term] * rare[term], term))[: profile.hyde.keywords]
    spelled = {term: word for query in passages for word in _words(query.text) for term in tokenize(word)}
    text = " ".join(dict.fromkeys(spelled[term] for term in best))
    return [Query(text, 0.0, profile.passage_lexical_weight, "keywords")] if text else []


def _words(text: str) -> list[str]:
    """The longest first: of all that give a term, the shortest is then the last."""
    return sorted(_WORD.findall(text), key=len, reverse=True)


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
