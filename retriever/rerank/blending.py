"""What the reranker says and what the fusion said become one order. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from retriever.rerank.ranks import worth
from retriever.types import Candidate, Evidence

ARM = "rerank"
SCALE = "reranked"


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate and what was said of it."""

    candidate: Candidate
    score: float
    """The reranker's, 0 to 1."""
    boost: float = 0.0
    """What it gains for entities of the question, at least 0."""
    origin: str = ""
    """What the boost is for."""


def blended(judged: Sequence[Judged], blend: float, scale: str) -> tuple[Candidate, ...]:
    """The candidates by (1 - blend) * (score + boost) + blend * worth(fused rank), best first, ties in fused order.

    The order before has the scale of a reranker's: `worth` falls from 1, most among the first ranks, so that
    the blend protects the fusion's first hits far more than its last. Unlike weights that differ from rank to rank
    (qmd's .75, .60, .40), it never puts one of two candidates with the same score above the one that was before it.

    Args:
        judged: best first by the fusion.
        blend: what the order before weighs, 0 to 1.
        scale: what the scores are, for the evidence.

    Returns:
        The same candidates; each has the reranker as an arm, and its shares add up to its new score.
    """
    in_order = sorted(range(len(judged)), key=lambda place: (-judged[place].score, place))
    rank_of = {place: rank for rank, place in enumerate(in_order, start=1)}
    renewed = [
        _renewed(item.candidate, _evidence(item, rank_of[place], blend, scale), blend * worth(place + 1))
        for place, item in enumerate(judged)
    ]
    return tuple(sorted(renewed, key=lambda candidate: -candidate.score))


def unread(candidates: Sequence[Candidate], first_rank: int, blend: float) -> tuple[Candidate, ...]:
    """Candidates that no reranker read, from a fused rank on: of their score, only the order before is left."""
    return tuple(
        _renewed(candidate, None, blend * worth(rank)) for rank, candidate in enumerate(candidates, start=first_rank)
    )


def _evidence(item: Judged, rank: int, blend: float, scale: str) -> Evidence:
    return Evidence(ARM, rank, item.score, scale, (1.0 - blend) * (item.score + item.boost), item.origin)


def _renewed(candidate: Candidate, evidence: Evidence | None, before: float) -> Candidate:
    """With the reranker's evidence; what the order before is worth is shared by the arms as the fused score was."""
    total = sum(item.share for item in candidate.evidence)
    shares = [replace(item, share=before * item.share / total if total else 0.0) for item in candidate.evidence]
    found = sorted([*shares, *([evidence] if evidence else [])], key=lambda item: -item.share)
    return replace(candidate, score=before + (evidence.share if evidence else 0.0), evidence=tuple(found), scale=SCALE)
