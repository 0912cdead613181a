"""At which stage of a search the right section was lost. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from retriever.types import Candidate, Ranking


class Stage(StrEnum):
    """Where the best of the right sections ended, the earliest loss first."""

    NO_ARM = "in no arm"
    """No arm found it: not its text, not its words, not its neighbours."""
    CUT = "cut"
    """An arm found it, and it fell below the candidate cap."""
    BELOW = "below top_k"
    """It was a candidate, below what the profile returns."""
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class ArmRank:
    """What one arm says of a section."""

    arm: str
    rank: int | None
    """From 1; None: the arm did not find it."""
    score: float | None
    scale: str
    last_score: float | None
    """The lowest score in the arm's list: what it takes to be in it, while it is full; None for an empty list."""


@dataclass(frozen=True, slots=True)
class Loss:
    """How far the best of the right sections came."""

    stage: Stage
    node_id: str
    """That section: the one with the best rank in the fused list, else in an arm, else the first by id."""
    rank: int | None
    """In the fused list, from 1; None when no arm found it."""
    arms: tuple[ArmRank, ...]


def loss_of(
    right: Collection[str], rankings: Sequence[Ranking], candidates: Sequence[Candidate], top_k: int, cap: int
) -> Loss:
    """How far the best of the right sections came.

    Args:
        right: node ids, at least one.
        rankings: of every arm.
        candidates: all nodes of the rankings, fused, best first, without any cut.
        top_k: how many the profile returns.
        cap: how many candidates it keeps, at least `top_k`.
    """
    ranks = {item.node_id: rank for rank, item in enumerate(candidates, start=1) if item.node_id in right}
    node_id = min(ranks, key=lambda name: (ranks[name], name)) if ranks else min(right)
    rank = ranks.get(node_id)
    return Loss(_stage(rank, top_k, cap), node_id, rank, arm_ranks(node_id, rankings))


def _stage(rank: int | None, top_k: int, cap: int) -> Stage:
    if rank is None:
        return Stage.NO_ARM
    if rank <= top_k:
        return Stage.RETURNED
    return Stage.BELOW if rank <= cap else Stage.CUT


def arm_ranks(node_id: str, rankings: Sequence[Ranking]) -> tuple[ArmRank, ...]:
    """What each arm says of a section."""
    return tuple(_arm_rank(node_id, ranking) for ranking in rankings)


def _arm_rank(node_id: str, ranking: Ranking) -> ArmRank:
    last = ranking.items[-1].score if ranking.items else None
    for rank, item in enumerate(ranking.items, start=1):
        if item.node_id == node_id:
            return ArmRank(ranking.arm, rank, item.score, ranking.scale, last)
    return ArmRank(ranking.arm, None, None, ranking.scale, last)


def counts(losses: Sequence[Loss]) -> Mapping[Stage, int]:
    """How many questions ended at each stage."""
    return {stage: sum(loss.stage is stage for loss in losses) for stage in Stage}
