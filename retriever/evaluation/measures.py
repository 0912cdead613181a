"""Rankings and what is right -> the measures of each question, by trec_eval (Van Gysel and de Rijke, SIGIR 2018).

`hit@k` is 1 when something right is among the first k; `recall@k` the share of all that is right which is; and
`precision@k` divides by k, however many were found. `MRR@k` is 1 / the rank of the first right one, 0 below k.
`nDCG@k` compares with the ideal list, which begins with all that is right in the whole index. `AP` is average
precision over the whole list. `file ...` are the same over the files of the found sections, each where it first
stands: whether the right page came, if not the right section.
`answered@n` is 1 when a right section ends within the first n tokens of the found sections' own texts, in their
order: whether a prompt of that length would have held the answer.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from retriever.evaluation.questions import Judgements

# Measures by name, for one question.
Values: TypeAlias = dict[str, float]

CUTS = (1, 5, 10, 30)
TOKEN_BUDGETS = (500, 1000, 2000, 4000)

_TREC_NAMES: dict[str, str] = {  # our names to those of trec_eval
    **{f"hit@{k}": f"success_{k}" for k in CUTS},
    "MRR@10": "recip_rank",
    "nDCG@10": "ndcg_cut_10",
    "nDCG@5": "ndcg_cut_5",
    **{f"recall@{k}": f"recall_{k}" for k in CUTS[1:]},
    **{f"precision@{k}": f"P_{k}" for k in (1, 5, 10)},
    "AP": "map",
}
FILE_MEASURES = ("hit@1", "hit@5", "hit@10", "recall@10", "MRR@10", "nDCG@10")  # over files beside sections

SECTION_NAMES = tuple(_TREC_NAMES)
FILE_NAMES = tuple(f"file {name}" for name in FILE_MEASURES)
BUDGET_NAMES = tuple(f"answered@{budget}" for budget in TOKEN_BUDGETS)

DEPTHS = {"MRR@10": 10}  # looks no further than that rank, where trec_eval's looks at the whole list

# Question ids to names, best first, each once.
Rankings: TypeAlias = Mapping[str, Sequence[str]]


def measure_files(rankings: Rankings, right: Mapping[str, Judgements]) -> dict[str, Values]:
    values = measure(rankings, right, FILE_MEASURES)
    return {key: {f"file {name}": value for name, value in items.items()} for key, items in values.items()}


def measure(rankings: Rankings, right: Mapping[str, Judgements], names: Sequence[str]) -> dict[str, Values]:
    """Some measures for each question, in the order of `right`, which all have a ranking; an empty one has 0 of all."""
    import pytrec_eval

    judgements = {key: dict(judged) for key, judged in right.items()}
    values: dict[str, Values] = {key: dict.fromkeys(names, 0.0) for key in right}
    for depth in {DEPTHS.get(name) for name in names}:
        chosen = [name for name in names if DEPTHS.get(name) == depth]
        # trec_eval sorts by score and breaks ties by name, not by our order: so the scores fall.
        scores = {
            key: {name: float(-place) for place, name in enumerate(rankings[key][:depth])}
            for key in right
            if rankings[key]
        }
        evaluator = pytrec_eval.RelevanceEvaluator(judgements, {_TREC_NAMES[name] for name in chosen})
        for key, found in evaluator.evaluate(scores).items():
            values[key] |= {name: float(found[_TREC_NAMES[name]]) for name in chosen}
    return values


def measure_budgets(tokens: Sequence[int], is_right: Sequence[bool]) -> Values:
    """`answered@n` for each budget, by the `tokens` of each found section's own text, best first."""
    needed = count_tokens_needed(tokens, is_right)
    return {
        name: float(needed is not None and needed <= budget)
        for name, budget in zip(BUDGET_NAMES, TOKEN_BUDGETS, strict=True)
    }


def count_tokens_needed(tokens: Sequence[int], is_right: Sequence[bool]) -> int | None:
    """How many tokens a reader has read when the first right section ends; None when there is none."""
    read = 0
    for length, right in zip(tokens, is_right, strict=True):
        read += length
        if right:
            return read
    return None
