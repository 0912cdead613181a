"""The rankings of a search by vectors and by words. Names and neighbors are modules of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from retriever.lexical.sections import find_days
from retriever.lexical.tokens import tokenize
from retriever.places.view import View
from retriever.query import Query
from retriever.searching.fusion import (
    first_of_each,
    rank_by_distance_and_rank,
    rank_by_two_chunks,
)
from retriever.searching.queries import EncodedQueries, weigh_words
from retriever.searching.question_words import (
    choose_telling,
    cut_words,
    has_strange_word,
    measure_known,
    measure_together,
    read_form,
)
from retriever.settings import Profile
from retriever.store import reading
from retriever.types import Ranked, Ranking, Signals, Source

COVERAGE_POWER = 1.5  # of a section's coverage, as evidence; nDCG@10 with 1, 1.5 and 2: .688, .701, .692
# Below the first margin the ranking by meaning counts for less, at least the second: what is nearest is hardly nearer
# than to unrelated questions, as in a small folder's notes; 2 to 3 and .3 to .7 do as well.
SURE_FROM, LEAST_SURE = 2.0, 0.5
TOGETHER_IN = 5  # sections in which the words are looked for side by side: as many as the verdict is about

# By meaning


@dataclass(frozen=True)
class SemanticResult:
    """The sections that the vectors of the queries found."""

    ranking: Ranking
    cosine: float | None
    """Of the chunk that is nearest; None when there is none."""


def rank_semantic(view: View, encoded: EncodedQueries, queries: Sequence[Query], profile: Profile) -> SemanticResult:
    """Rank the sections of the chunks nearest to the mean of all texts; evidence is a score's share of the best.

    Args:
        view: the index.
        encoded: the vectors of the queries.
        queries: the question first.
        profile: how many chunks, and how a section's score is made of theirs.

    Raises:
        SnapshotError: the vectors are not those of the index.
    """
    # (1, d): the mean of unit vectors by weights with the sum 1; of a question alone its own.
    mean = np.array([[query.semantic_weight for query in queries]], np.float32) @ encoded.vectors
    nearest = view.find_nearest(mean, profile.vector_top_n, profile.vector_search)
    found = nearest
    if view.part is not None:  # sections with the same text share one vector, which stands for all of them
        found = list(compress(nearest, view.part.holds([chunk.node_key for chunk in nearest])))
    hits = [
        # Where another section is shown, no line of it is what matched.
        Ranked(chunk.shown_id, chunk.cosine, matched=chunk.span if chunk.shown_id == chunk.node_id else None)
        for chunk in found[: profile.vector_top_n]
    ]
    if profile.ranking == "classic":
        scale, items = "cosine / log2(1 + rank)", rank_by_distance_and_rank(hits)
    else:
        scale, items = "cosine of two chunks", weigh_evidence(rank_by_two_chunks(hits))
    # While a first index is being embedded, what few vectors there are must not outvote the words of all.
    weight = profile.semantic_weight * view.state.embedded_share
    return SemanticResult(Ranking(Source.SEMANTIC, scale, weight, items), nearest[0].cosine if nearest else None)


def weigh_by_margin(ranking: Ranking, margin: float | None) -> Ranking:
    """Return the ranking by meaning with a weight that falls where nothing is much nearer than to other questions.

    >>> [weigh_by_margin(Ranking(Source.SEMANTIC, "", 1.0, ()), margin).weight for margin in (None, 3.0, 1.5, -1.0)]
    [1.0, 1.0, 0.75, 0.5]
    """
    sureness = 1.0 if margin is None else min(1.0, max(LEAST_SURE, margin / SURE_FROM))
    return replace(ranking, weight=sureness * ranking.weight)


# By words


@dataclass(frozen=True)
class KeywordResult:
    """The sections that the words of the queries found, and the question's own words as signs of an answer."""

    ranking: Ranking
    words: tuple[str, ...]
    """The question's words as BM25 reads them, each once, in its order."""
    signals: Signals
    """The signs of an answer in the question's own words."""


def rank_keyword(view: View, queries: Sequence[Query], profile: Profile) -> KeywordResult:
    """Rank the sections that share words with the queries, and read the signs of an answer in the question's own.

    Args:
        view: the index.
        queries: the question first.
        profile: how many sections the list holds, and what it weighs.
    """
    question = queries[0].text
    languages = view.lexical.detect_question(question)
    typed = cut_words(question, languages)
    weighed = [(tokenize(query.text, languages), query.keyword_weight) for query in queries]
    words, _ = weighed[0]
    words += find_days(question)
    form = read_form(typed)
    power = COVERAGE_POWER if profile.ranking == "evidence" else 0.0  # by which all count alike
    if form == "unspaced":
        # No section covers the pairs of characters that stand across two words: without it, nDCG@10 of 30 Japanese
        # questions is .842, with it .870.
        power = min(power, 1.0)
    ranked, coverage = rank_by_words(view, weighed, profile.keyword_top_n, power)
    # What the verdict needs to know of the words, while the sections are at hand.
    terms = view.lexical.describe(words)
    asked = choose_telling(typed)
    first = view.tree.read([item.node_id for item in ranked[:TOGETHER_IN]])
    return KeywordResult(
        ranking=Ranking(Source.KEYWORD, "bm25", profile.keyword_weight, ranked),
        words=tuple(dict.fromkeys(words)),
        signals=Signals(
            coverage=coverage,
            known=measure_known(asked, terms, view.spellings),
            together=measure_together(asked, first.values(), languages),
            form=form,
            in_english=not languages,
            is_strange=has_strange_word(typed, terms, view.spellings),
        ),
    )


def rank_by_words(
    view: View, weighed: Sequence[tuple[Sequence[str], float]], most: int, power: float
) -> tuple[tuple[Ranked, ...], float]:
    """Return the sections that share words with queries, by BM25, and how much of these one of them covers.

    Each query is given by its words and its weight. The coverage of a section is the share of a query that it speaks
    of, where each word weighs by its rarity; of several queries, the sum by their weights. Its evidence, a power of
    that, falls faster: half of a question's words is less than half of an answer.
    """
    best = view.lexical.search_weighted(weigh_words(weighed), most)
    # Equal scores by path, not by which document came first: that depends on how the index was made.
    shown = reading.shown_nodes(view.connection, [key for key, _ in best])
    found = sorted(best, key=lambda item: (-item[1], shown[item[0]], item[0]))[:most]
    keys = [key for key, _ in found]
    # Even the best section may speak of little of the questions: how much, 0 to the sum of their weights.
    covered = [weight * view.lexical.coverage(words, keys) for words, weight in weighed]
    shares: dict[str, float] = {}  # what a section covers, or a heading without text that it stands for
    for key, own in zip(keys, np.sum(covered, axis=0).tolist(), strict=True):
        shares[shown[key]] = max(own, shares.get(shown[key], 0.0))
    ranked = first_of_each(Ranked(shown[key], score, shares[shown[key]] ** power) for key, score in found)
    return tuple(ranked), max(shares.values(), default=0.0)


# What several of them do


def weigh_evidence(items: tuple[Ranked, ...]) -> tuple[Ranked, ...]:
    """Return the items, each with its score's share of the best one as its evidence.

    >>> [item.evidence for item in weigh_evidence((Ranked("a", 0.8), Ranked("b", 0.2), Ranked("c", -0.1)))]
    [1.0, 0.25, 0.0]
    """
    best = max((item.score for item in items), default=0.0)
    if best <= 0:
        return items
    # `_replace` would take three times as long, and there are 200 of them in a search.
    return tuple(
        Ranked(item.node_id, item.score, max(0.0, item.score / best), item.matched, item.via) for item in items
    )
