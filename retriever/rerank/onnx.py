"""A cross-encoder as int8 ONNX, run on the CPU without PyTorch; `scripts/export_model.py` makes its folder.

Nogueira and Cho, "Passage Re-ranking with BERT", 2019.
"""

import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from retriever.display.phrases import pluralize
from retriever.embedding.cross_encoder import CrossEncoder
from retriever.embedding.onnx import usable_cores
from retriever.errors import RerankerError
from retriever.rerank.reranker import RerankInput, RerankOutput
from retriever.settings.schema import RerankSettings

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
