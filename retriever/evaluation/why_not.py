"""Why a section was not among the hits: at which stage it was lost, and what it would have taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pageindex.node import Node, NodeKind
from retriever.errors import UsageError
from retriever.evaluation.ask import in_last_order
from retriever.evaluation.runs import Stage, find_loss
from retriever.rerank.stage import SCALE as RERANKED
from retriever.searching.fusion import Fusion, fuse
from retriever.types import Degradation, Ranking, Source

if TYPE_CHECKING:
    from retriever.retriever import Retriever


@dataclass(frozen=True, slots=True)
class InRanking:
    source: Source
    scale: str
    listed: int  # how many sections it lists
    # Among all sections, were the list without an end; None: it sees nothing of the question in the section.
    rank: int | None
    score: float | None
    is_listed: bool  # whether it is in the list that there was
    first_score: float | None
    last_score: float | None  # the list's ends; None when it is empty

    @property
    def lacks(self) -> float | None:
        """How much more score would have brought it into the list; None when it is there, or was not seen."""
        if self.is_listed or self.score is None or self.last_score is None:
            return None
        return max(0.0, self.last_score - self.score)


@dataclass(frozen=True, slots=True)
class Bar:
    rank: int
    score: float  # of the section that has it


@dataclass(frozen=True, slots=True)
class WhyNot:
    question: str
    node: Node
    stage: Stage
    rank: int | None  # in the fused list; None when no ranking has it
    fused: int  # how many sections were fused
    score: float | None
    top: Bar | None  # the last hit; None when there are fewer
    cap: Bar | None  # the last candidate, likewise
    sources: tuple[InRanking, ...]
    degraded: tuple[Degradation, ...]  # what of the search was skipped or failed
    reranked: int | None = None  # its rank after the reranking; None when nothing was reranked, or it was no candidate


def lift_limits(sections: int, chunks: int) -> dict[str, Any]:
    """Settings under which both searches list everything that they see, and nothing else is added."""
    return {
        "vector_top_n": max(1, chunks),
        "keyword_top_n": max(1, sections),
        "vector_search": "exact",
        "neighbor_depth": 0,
        "candidate_file_roots": 0,
        "token_match_weight": 0.0,
        "top_k": 1,
    }


def why_not(retriever: "Retriever", deep: "Retriever", question: str, reference: str) -> WhyNot:
    """The way of a section, or of the best one of a file or folder; `deep` has the settings of `lift_limits`."""
    listed = retriever.nodes(reference)
    named = [listed[0]] if listed[0].kind is NodeKind.SECTION else [node for node in listed if node.span]
    if not named:
        raise UsageError(f"{reference!r} holds no section")
    # Of a file any section would do: the one that came farthest is explained.
    nodes = {node.id: node for node in named}
    answer = retriever.search(question)
    profile = retriever.profile
    candidates = fuse(answer.trace.rankings, profile.part(Fusion))
    cap = max(profile.candidate_cap, profile.top_k)
    last = in_last_order(candidates, answer.trace)
    loss = find_loss(nodes, last, profile.top_k, cap)
    # The same question without limits says where a section stands that no list had room for.
    whole = deep.search(question).trace.rankings
    node_id = loss.node_id
    if loss.stage is Stage.NOT_FOUND:  # of sections that no source listed, the one that came nearest in any
        ranked = [(rank, item.node_id) for ranking in whole for rank, item in enumerate(ranking.items)]
        _, node_id = min((pair for pair in ranked if pair[1] in nodes), default=(0, node_id))
    place = next((place for place, item in enumerate(candidates) if item.node_id == node_id), None)
    is_reranked = any(hit.scale == RERANKED for hit in answer.hits) and node_id in answer.trace.order
    return WhyNot(
        question=answer.question,
        node=nodes[node_id],
        stage=loss.stage,
        rank=None if place is None else place + 1,
        fused=len(candidates),
        score=None if place is None else candidates[place].score,
        top=Bar(profile.top_k, candidates[profile.top_k - 1].score) if len(candidates) >= profile.top_k else None,
        cap=Bar(cap, candidates[cap - 1].score) if len(candidates) >= cap else None,
        sources=tuple(compare_lists(node_id, ranking, whole) for ranking in answer.trace.rankings),
        degraded=answer.degraded,
        reranked=loss.rank if is_reranked else None,
    )


def compare_lists(node_id: str, ranking: Ranking, whole: Sequence[Ranking]) -> InRanking:
    """A section in the list that a source gave; where it is not there, in the same source's list without an end."""
    rank, score = find_place(ranking, node_id)
    is_listed = rank is not None
    if rank is None:
        endless = next((item for item in whole if item.source == ranking.source), ranking)
        rank, score = find_place(endless, node_id)
    return InRanking(
        source=ranking.source,
        scale=ranking.scale,
        listed=len(ranking.items),
        rank=rank,
        score=score,
        is_listed=is_listed,
        first_score=ranking.items[0].score if ranking.items else None,
        last_score=ranking.items[-1].score if ranking.items else None,
    )


def find_place(ranking: Ranking, node_id: str) -> tuple[int | None, float | None]:
    """Return the rank, from 1, and the score of a section in a ranking; None twice where it is not there."""
    for rank, item in enumerate(ranking.items, start=1):
        if item.node_id == node_id:
            return rank, item.score
    return None, None
