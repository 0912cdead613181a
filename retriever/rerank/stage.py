"""The stage: the candidates of a search in the reranker's order, or as they were."""

from collections.abc import Sequence
from dataclasses import dataclass

from retriever.display.phrases import counted
from retriever.errors import GeneratorError, OutOfTimeError, RerankerError
from retriever.expansion.entities import adjusted_for_intent, matched_entities
from retriever.lexical.tokens import tokenize
from retriever.rerank.blending import Judged, blended, unread
from retriever.rerank.reranker import Reranker
from retriever.rerank.shown import shown
from retriever.searching.open_index import View
from retriever.settings.profile import Profile
from retriever.trace import Recorder
from retriever.types import Candidate


@dataclass(frozen=True, slots=True)
class Reranking:
    """Who reranks the candidates of one question, and what is known besides them."""

    reranker: Reranker | None
    """None: the profile has none, or its language model is switched off."""
    entities: tuple[str, ...] = ()
    """Names in the question, as its expansion has them."""
    intent: str = ""
    """What the question is after, likewise."""


def reranked(
    view: View,
    question: str,
    candidates: tuple[Candidate, ...],
    profile: Profile,
    reranking: Reranking,
    recorder: Recorder,
) -> tuple[tuple[Candidate, ...], str]:
    """The candidates, best first, and what was done, in a few words.

    The first `candidate_cap` are reranked; those behind them stay there. When the reranker fails, the candidates are
    exactly those that came, and the recorder has the reason.
    """
    if profile.rerank.kind == "none":
        return candidates, "skipped"
    if reranking.reranker is None:
        recorder.degraded.append("rerank: the language model is switched off (use_llm)")
        return candidates, "skipped"
    pool = candidates[: profile.candidate_cap]
    if len(pool) < 2:
        return candidates, f"skipped: {counted(len(pool), 'candidate')}"
    try:
        pieces = shown(view, pool, tokenize(question), profile)
        with recorder.budget.allowing("rerank", reranking.reranker.start_s) as seconds:
            judgement = reranking.reranker.judge(question, pieces, seconds)
    except OutOfTimeError as error:
        recorder.degraded.append(f"rerank: {error}")
        return candidates, "skipped"
    except (GeneratorError, RerankerError) as error:
        recorder.degraded.append(f"rerank: {error}")
        return candidates, "failed"
    judged = [
        _judged(view, adjusted_for_intent(candidate, reranking.intent), score, reranking.entities, profile.entity_boost)
        for candidate, score in zip(pool, judgement.scores, strict=True)
    ]
    blend = profile.rerank.blend
    best = blended(judged, blend, reranking.reranker.scale)
    return (*best, *unread(candidates[len(pool) :], len(pool) + 1, blend)), judgement.note


def _judged(view: View, candidate: Candidate, score: float, entities: Sequence[str], boost: float) -> Judged:
    if not (entities and boost):
        return Judged(candidate, score)
    node = view.tree.node(candidate.node_id)
    matched = matched_entities(entities, "\n".join((*node.breadcrumb, node.title, node.text)))
    return Judged(candidate, score, matched * boost, f"{matched} of {len(entities)} entities" if matched else "")
