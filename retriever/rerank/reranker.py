"""What a reranker is given, and what it gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RerankInput:
    """What a reranker reads of a candidate: words of the documents alone, none that a model made up."""

    titles: str  # the breadcrumb and its own title, outermost first, with ` > ` between
    text: str  # the passage that matched with the text around it, a limited number of characters of the section

    @property
    def joined(self) -> str:
        """The titles first, because the text may be cut at its end."""
        return f"{self.titles}\n{self.text}"


@dataclass(frozen=True, slots=True)
class RerankOutput:
    scores: tuple[float, ...]  # 0 to 1, one for each input, in their order; higher is better
    note: str  # what that took, in a few words


class Reranker(Protocol):
    """A question and candidates in, scores out."""

    @property
    def scale(self) -> str:
        """What the scores are."""

    def score(self, question: str, candidates: Sequence[RerankInput], seconds: float | None = None) -> RerankOutput:
        """Score each candidate, which come best first; `seconds`: the longest wait, None for its own limits."""


def rank_value(rank: int) -> float:
    """1 / log2(1 + rank), from rank 1: the discount of DCG (Järvelin and Kekäläinen, TOIS 2002); .2 at 30."""
    return 1.0 / log2(1 + rank)
