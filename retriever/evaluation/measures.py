"""Rankings and what is right -> the measures of each question, as trec_eval defines them.

`hit@k` is 1 when something right is among the first k; `recall@k` the share of all that is right which is; and
`precision@k` divides by k, however many were found. `MRR@k` is 1 / the rank of the first right one, 0 below k.
`nDCG@k` compares with the ideal list, which begins with all that is right in the whole index. `AP` is average
precision over the whole list. `file ...` are the same over the files of the found sections, each where it first
stands: whether the right page came, if not the right section.
`answered@n` is 1 when a right section ends within the first n tokens of the found sections' own texts, in their
order: whether a prompt of that length would have held the answer.
"""

from collections.abc import Mapping, Sequence
from math import log2
from typing import TypeAlias

from retriever.evaluation.questions import Judgements

# Measures by name, for one question.
Values: TypeAlias = dict[str, float]

CUTS = (1, 5, 10, 30)
TOKEN_BUDGETS = (500, 1000, 2000, 4000)

FILE_MEASURES = ("hit@1", "hit@5", "hit@10", "recall@10", "MRR@10", "nDCG@10")  # over files beside sections

SECTION_NAMES = (
    *(f"hit@{k}" for k in CUTS),
    *("MRR@10", "nDCG@10", "nDCG@5"),
    *(f"recall@{k}" for k in CUTS[1:]),
    *("precision@1", "precision@5", "precision@10", "AP"),
)
FILE_NAMES = tuple(f"file {name}" for name in FILE_MEASURES)
BUDGET_NAMES = tuple(f"answered@{budget}" for budget in TOKEN_BUDGETS)

# Question ids to names, best first, each once.
Rankings: TypeAlias = Mapping[str, Sequence[str]]


def measure_files(rankings: Rankings, right: Mapping[str, Judgements]) -> dict[str, Values]:
    values = measure(rankings, right, FILE_MEASURES)
    return {key: {f"file {name}": value for name, value in items.items()} for key, items in values.items()}


def measure(rankings: Rankings, right: Mapping[str, Judgements], names: Sequence[str]) -> dict[str, Values]:
    """Return some measures for each question, in the order of `right`; an empty ranking has 0 of all."""
    values = {key: measure_ranking(rankings[key], judged) for key, judged in right.items()}
    return {key: {name: measured[name] for name in names} for key, measured in values.items()}


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


def measure_budgets(tokens: Sequence[int], is_right: Sequence[bool]) -> Values:
    """Return `answered@n` for each budget, by the `tokens` of each found section's own text, best first."""
    needed = count_tokens_needed(tokens, is_right)
    return {
        name: float(needed is not None and needed <= budget)
        for name, budget in zip(BUDGET_NAMES, TOKEN_BUDGETS, strict=True)
    }


def count_tokens_needed(tokens: Sequence[int], is_right: Sequence[bool]) -> int | None:
    """Count how many tokens a reader has read when the first right section ends; None when there is none."""
    read = 0
    for length, right in zip(tokens, is_right, strict=True):
        read += length
        if right:
            return read
    return None
