"""What a system answered, to be measured; and at which stage of a search a section was lost."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pageindex.node import Span
from retriever.types import Candidate

# At which stage of a search the right section was lost.


class LossStage(StrEnum):
    """Where the best of the right sections ended, the earliest loss first."""

    NOT_FOUND = "not found"  # no ranking has it: not by its text, not by its words, not as a neighbor
    CUT = "cut"  # a ranking has it, and it fell below the candidate cap
    BELOW = "below top_k"  # it was a candidate, below what the profile returns
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class Loss:
    stage: LossStage
    node_id: str  # that section: the one with the best rank in the fused list, else the first by id
    rank: int | None  # in the fused list, from 1; None when no ranking has it


def find_loss(right: Collection[str], candidates: Sequence[Candidate], top_k: int, cap: int) -> Loss:
    """Return how far the best of the right sections, at least one, came; `candidates` without any cut, best first."""
    ranks = {item.node_id: rank for rank, item in enumerate(candidates, start=1) if item.node_id in right}
    node_id = min(ranks, key=lambda name: (ranks[name], name)) if ranks else min(right)
    rank = ranks.get(node_id)
    if rank is None:
        stage = LossStage.NOT_FOUND
    elif rank <= top_k:
        stage = LossStage.RETURNED
    else:
        stage = LossStage.BELOW if rank <= cap else LossStage.CUT
    return Loss(stage, node_id, rank)


@dataclass(frozen=True, slots=True)
class FoundSection:
    node_id: str
    file: str
    span: Span
    score: float


@dataclass(frozen=True, slots=True)
class Outcome:
    question_id: str
    found: tuple[FoundSection, ...]  # best first, each node once
    abstained: bool  # whether the system said that the documents hold no answer
    confidence: float | None = None  # how sure it was that they do, 0 to 1; None where it does not say
    # Stages that failed: what was found then says nothing of the ranking, and is not measured.
    failures: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()  # what else the answer says of its gaps
    milliseconds: float | None = None  # from the question to the answer; None where no clock ran
    llm_calls: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    system: str  # its name in every table
    outcomes: Mapping[str, Outcome]  # by question id
    settings: Mapping[str, Any] = field(default_factory=dict)  # the profile and what was set over it, for the record
