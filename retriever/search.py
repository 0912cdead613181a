"""A search from question to hits: the stages in their order. What each one does is in its own module."""

from collections.abc import Sequence
from dataclasses import replace

from retriever.errors import OutOfTimeError
from retriever.expansion.expand import ExpandedQuery, build_queries, drop_unrelated
from retriever.query import Query
from retriever.rerank.stage import RerankRequest, rerank
from retriever.searching.confidence import agreement
from retriever.searching.encode import Embedded, embedded
from retriever.searching.fusion import as_weighed, cap_candidates, fused
from retriever.searching.hits import build_hits
from retriever.searching.neighbors import Neighborhood, file_roots, merge, neighbors
from retriever.searching.open_index import View
from retriever.searching.sources import (
    DenseEvidence,
    LexicalEvidence,
    dense_evidence,
    late_ranking,
    lexical_evidence,
    temporal_ranking,
)
from retriever.settings.schema import Profile, QueryWeights, RerankStageSettings
from retriever.trace import Recorder
from retriever.types import Candidate, Encoder, Hit, Ranked, Ranking, Signals


def search(
    view: View,
    encoder: Encoder | None,
    expanded: ExpandedQuery,
    profile: Profile,
    reranking: RerankRequest,
    recorder: Recorder,
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """The best sections for a question, and its words as BM25 reads them; the recorder learns the rest.

    `expanded` is the question with the texts that may be searched with besides it.
    """
    queries, texts = _queries(view, encoder, expanded, profile, recorder)
    with recorder.stage("dense") as note:
        dense = dense_evidence(view, texts.vectors, queries, profile) if texts else ()
        note.text = _found([item.ranking for item in dense]) if dense else "skipped"
    with recorder.stage("lexical") as note:
        lexical = lexical_evidence(view, queries, profile)
        covered = f"one covers {lexical[0].coverage:.0%} of the question"
        note.text = f"{_found([item.ranking for item in lexical])}, {covered}"
    direct = [*(item.ranking for item in dense), *(item.ranking for item in lexical)]
    if profile.fusion.method == "blended" and profile.fusion.recency_weight:
        direct.append(temporal_ranking(view, direct, profile))
    recorder.signals = _signals(view, dense[0] if dense else None, lexical[0])
    with recorder.stage("neighbors") as note:
        rankings = _with_neighbors(view, direct, profile)
        note.text = f"{sum(len(ranking.items) for ranking in rankings if ranking.arm == 'neighbors')} sections"
    candidates, late = _candidates(view, texts, queries[0], rankings, profile, recorder)
    with recorder.stage("rerank") as note:
        candidates, note.text = rerank(view, reranking, candidates, profile.part(RerankStageSettings), recorder)
    recorder.order = tuple(candidate.node_id for candidate in candidates)
    with recorder.stage("present") as note:
        hits = build_hits(view, candidates[: profile.top_k], lexical[0].words, profile)
        note.text = f"{len(hits)} hits"
    recorder.rankings.extend(as_weighed([*rankings, *late], profile))
    return hits, lexical[0].words


def _queries(
    view: View, encoder: Encoder | None, expanded: ExpandedQuery, profile: Profile, recorder: Recorder
) -> tuple[tuple[Query, ...], Embedded | None]:
    """The texts to search with, the question first; of its expansion, those that are about it."""
    queries = build_queries(expanded, view, profile.part(QueryWeights))
    with recorder.stage("embed") as note:
        texts = embedded(view, encoder, queries, recorder)
        note.text = "skipped" if texts is None else "one vector" if len(queries) == 1 else f"{len(queries)} texts"
    recorder.expansion = expanded.report
    if len(queries) == 1:
        return queries, texts
    vectors = texts.vectors if texts else None
    queries, are_kept = drop_unrelated(queries, vectors, view, texts.encoder if texts else None, recorder)
    return queries, texts.only(are_kept) if texts else None


def _signals(view: View, dense: DenseEvidence | None, lexical: LexicalEvidence) -> Signals:
    """What speaks for an answer; by words alone where there are no vectors, or nothing to compare a cosine with."""
    margin = agreed = None
    if dense is not None and dense.cosine is not None and view.background is not None:
        margin = view.background.z_score(dense.cosine)
        agreed = agreement(dense.ranking, lexical.ranking, view.counts.sections)
    return Signals(lexical.coverage, lexical.known, lexical.together, lexical.form, margin, agreed)


def _found(rankings: Sequence[Ranking]) -> str:
    sections = {item.node_id for ranking in rankings for item in ranking.items}
    return f"{len(sections)} sections" + (f" for {len(rankings)} texts" if len(rankings) > 1 else "")


def _candidates(
    view: View,
    texts: Embedded | None,
    question: Query,
    rankings: Sequence[Ranking],
    profile: Profile,
    recorder: Recorder,
) -> tuple[tuple[Candidate, ...], list[Ranking]]:
    """The candidates, best first, and their ranking by late interaction, if any."""
    with recorder.stage("fuse") as note:
        # Late interaction finds what the arms rank low, so it is given more than are kept.
        fused_first = fused(rankings, profile, max(profile.token_match_candidates, _candidate_count(profile)))
        note.text = f"{len(fused_first)} candidates"
    with recorder.stage("late") as note:
        late = _late(texts, question, fused_first, profile, recorder)
        again = fused([*rankings, *late], profile, len(fused_first))
        candidates = cap_candidates(again, _candidate_count(profile), profile.neighbor_share)
        note.text = f"{len(late[0].items)} sections, {len(candidates)} kept" if late else "skipped"
    return candidates, late


def _late(
    texts: Embedded | None, question: Query, candidates: Sequence[Candidate], profile: Profile, recorder: Recorder
) -> list[Ranking]:
    """The candidates' ranking by late interaction; none where it is off, has no time, or the encoder gives no tokens.

    It reads the question alone, so beside other wordings it weighs what the question weighs among them.
    """
    if texts is None or texts.tokens is None or not profile.token_match_weight:
        return []
    try:
        recorder.deadline.seconds_for("late")
    except OutOfTimeError as error:
        recorder.degraded.append(f"late: {error}")
        return []
    ranking = late_ranking(texts.view, texts.tokens, candidates, profile)
    return [replace(ranking, weight=ranking.weight * question.semantic_weight)]


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
    return [*direct, Ranking("neighbors", f"decayed {profile.fusion.method}", profile.neighbor_weight, items)]


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
