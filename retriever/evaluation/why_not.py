"""Why a section was not among the hits: at which stage it was lost, and where each source has it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pageindex.node import Node, NodeKind
from retriever.errors import UsageError
from retriever.evaluation.ask import in_last_order
from retriever.evaluation.runs import LossStage, find_loss
from retriever.searching.fusion import Fusion, fuse
from retriever.types import Answer, Ranking, Source

if TYPE_CHECKING:
    from retriever.retriever import Retriever


@dataclass(frozen=True, slots=True)
class InRanking:
    """Where a section stands in what one source found."""

    source: Source
    scale: str
    listed: int
    """How many sections the source listed."""
    last_score: float | None
    """Of the last one; None where the list is empty."""
    rank: int | None
    """From 1; None where the section is not in the list."""
    score: float | None


@dataclass(frozen=True, slots=True)
class WhyNot:
    """What became of one section in a search."""

    node: Node
    lost: LossStage
    rank: int | None
    """In the last order of all sections that were fused, from 1; None where no ranking has the section."""
    fused: int
    """How many sections were fused."""
    score: float | None
    """Its fused score."""
    top_score: float | None
    """The fused score of the last hit; None where there are fewer sections."""
    limit: str
    """The setting that it fell below, with its value: `top_k is 5`; empty where it is a hit, or in no ranking."""
    sources: tuple[InRanking, ...]


def explain_absence(retriever: "Retriever", answer: Answer, reference: str) -> WhyNot:
    """Return the way of a section through a search, or of the one of a file or folder that came farthest.

    Raises:
        UsageError: the reference names nothing in the index, or a file without sections.
    """
    listed = retriever.nodes(reference)
    named = [listed[0]] if listed[0].kind is NodeKind.SECTION else [node for node in listed if node.span]
    if not named:
        raise UsageError(f"{reference!r} holds no section")
    nodes = {node.id: node for node in named}
    profile = retriever.profile
    candidates = fuse(answer.trace.rankings, profile.part(Fusion))
    cap = max(profile.candidate_cap, profile.top_k)
    loss = find_loss(nodes, in_last_order(candidates, answer.trace), profile.top_k, cap)
    limits = {LossStage.CUT: f"candidate_cap is {cap}", LossStage.BELOW: f"top_k is {profile.top_k}"}
    return WhyNot(
        node=nodes[loss.node_id],
        lost=loss.stage,
        rank=loss.rank,
        fused=len(candidates),
        score=next((item.score for item in candidates if item.node_id == loss.node_id), None),
        top_score=candidates[profile.top_k - 1].score if len(candidates) >= profile.top_k else None,
        limit=limits.get(loss.stage, ""),
        sources=tuple(find_place(loss.node_id, ranking) for ranking in answer.trace.rankings),
    )


def find_place(node_id: str, ranking: Ranking) -> InRanking:
    """Return where a section stands in a ranking."""
    places = ((rank, item.score) for rank, item in enumerate(ranking.items, start=1) if item.node_id == node_id)
    rank, score = next(places, (None, None))
    last = ranking.items[-1].score if ranking.items else None
    return InRanking(ranking.source, ranking.scale, len(ranking.items), last, rank, score)
