"""What a reranker is given, and what it gives; a cross-encoder of this machine as one, run without PyTorch."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from retriever.display.phrases import pluralize
from retriever.embedding.cross_encoder import CrossEncoder
from retriever.embedding.onnx import usable_cores
from retriever.errors import RerankerError
from retriever.settings.schema import RerankSettings


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


MAX_TOKENS = 512  # of a question and a candidate together: what the models were trained with


class OnnxReranker:
    """Scores from a folder with model.onnx, tokenizer.json and reranker.json."""

    scale = "cross-encoder, 0 to 1"

    def __init__(self, settings: RerankSettings) -> None:
        """Name the model, which is loaded when it is first needed."""
        self._model = CrossEncoder(Path(settings.model).expanduser(), usable_cores(), MAX_TOKENS)

    def score(self, question: str, candidates: Sequence[RerankInput], seconds: float | None = None) -> RerankOutput:
        """As `Reranker.score`; EncoderError where the model cannot be used."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        logits = []
        for candidate in candidates:
            if time.monotonic() > deadline:
                raise RerankerError("the time for reranking is over")
            logits.append(self._model.score(question, candidate.joined))
        return RerankOutput(squash(logits), pluralize(len(candidates), "candidate"))


def squash(logits: npt.ArrayLike) -> tuple[float, ...]:
    """Return the logistic function, 0 to 1: what cross-encoders of one output are trained under."""
    return tuple((1.0 / (1.0 + np.exp(-np.clip(np.asarray(logits, dtype=np.float64), -500, 500)))).tolist())
