"""Several rankings become one. Pure: values in, values out."""

from collections.abc import Sequence

from retriever.types import Candidate, Evidence, Ranking


def reciprocal_rank_fusion(rankings: Sequence[Ranking], k: float) -> tuple[Candidate, ...]:
    """Adds, over the rankings that hold a node, weight * evidence / (k + rank), with ranks from 1.

    Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods",
    SIGIR 2009, with a weight for each ranking, and for each node in it: a rank says nothing of how much was found, and
    the first of a list that found little is no better than the tenth of one that found much. With weight and evidence
    1 it is the paper's. `k` damps the lead of the first ranks; it is no cut-off.

    Args:
        rankings: each best first, each node once; a ranking of weight 0 gives no evidence.
        k: above 0; 60 in the paper.

    Returns:
        Every node of the rankings, best first, ties by node id.
    """
    evidence: dict[str, list[Evidence]] = {}
    for ranking in rankings:
        if ranking.weight == 0:
            continue
        for rank, item in enumerate(ranking.items, start=1):
            share = ranking.weight * item.evidence / (k + rank)
            piece = Evidence(ranking.arm, rank, item.score, ranking.scale, share, item.origin)
            evidence.setdefault(item.node_id, []).append(piece)
    candidates = [_candidate(node_id, pieces) for node_id, pieces in evidence.items()]
    return tuple(sorted(candidates, key=lambda candidate: (-candidate.score, candidate.node_id)))


def _candidate(node_id: str, pieces: list[Evidence]) -> Candidate:
    ordered = sorted(pieces, key=lambda piece: (-piece.share, piece.arm))
    return Candidate(node_id, sum(piece.share for piece in ordered), tuple(ordered))
