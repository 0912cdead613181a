"""Rankings and what is right -> the measures of each question, as trec_eval defines them.

`hit@k` is 1 when something right is among the first k; `recall@k` the share of all that is right which is; and
`precision@k` divides by k, however many were found. `MRR@k` is 1 / the rank of the first right one, 0 below k.
`nDCG@k` compares with the ideal list, which begins with all that is right in the whole index. `AP` is average
precision over the whole list.
"""

from collections.abc import Mapping, Sequence
from math import log2
from typing import TypeAlias

from retriever.evaluation.questions import Judgements

# Measures by name, for one question.
Values: TypeAlias = dict[str, float]

CUTS = (1, 5, 10, 30)
MEASURES = (
    *(f"hit@{k}" for k in CUTS),
    *("MRR@10", "nDCG@10", "nDCG@5"),
    *(f"recall@{k}" for k in CUTS[1:]),
    *("precision@1", "precision@5", "precision@10", "AP"),
)

# Question ids to names, best first, each once.
Rankings: TypeAlias = Mapping[str, Sequence[str]]


def measure(rankings: Rankings, right: Mapping[str, Judgements]) -> dict[str, Values]:
    """Return all measures of each question, in the order of `right`; an empty ranking has 0 of all."""
    return {key: measure_ranking(rankings[key], judged) for key, judged in right.items()}


def measure_ranking(ranking: Sequence[str], right: Judgements) -> Values:
    """Return all measures of a ranking without cut; at least one name is right."""
    hits = [name in right for name in ranking]

    def ndcg(k: int) -> float:
        gain = sum(1 / log2(rank + 1) for rank, hit in enumerate(hits[:k], start=1) if hit)
        return gain / sum(1 / log2(rank + 1) for rank in range(1, min(k, len(right)) + 1))

    first = next((rank for rank, hit in enumerate(hits[:10], start=1) if hit), None)
    precisions = [sum(hits[:rank]) / rank for rank, hit in enumerate(hits, start=1) if hit]
    return {
        **{f"hit@{k}": float(any(hits[:k])) for k in CUTS},
        "MRR@10": 1 / first if first else 0.0,
        "nDCG@10": ndcg(10),
        "nDCG@5": ndcg(5),
        **{f"recall@{k}": sum(hits[:k]) / len(right) for k in CUTS[1:]},
        **{f"precision@{k}": sum(hits[:k]) / k for k in (1, 5, 10)},
        "AP": sum(precisions) / len(right),
    }
