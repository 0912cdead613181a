"""What the rerankers share that score one candidate after another: what they read, what they remember, their time."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from retriever.display.phrases import pluralize
from retriever.errors import RerankerError
from retriever.rerank.reranker import RerankInput, RerankOutput
from retriever.settings.schema import RerankSettings

BATCH_SIZE = 8  # candidates that are read at once: more fill the memory and are no faster on a CPU
MAX_LENGTH = 512  # tokens of a question and a candidate together: what the models were trained with


class PairReranker(ABC):
    """Scores from 0 to 1 for a question beside each text; those of before are remembered."""

    scale = "cross-encoder, 0 to 1"

    def __init__(self, settings: RerankSettings) -> None:
        """Name the model, which is looked for, and loaded, when it is first needed."""
        self._settings = settings
        self._batch_size = BATCH_SIZE
        self._scores: LRUCache[bytes, float] = LRUCache(maxsize=20_000)

    @property
    def start_s(self) -> float:
        """As `Reranker.start_s`."""
        return 0.0

    @abstractmethod
    def _predict(self, question: str, texts: Sequence[str], seconds: float | None) -> list[float]:
        """Return one score for each text of a batch; RerankerError."""

    def _normalize(self, scores: Sequence[float]) -> Sequence[float]:
        """Return what `_predict` gave, from 0 to 1."""
        return scores

    def score(self, question: str, candidates: Sequence[RerankInput], seconds: float | None = None) -> RerankOutput:
        """As `Reranker.score`; RerankerError."""
        deadline = None if seconds is None else time.monotonic() + seconds
        # The titles come first, because the passage may be cut at MAX_LENGTH tokens.
        texts = [f"{candidate.titles}\n{candidate.text}" for candidate in candidates]
        keys = [sha256(json.dumps([question, text]).encode()).digest() for text in texts]
        scores = {key: self._scores[key] for key in keys if key in self._scores}
        cached = len(scores)
        # Longest first: a batch takes as long as its longest text, and the first shows whether the memory is enough.
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in scores}
        to_read = sorted(missing, key=lambda key: -len(missing[key]))
        note = f"{pluralize(len(candidates), 'candidate')}, {len(to_read)} read, {cached} cached"
        while to_read:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise RerankerError("the time for reranking is over")
            batch, to_read = to_read[: self._batch_size], to_read[self._batch_size :]
            new = zip(batch, self._predict(question, [missing[key] for key in batch], left), strict=True)
            for key, score in new:
                scores[key] = self._scores[key] = score
        return RerankOutput(tuple(self._normalize([scores[key] for key in keys])), note)


def check_scores(rows: npt.ArrayLike, count: int, model: str) -> list[float]:
    scores = np.asarray(rows, dtype=np.float64)
    if scores.shape != (count,) or not np.all((scores >= 0) & (scores <= 1)):
        raise RerankerError(f"{model} gave no score from 0 to 1 for each of {count} texts")
    return [float(score) for score in scores]


def squash(logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the logistic function, 0 to 1: what cross-encoders of one output are trained under."""
    return 1.0 / (1.0 + np.exp(-np.clip(np.asarray(logits, dtype=np.float64), -500, 500)))
