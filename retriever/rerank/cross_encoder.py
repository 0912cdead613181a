"""A cross-encoder as reranker: it reads the question and one candidate together; needs the extra `models` (torch).

Nogueira and Cho, "Passage Re-ranking with BERT", 2019.
"""

import json
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from retriever.display.phrases import counted
from retriever.embedding.sentence_transformers import find_model_folder
from retriever.errors import EncoderError, RerankerError
from retriever.rerank.remembered import Remembered, digest
from retriever.rerank.reranker import Judgement, Shown
from retriever.settings.stages import RerankSettings

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

REMEMBERED_SCORES = 20_000
LOAD_S = 10.0
"""PyTorch and sentence-transformers take 5 s to import, a model of 1 to 2 GB some more."""

_Pair = tuple[bytes, bytes]
"""The digests of a question and of what is read of a candidate; the model is always the same."""


class CrossEncoderReranker:
    """Scores from PyTorch, on a GPU in half precision where there is one. Nothing is downloaded."""

    scale = "cross-encoder, 0 to 1"

    def __init__(self, settings: RerankSettings) -> None:
        """The model is looked for, and loaded, when it is first needed."""
        self._settings = settings
        self._batch_size = settings.batch_size
        self._remembered: Remembered[_Pair, float] = Remembered(REMEMBERED_SCORES)

    @property
    def start_s(self) -> float:
        """0 once the model is loaded."""
        return 0.0 if "_model" in self.__dict__ else LOAD_S

    def judge(self, question: str, shown: Sequence[Shown], seconds: float | None = None) -> Judgement:
        """As `Reranker.judge`; of a question and a candidate together, the first `max_length` tokens are read.

        Raises:
            RerankerError: the extra or the model is missing, it is no reranker, it fails, or the seconds are over.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        pairs = [(digest(question), digest(_read(candidate))) for candidate in shown]
        texts = dict(zip(pairs, map(_read, shown), strict=True))
        scores = {pair: self._remembered.get(pair) for pair in pairs}
        # Longest first: a batch takes as long as its longest text, and the first shows whether the memory is enough.
        todo = sorted((pair for pair, score in scores.items() if score is None), key=lambda pair: -len(texts[pair]))
        note = f"{counted(len(shown), 'candidate')}, {len(todo)} read, {len(scores) - len(todo)} remembered"
        while todo:
            if deadline is not None and time.monotonic() >= deadline:
                raise RerankerError("the time for reranking is over")
            batch, todo = todo[: self._batch_size], todo[self._batch_size :]
            for pair, score in zip(batch, self._scores(question, [texts[pair] for pair in batch]), strict=True):
                scores[pair] = score
                self._remembered.put(pair, score)
        return Judgement(tuple(scores[pair] or 0.0 for pair in pairs), note)

    def _scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """One score for each text; the batches are halved, and stay so, when the memory is not enough."""
        model = self._model
        import torch  # after the model, which says what to do where it is missing

        while True:
            try:
                rows = model.predict(
                    [(question, text) for text in texts],
                    batch_size=self._batch_size,
                    show_progress_bar=False,
                    activation_fn=torch.nn.Sigmoid(),
                )
                return checked_scores(rows, len(texts), self._settings.model)
            except torch.OutOfMemoryError as error:
                if self._batch_size == 1:
                    raise RerankerError(f"the memory is too small for {self._settings.model}") from error
                self._batch_size //= 2
                torch.cuda.empty_cache()  # does nothing without a GPU
            except (RuntimeError, ValueError, IndexError) as error:
                raise RerankerError(f"{self._settings.model} failed: {error}") from error

    @cached_property
    def _model(self) -> "CrossEncoder":
        try:
            from sentence_transformers import CrossEncoder  # 5 s, with torch
        except ModuleNotFoundError as error:
            if error.name not in {"sentence_transformers", "torch"}:  # it is there, and broken
                raise
            how = "run: uv sync --extra models"
            raise RerankerError(f"rerank.kind cross-encoder needs the extra `models`; {how}") from error
        model = self._loaded(CrossEncoder)
        if model.device.type != "cpu":
            model.half()
        return model

    def _loaded(self, kind: type["CrossEncoder"]) -> "CrossEncoder":
        from safetensors import SafetensorError

        folder = self._folder
        try:
            return kind(
                str(folder), local_files_only=True, trust_remote_code=False, max_length=self._settings.max_length
            )
        except (OSError, ValueError, KeyError, RuntimeError, TypeError, SafetensorError) as error:
            raise RerankerError(f"{folder} cannot be loaded: {error}") from error

    @cached_property
    def _folder(self) -> Path:
        """Where the model lies.

        Raises:
            RerankerError: nowhere on this machine; or what lies there gives no score for a pair of texts.
        """
        try:
            folder = find_model_folder(self._settings.model, owner="cross-encoder")
        except EncoderError as error:
            raise RerankerError(str(error)) from error
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            architectures, labels = list(config["architectures"]), config.get("id2label", {"0": ""})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RerankerError(f"{folder} holds no model: config.json names no architecture") from error
        # Any other would be loaded with a last layer of random numbers, and rank at random.
        if not any(str(name).endswith("ForSequenceClassification") for name in architectures) or len(labels) != 1:
            raise RerankerError(f"{self._settings.model} is no reranker: it gives no single score for two texts")
        return folder


def checked_scores(rows: npt.ArrayLike, count: int, model: str) -> list[float]:
    """Numbers of 0 to 1, one for each text.

    Raises:
        RerankerError: they are not.
    """
    scores = np.asarray(rows, dtype=np.float64)
    if scores.shape != (count,) or not np.all((scores >= 0) & (scores <= 1)):
        raise RerankerError(f"{model} gave no score from 0 to 1 for each of {count} texts")
    return [float(score) for score in scores]


def _read(candidate: Shown) -> str:
    """What the model reads of a candidate: its passage may be cut at `max_length`, so its titles come first."""
    return f"{candidate.titles}\n{candidate.text}"
