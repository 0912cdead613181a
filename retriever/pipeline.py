"""A search from question to hits: the stages in their order. What each one does is in its own module."""

from collections.abc import Sequence

from retriever.arms import dense_ranking, lexical_ranking
from retriever.embedding import unread_tokens
from retriever.errors import EncoderError
from retriever.fusion import reciprocal_rank_fusion
from retriever.neighbors import Neighborhood, file_roots, merge, neighbors
from retriever.open_index import View
from retriever.present import hits_of
from retriever.profile import Profile
from retriever.trace import Recorder
from retriever.types import Candidate, Encoder, FloatMatrix, Hit, Ranked, Ranking


def search(
    view: View, encoder: Encoder | None, question: str, profile: Profile, recorder: Recorder
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """The best sections for a question, and its words as BM25 reads them; the recorder learns the rest."""
    with recorder.stage("embed") as note:
        vector = _embedded(view, encoder, question, recorder)
        note.text = "one vector" if vector is not None else "skipped"
    with recorder.stage("dense") as note:
        dense = dense_ranking(view, vector, profile) if vector is not None else None
        note.text = f"{len(dense.items)} sections" if dense else "skipped"
    with recorder.stage("lexical") as note:
        lexical = lexical_ranking(view, question, profile)
        note.text = f"{len(lexical.ranking.items)} sections, one covers {lexical.coverage:.0%} of the question"
    direct = [dense, lexical.ranking] if dense else [lexical.ranking]
    with recorder.stage("neighbors") as note:
        rankings = _with_neighbors(view, direct, profile)
        note.text = f"{sum(len(ranking.items) for ranking in rankings if ranking.arm == 'neighbors')} sections"
    with recorder.stage("fuse") as note:
        candidates = reciprocal_rank_fusion(rankings, profile.rrf_k)[: max(profile.candidate_cap, profile.top_k)]
        note.text = f"{len(candidates)} candidates"
    with recorder.stage("present") as note:
        hits = hits_of(view, candidates[: profile.top_k], lexical.words, profile)
        note.text = f"{len(hits)} hits"
    recorder.rankings.extend(rankings)
    return hits, lexical.words


def _embedded(view: View, encoder: Encoder | None, question: str, recorder: Recorder) -> "FloatMatrix | None":
    """The question's vector, (1, d); None, and a reason in the recorder, when there is none to search with."""
    if encoder is None or not view.fingerprint:
        return None
    try:
        if encoder.fingerprint != view.fingerprint:
            recorder.degraded.append(
                "dense: the index was made with another embedding model; index the documents again"
            )
            return None
        if unread := unread_tokens(encoder, question):
            recorder.degraded.append(f"embed: the last {unread} tokens of the question are more than the model reads")
        return encoder.encode_queries([question])
    except EncoderError as error:
        recorder.degraded.append(f"dense: {error}")
        return None


def _with_neighbors(view: View, direct: Sequence[Ranking], profile: Profile) -> list[Ranking]:
    """The rankings and what the tree adds to them: a list of its own, or more of the dense list."""
    if not profile.neighbor_depth and not profile.candidate_file_roots:
        return list(direct)
    if profile.neighbors == "merged":
        return [_merged(view, ranking, profile) if ranking.arm == "dense" else ranking for ranking in direct]
    hits = [_as_ranked(item) for item in reciprocal_rank_fusion(direct, profile.rrf_k)[: profile.candidate_cap]]
    around = _around(view, hits, profile)
    known = {item.node_id for ranking in direct for item in ranking.items}
    items = tuple(item for item in around if item.node_id not in known)
    return [*direct, Ranking("neighbors", "decayed rrf", profile.neighbor_weight, items)]


def _merged(view: View, dense: Ranking, profile: Profile) -> Ranking:
    items = merge([dense.items, _around(view, dense.items, profile)])
    return Ranking(dense.arm, dense.scale, dense.weight, items)


def _around(view: View, hits: Sequence[Ranked], profile: Profile) -> tuple[Ranked, ...]:
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
