"""Why a section was not among the hits: at which stage it was lost, and what it would have taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pageindex.node import Node, NodeKind
from retriever.errors import UsageError
from retriever.evaluation.ask import in_last_order
from retriever.evaluation.runs import Loss, Stage, loss_of
from retriever.rerank.stage import SCALE as RERANKED
from retriever.searching.fusion import Fusion, fuse
from retriever.types import Candidate, Degradation, Ranking, Source

if TYPE_CHECKING:
    from retriever.query import Expansion
    from retriever.retriever import Retriever

MAX_NAMED = 8


@dataclass(frozen=True, slots=True)
class InRanking:
    """How a section stands in one ranking."""

    source: Source
    scale: str
    listed: int
    """How many sections it lists."""
    rank: int | None
    """Among all sections, were the list without an end; None: it sees nothing of the question in the section."""
    score: float | None
    is_listed: bool
    """Whether it is in the list that there was."""
    first_score: float | None
    last_score: float | None
    """The list's ends; None when it is empty."""

    @property
    def lacks(self) -> float | None:
        """How much more score would have brought it into the list; None when it is there, or was not seen."""
        if self.is_listed or self.score is None or self.last_score is None:
            return None
        return max(0.0, self.last_score - self.score)


@dataclass(frozen=True, slots=True)
class Bar:
    """A place that a section must reach."""

    rank: int
    score: float
    """Of the section that has it."""


@dataclass(frozen=True, slots=True)
class WhyNot:
    """The way of one section through the stages."""

    question: str
    node: Node
    stage: Stage
    rank: int | None
    """In the fused list; None when no ranking has it."""
    fused: int
    """How many sections were fused."""
    score: float | None
    top: Bar | None
    """The last hit; None when there are fewer."""
    cap: Bar | None
    """The last candidate, likewise."""
    sources: tuple[InRanking, ...]
    degraded: tuple[Degradation, ...]
    """What of the search was skipped or failed."""
    reranked: int | None = None
    """Its rank after the reranking; None when nothing was reranked, or it was no candidate."""


def limitless(sections: int, chunks: int) -> dict[str, Any]:
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


def why_not(
    retriever: "Retriever", deep: "Retriever", question: str, reference: str, expansion: "Expansion | None" = None
) -> WhyNot:
    """The way of a section, or of the best one of a file.

    Args:
        retriever: whose answer is to be explained.
        deep: the same with the settings of `limitless`.
        question: as it was asked.
        reference: a node id, `PATH#section` with the section's slug or anchor alone, or a path.
        expansion: what the question was expanded to.

    Raises:
        UsageError: there is no such section, or several.
    """
    nodes = {node.id: node for node in meant(retriever, reference)}
    answer = retriever.search(question, expansion)
    profile = retriever.profile
    candidates = fuse(answer.trace.rankings, profile.part(Fusion))
    cap = max(profile.candidate_cap, profile.top_k)
    last = in_last_order(candidates, answer.trace)
    loss = loss_of(nodes, answer.trace.rankings, last, profile.top_k, cap)
    whole = deep.search(question, expansion).trace.rankings
    if loss.stage is Stage.NOT_FOUND:
        loss = _nearest(nodes, whole, loss)
    ranks = {candidate.node_id: rank for rank, candidate in enumerate(candidates, start=1)}
    scores = {candidate.node_id: candidate.score for candidate in candidates}
    is_reranked = any(hit.scale == RERANKED for hit in answer.hits) and loss.node_id in answer.trace.order
    return WhyNot(
        question=answer.question,
        node=nodes[loss.node_id],
        stage=loss.stage,
        rank=ranks.get(loss.node_id),
        fused=len(candidates),
        score=scores.get(loss.node_id),
        top=_bar(candidates, profile.top_k),
        cap=_bar(candidates, cap),
        sources=tuple(_in_ranking(loss.node_id, ranking, _whole(ranking, whole)) for ranking in answer.trace.rankings),
        degraded=answer.degraded,
        reranked=loss.rank if is_reranked else None,
    )


def _nearest(nodes: dict[str, Node], whole: Sequence[Ranking], loss: Loss) -> Loss:
    """Of sections that no ranking has, the one that came nearest in any."""
    ranked = [(rank, item.node_id) for ranking in whole for rank, item in enumerate(ranking.items)]
    _, node_id = min((pair for pair in ranked if pair[1] in nodes), default=(0, loss.node_id))
    return Loss(loss.stage, node_id, None, ())


def _bar(candidates: Sequence[Candidate], rank: int) -> Bar | None:
    return Bar(rank, candidates[rank - 1].score) if len(candidates) >= rank else None


def _whole(ranking: Ranking, whole: Sequence[Ranking]) -> Ranking:
    """The same ranking without an end; one that has no such list, as it stands."""
    return next((item for item in whole if item.source == ranking.source), ranking)


def _in_ranking(node_id: str, ranking: Ranking, whole: Ranking) -> InRanking:
    rank, score = _place(node_id, ranking)
    is_listed = rank is not None
    if rank is None:
        rank, score = _place(node_id, whole)
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


def _place(node_id: str, ranking: Ranking) -> tuple[int | None, float | None]:
    for rank, item in enumerate(ranking.items, start=1):
        if item.node_id == node_id:
            return rank, item.score
    return None, None


def meant(retriever: "Retriever", reference: str) -> list[Node]:
    """The section that a reference names; of a file or folder, all its sections.

    Raises:
        UsageError: there is none, or there are several sections of that name.
    """
    try:
        nodes = retriever.nodes(reference)
    except UsageError:
        return [_by_last_slug(retriever, reference)]
    named = nodes[0]
    found = [named] if named.kind is NodeKind.SECTION else [node for node in nodes if node.span]
    if not found:
        raise UsageError(f"{reference!r} holds no section")
    return found


def _by_last_slug(retriever: "Retriever", reference: str) -> Node:
    """`guide.md#install` for `guide.md#guide/install`."""
    path, sign, slug = reference.partition("#")
    inside = retriever.nodes(path) if sign and slug else ()
    found = [node for node in inside if node.id.endswith(f"/{slug}") or (slug == node.anchor and node.span)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(node.id for node in found[:MAX_NAMED])
        raise UsageError(f"{reference!r} may be any of {names}")
    raise UsageError(f"{reference!r} is not in the index; `hybrid_retrieve.py tree` shows what is")
