"""The seam to a reranker: what it is shown, and what it says of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Shown:
    """What a reranker is shown of a candidate: words of the documents alone, none that a model made up."""

    titles: str
    """The breadcrumb and its own title, outermost first, with ` > ` between."""
    summary: str
    """At most `final_summary_chars` characters."""
    text: str
    """The passage that matched with what stands around it, at most `final_text_chars` characters of the section."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a reranker says of the candidates."""

    scores: tuple[float, ...]
    """0 to 1, one for each in the order in which they were shown; higher is better."""
    note: str
    """What that took, in a few words."""


class Reranker(Protocol):
    """A question and candidates in, scores out."""

    @property
    def scale(self) -> str:
        """What the scores are."""

    @property
    def start_s(self) -> float:
        """Seconds that it takes before it can judge: what a model that is not loaded yet takes to load."""

    def judge(self, question: str, shown: Sequence[Shown], seconds: float | None = None) -> Judgement:
        """A score for each candidate.

        Args:
            question: in its asker's own words.
            shown: the candidates, best first by the fusion.
            seconds: the longest wait; None for the reranker's own limits.

        Raises:
            GeneratorError: the language model gave nothing that can be used.
            RerankerError: the cross-encoder cannot be used, or took longer.
        """
