"""A search from question to hits: the stages in their order. What each one does is in its own module."""

from dataclasses import dataclass, replace

from retriever.embedding.encoder import measure_foreign
from retriever.errors import ScopeError, SnapshotError
from retriever.indexing.request import FolderAccess
from retriever.lexical.sections import drop_days
from retriever.models import OpenModels
from retriever.places.view import View
from retriever.query import Query, SearchedScope
from retriever.searching.confidence import measure_lead
from retriever.searching.fusion import join_copies, read_priors, reciprocal_rank_fusion
from retriever.searching.hits import build_hits, lacks_day, read_rows
from retriever.searching.known_items import find_dated, rank_names
from retriever.searching.neighbors import add_neighbors
from retriever.searching.queries import EncodedQueries, ExpandedQuery, encode, split_filters, weigh_queries
from retriever.searching.scope import find_part
from retriever.searching.sources import (
    KeywordResult,
    SemanticResult,
    rank_keyword,
    rank_semantic,
    weigh_by_margin,
)
from retriever.settings import Profile
from retriever.trace import Recorder
from retriever.types import Candidate, Hit, Ranking, Signals, Source, StageName

NEAREST, MOSTLY = 3, 0.5  # sections, and the share of their text that is not English


@dataclass(frozen=True)
class Found:
    """The result of one search, and where it looked."""

    hits: tuple[Hit, ...] = ()
    """Best first."""
    words: tuple[str, ...] = ()
    """The question's, as BM25 reads them."""
    searched: SearchedScope | None = None
    """The part of the index that the filters leave; None for all of it."""


def search(
    view: View,
    models: OpenModels,
    expanded: ExpandedQuery,
    profile: Profile,
    recorder: Recorder,
    access: FolderAccess,
) -> Found:
    """Return the best sections for a question; the recorder learns how they were found."""
    searched = None
    if scope := expanded.scope:
        try:
            part = find_part(view, scope)
        except ScopeError as error:
            if split_filters(expanded.asked)[1]:
                error.hint = "if that is no filter, put it in quotation marks"
            raise
        searched = SearchedScope(scope, expanded.question, len(part.node_keys), part.documents)
        if not searched.sections:
            recorder.notes.append(f"no section matches {' '.join(scope.terms)}")
            return Found(searched=searched)
        view = view.within(part)
    candidates, words = find_candidates(view, models, expanded, profile, recorder)
    # From here on the order changes, and nothing is added: a reranker that fails leaves what is there.
    # A profile without one does not import it.
    with recorder.stage(StageName.RERANK) as note:
        if profile.rerank.kind == "none":
            note.skip()
            if profile.entity_boost:
                recorder.degrade(StageName.RERANK, "entity_boost lifts what a reranker scores: choose a rerank.kind")
        else:
            from retriever.rerank import rerank

            question = expanded.question
            candidates = rerank(view, models.reranker, question, words, candidates, profile, recorder, note)
    with recorder.stage(StageName.HITS) as note:
        rows = read_rows(view, candidates, profile, access)
        recorder.signals = replace(recorder.signals, lacks_day=lacks_day(expanded.question, rows))
        reader = models.find_reader(abroad=recorder.signals.abroad)
        hits = build_hits(view, rows, expanded, words, profile, reader, recorder)
        note.text = f"{len(hits)} hits"
    recorder.order = tuple(candidate.node_id for candidate in candidates)
    return Found(hits, words, searched)


def find_candidates(
    view: View, models: OpenModels, expanded: ExpandedQuery, profile: Profile, recorder: Recorder
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Return what all sources find, fused, and the question's words as BM25 reads them."""
    cap = max(profile.candidate_cap, profile.top_k)
    queries, encoded = encode_queries(view, models, expanded, profile, recorder)

    # Two searches that know nothing of one another: what one cannot see, the other may.
    with recorder.stage(StageName.SEMANTIC) as note:
        semantic: SemanticResult | None = None
        if encoded is None:
            note.skip()
        else:
            try:
                semantic = rank_semantic(view, encoded, queries, profile)
            except SnapshotError as error:  # of ChromaDB; the database has the same vectors
                recorder.degrade(StageName.SEMANTIC, f"{error}; answered without it, by a scan of all vectors")
                semantic = rank_semantic(view, encoded, queries, replace(profile, vector_search="exact"))
            note.text = f"{len(semantic.ranking.items)} sections"
    with recorder.stage(StageName.KEYWORD) as note:
        keyword = rank_keyword(view, queries, profile)
        note.text = f"{len(keyword.ranking.items)} sections, one covers {keyword.signals.coverage:.0%} of the question"
    recorder.signals = gather_signals(view, encoded, semantic, keyword, queries[0].text)

    direct = [keyword.ranking]
    if semantic:
        margin = recorder.signals.margin if profile.ranking == "evidence" else None
        direct = [weigh_by_margin(semantic.ranking, margin), keyword.ranking]
    with recorder.stage(StageName.NAME) as note:
        named, is_named = rank_names(view, queries[0].text, expanded.corrected.half_typed, profile.name_weight)
        note.text = f"{len(named.items)} sections" if named else "none"
        direct += [named] if named else []
        recorder.signals = replace(recorder.signals, is_named=is_named)
    # A section without text hands its rank to another one, which a scope may leave out.
    direct = [replace(ranking, items=view.keep_allowed(ranking.items)) for ranking in direct]
    # An answer is often near what matched: above it, below it, next to it.
    with recorder.stage(StageName.NEIGHBORS) as note:
        rankings = add_neighbors(view, direct, profile)
        note.text = f"{sum(len(item.items) for item in rankings if item.source is Source.NEIGHBORS)} sections"
    with recorder.stage(StageName.FUSE) as note:
        priors, hashes = read_priors(view, rankings, profile)
        fused = reciprocal_rank_fusion(rankings, profile.rrf_k, priors)
        candidates = join_copies(fused, hashes)[:cap]
        recorder.signals = replace(recorder.signals, lead=measure_lead(candidates, view.counts.sections))
        note.text = f"{len(candidates)} candidates"
    recorder.rankings.extend(rankings)
    return candidates, keyword.words


def encode_queries(
    view: View, models: OpenModels, expanded: ExpandedQuery, profile: Profile, recorder: Recorder
) -> tuple[tuple[Query, ...], EncodedQueries | None]:
    """Return the texts to search with and their vectors: the question first, then its expansion where it is related."""
    queries = weigh_queries(expanded.question, expanded.expansion, profile)
    with recorder.stage(StageName.EMBED) as note:
        encoder = models.encoder_for(view, recorder)
        question, *others = queries
        # All sections of a day are as near to it, whatever they are about: it is left to their names.
        if encoder and find_dated(view, question.text):
            question = replace(question, text=drop_days(question.text))
        encoded = encode(encoder, (question, *others), recorder) if encoder else None
        note.text = "one vector" if len(queries) == 1 else f"{len(queries)} texts"
        if encoded is None:
            note.skip()
    if len(queries) > 1:
        from retriever.expansion import drop_unrelated  # not needed by a plain question

        expansion, are_kept = drop_unrelated(queries, encoded, view, recorder)
        queries = weigh_queries(expanded.question, expansion, profile)
        encoded = replace(encoded, vectors=encoded.vectors[are_kept]) if encoded else None
    return queries, encoded


def gather_signals(
    view: View,
    encoded: EncodedQueries | None,
    semantic: SemanticResult | None,
    keyword: KeywordResult,
    question: str,
) -> Signals:
    """Return what speaks for an answer; by words alone where vectors say nothing or have nothing to compare with."""
    signals = keyword.signals
    if encoded and semantic and getattr(encoded.encoder, "bundled_as", "") in ("multilingual", "both"):
        # It reads languages as well that have no stop words here.
        abroad = not signals.in_english or bool(measure_foreign([question])) or is_foreign(view, semantic.ranking)
        signals = replace(signals, in_english=not abroad, abroad=abroad)
    background = view.background
    if encoded and semantic and semantic.cosine is not None and background:
        cosine = background.common + (1 - background.common) * semantic.cosine
        if signals.abroad and background.abroad:
            from retriever.embedding.both import BothEncoder

            assert isinstance(encoded.encoder, BothEncoder), "no other has two scales"
            cosine -= encoded.encoder.measure_lift(encoded.vectors[0])
            background = background.abroad
        return replace(signals, margin=(cosine - background.best) / background.deviation)
    return signals


def is_foreign(view: View, nearest: Ranking) -> bool:
    """Return whether most of what is nearest is not English."""
    first = view.tree.read([item.node_id for item in nearest.items[:NEAREST]])
    return measure_foreign([node.text for node in first.values()]) >= MOSTLY
