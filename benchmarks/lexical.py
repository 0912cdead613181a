"""The lexical index against rank_bm25 itself: the same scores, and how much faster.

Run: uv run python benchmarks/lexical.py [NODES]

Documents are random, 100 tokens each, by Zipf's law. Questions have eight words and find, as those over real
documentation do, half as many postings as there are nodes (fastapi: .51, the Rust book: 1.03 of the nodes).
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from retriever.lexical.bm25 import LexicalIndex, build_lexical, patch_lexical

TOKENS_PER_NODE = 100
VOCABULARY = 100_000
QUESTIONS = 20
WORDS_PER_QUESTION = 8
RAREST_FIRST_RANK = 10
"""A question's words are not the ten most common ones: those are its stop words."""


def main(node_count: int) -> None:
    """Print the table.

    Args:
        node_count: how many nodes to index, at least 1,000.
    """
    from rank_bm25 import BM25Okapi

    chance = np.random.default_rng(0)
    documents = {key: random_words(chance, TOKENS_PER_NODE) for key in range(node_count)}
    questions = [random_words(chance, WORDS_PER_QUESTION, RAREST_FIRST_RANK) for _ in range(QUESTIONS)]
    with TemporaryDirectory() as place:
        folder = Path(place)
        print(f"{node_count:,} nodes of {TOKENS_PER_NODE} tokens")
        report("build from token lists", seconds(lambda: build_lexical(folder / "a", documents)))
        changed = {key: random_words(chance, TOKENS_PER_NODE) for key in range(20)}
        report("patch 20 nodes", seconds(lambda: patch_lexical(folder / "a", folder / "b", changed.keys(), changed)))
        report("load", median(seconds(lambda: LexicalIndex.open(folder / "a")) for _ in range(20)))
        index = LexicalIndex.open(folder / "a")
        report("verify", seconds(lambda: index.verify(documents.keys())))

        bm25 = BM25Okapi(list(documents.values()))
        truth = [bm25.get_scores(question) for question in questions]
        difference = max(error(index, question, scores) for question, scores in zip(questions, truth, strict=True))
        postings = sum(term.documents for asked in questions for term in index.search(asked, 1).terms)
        ours = median(seconds(partial(index.search, asked, 60)) for asked in questions * 5)
        theirs = median(seconds(partial(bm25.get_scores, asked)) for asked in questions[:5])
        report("search for the 60 best", ours)
        report("get_scores", theirs)
        report("coverage of 60 nodes", median(seconds(partial(index.coverage, q, range(60))) for q in questions))
        print(f"{'postings of a question':<28}{postings / len(questions) / node_count:>12.2f} x the nodes")
        print(f"{'ratio':<28}{theirs / ours:>12,.0f} x (at least 500 at 100,000 nodes)")
        print(f"{'largest difference':<28}{difference:>12.1e}   (at most 1e-9)")


def random_words(chance: np.random.Generator, count: int, first: int = 1) -> list[str]:
    """Words by Zipf's law, the k-th most common one about 1/k as common as the first, from rank `first` on."""
    ranks = (first * np.exp(chance.random(count) * np.log(VOCABULARY / first))).astype(int)
    return [f"word{rank}" for rank in ranks]


def error(index: LexicalIndex, question: Sequence[str], scores: np.ndarray) -> float:
    """The largest difference between the index's scores and those of get_scores."""
    ours = np.zeros(len(scores))
    for key, score in index.search(question, len(scores)).ranking:
        ours[key] = score
    return float(np.abs(ours - scores).max())


def seconds(action: Callable[[], object]) -> float:
    """How long it takes, on the wall."""
    begin = perf_counter()
    action()
    return perf_counter() - begin


def report(name: str, duration: float) -> None:
    """Print one line."""
    print(f"{name:<28}{1_000 * duration:>12,.3f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
