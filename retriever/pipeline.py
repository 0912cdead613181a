"""A search from question to hits: the stages in their order. What each one does is in its own module."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from retriever.arms import DenseEvidence, LexicalEvidence, dense_ranking, late_ranking, lexical_ranking
from retriever.confidence import agreement
from retriever.embedding import unread_tokens
from retriever.embedding.rows import checked_rows
from retriever.errors import EncoderError
from retriever.expand_query import Query, blended
from retriever.fusion import reciprocal_rank_fusion
from retriever.neighbors import Neighborhood, file_roots, merge, neighbors
from retriever.open_index import View
from retriever.present import hits_of
from retriever.profile import Profile
from retriever.trace import Recorder
from retriever.types import (
    Candidate,
    Encoder,
    FloatMatrix,
    Hit,
    Ranked,
    Ranking,
    Signals,
    TokenBits,
    as_token_encoder,
)


def search(
    view: View, encoder: Encoder | None, queries: Sequence[Query], profile: Profile, recorder: Recorder
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """The best sections for a question, and its words as BM25 reads them; the recorder learns the rest.

    `queries` are the question and what it was expanded to; see `weighted_queries`.
    """
    with recorder.stage("embed") as note:
        embedded = _embedded(view, encoder, queries, recorder)
        note.text = "skipped" if embedded is None else "one vector" if len(queries) == 1 else f"{len(queries)} texts"
    with recorder.stage("dense") as note:
        dense = dense_ranking(view, embedded.vector, profile) if embedded else None
        note.text = f"{len(dense.ranking.items)} sections" if dense else "skipped"
    with recorder.stage("lexical") as note:
        lexical = lexical_ranking(view, queries, profile)
        note.text = f"{len(lexical.ranking.items)} sections, one covers {lexical.coverage:.0%} of the question"
    direct = [dense.ranking, lexical.ranking] if dense else [lexical.ranking]
    recorder.signals = _signals(view, dense, lexical)
    with recorder.stage("neighbors") as note:
        rankings = _with_neighbors(view, direct, profile)
        note.text = f"{sum(len(ranking.items) for ranking in rankings if ranking.arm == 'neighbors')} sections"
    with recorder.stage("fuse") as note:
        candidates = fused(rankings, profile, _candidate_count(profile))
        note.text = f"{len(candidates)} candidates"
    with recorder.stage("late") as note:
        late = _late(view, embedded, queries[0], candidates, profile)
        candidates = fused([*rankings, *late], profile, len(candidates))
        note.text = f"{len(late[0].items)} sections" if late else "skipped"
    with recorder.stage("present") as note:
        hits = hits_of(view, candidates[: profile.top_k], lexical.words, profile)
        note.text = f"{len(hits)} hits"
    recorder.rankings.extend([*rankings, *late])
    return hits, lexical.words


def _signals(view: View, dense: DenseEvidence | None, lexical: LexicalEvidence) -> Signals:
    """What speaks for an answer; by words alone where there are no vectors, or nothing to compare a cosine with."""
    if dense is None or dense.cosine is None or view.unrelated is None:
        return Signals(lexical.coverage, lexical.known, None, None)
    agreed = agreement(dense.ranking, lexical.ranking, view.counts.sections)
    return Signals(lexical.coverage, lexical.known, view.unrelated.margin(dense.cosine), agreed)


def fused(rankings: Sequence[Ranking], profile: Profile, limit: int | None = None) -> tuple[Candidate, ...]:
    """The nodes of the rankings, best first, by the profile's fusion: the first `limit`, or all of them."""
    return reciprocal_rank_fusion(rankings, profile.rrf_k, limit)


@dataclass(frozen=True, slots=True)
class Embedded:
    """What the encoder made of a question."""

    vector: FloatMatrix
    """(1, d), of the question and what it was expanded to."""
    tokens: "TokenBits | None"
    """Of the question alone; None when the encoder has none."""


def _embedded(view: View, encoder: Encoder | None, queries: Sequence[Query], recorder: Recorder) -> Embedded | None:
    """What to search with; None, and a reason in the recorder, when there is nothing to search with."""
    if encoder is None:
        return None
    try:
        if not view.fingerprint:
            recorder.degraded.append("dense: the index has no vectors; index the documents again with this model")
            return None
        if encoder.fingerprint != view.fingerprint:
            recorder.degraded.append(
                "dense: the index was made with another embedding model; index the documents again"
            )
            return None
        for place, query in enumerate(queries):
            if unread := unread_tokens(encoder, query.text):
                text = f"expanded text {place}" if place else "question"
                recorder.degraded.append(f"embed: the last {unread} tokens of the {text} are more than the model reads")
        return _encoded(encoder, queries)
    except EncoderError as error:
        recorder.degraded.append(f"dense: {error}")
        return None


def _encoded(encoder: Encoder, queries: Sequence[Query]) -> Embedded:
    weights = [query.dense_weight for query in queries]
    token_encoder = as_token_encoder(encoder)
    if token_encoder is None:
        vectors, tokens = encoder.encode_queries([query.text for query in queries]), None
    else:
        vector, tokens = token_encoder.encode_query_and_tokens(queries[0].text)
        others = encoder.encode_queries([query.text for query in queries[1:]])
        vectors = np.concatenate([vector, others])
    return Embedded(blended(checked_rows(vectors, len(queries), encoder.dimension), weights), tokens)


def _late(
    view: View, embedded: Embedded | None, question: Query, candidates: Sequence[Candidate], profile: Profile
) -> list[Ranking]:
    """The candidates' ranking by late interaction; none where it is switched off or the encoder gives no tokens.

    It reads the question alone, so beside other wordings it weighs what the question weighs among them.
    """
    if embedded is None or embedded.tokens is None or not profile.late_weight:
        return []
    ranking = late_ranking(view, embedded.tokens, candidates, profile)
    return [replace(ranking, weight=ranking.weight * question.dense_weight)]


def _with_neighbors(view: View, direct: Sequence[Ranking], profile: Profile) -> list[Ranking]:
    """The rankings and what the tree adds to them: a list of its own, or more of the dense list."""
    if not profile.neighbor_depth and not profile.candidate_file_roots:
        return list(direct)
    if profile.neighbors == "merged":
        return [_merged(view, ranking, profile) if ranking.arm == "dense" else ranking for ranking in direct]
    hits = [_as_ranked(item) for item in fused(direct, profile, profile.candidate_cap)]
    around = _around(view, hits, profile)
    known = {item.node_id for ranking in direct for item in ranking.items}
    # Each has the evidence of this list alone, so that none behind as many others can become a candidate; a section
    # may have ten thousand children.
    items = tuple(item for item in around if item.node_id not in known)[: _candidate_count(profile)]
    return [*direct, Ranking("neighbors", "decayed rrf", profile.neighbor_weight, items)]


def _candidate_count(profile: Profile) -> int:
    return max(profile.candidate_cap, profile.top_k)


def _merged(view: View, dense: Ranking, profile: Profile) -> Ranking:
    items = merge([dense.items, _around(view, dense.items, profile)])
    return Ranking(dense.arm, dense.scale, dense.weight, items)


def _around(view: View, hits: Sequence[Ranked], profile: Profile) -> tuple[Ranked, ...]:
    view.tree.load_nodes(hit.node_id for hit in hits)
    view.tree.load_links(hit.node_id for hit in hits)
    near = neighbors(hits, view.tree, _neighborhood(profile))
    roots = file_roots(hits, view.tree, profile.candidate_file_roots, profile.parent_decay)
    return merge([near, roots])


def _as_ranked(candidate: Candidate) -> Ranked:
    return Ranked(candidate.node_id, candidate.score)


def _neighborhood(profile: Profile) -> Neighborhood:
    return Neighborhood(
        depth=profile.neighbor_depth,
        parent_decay=profile.parent_decay,
        child_decay=profile.child_decay,
        sibling_decay=profile.sibling_decay,
        link_decay=profile.link_decay,
        siblings_per_node=profile.siblings_per_node,
        links_per_node=profile.links_per_node,
    )
