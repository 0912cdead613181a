"""A cross-encoder as reranker: it reads the question and one candidate together; needs the extra `models` (torch).

Nogueira and Cho, "Passage Re-ranking with BERT", 2019.
"""

import json
import time
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from retriever.display.phrases import pluralize
from retriever.embedding.sentence_transformers import find_model_folder, silence_progress_bars
from retriever.errors import EncoderError, RerankerError
from retriever.rerank.stage import RerankInput, RerankOutput
from retriever.settings.schema import RerankSettings

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

LOAD_SECONDS = 10.0  # PyTorch and sentence-transformers take 5 s to import, a model of 1 to 2 GB some more


class CrossEncoderReranker:
    """Scores from PyTorch, on a GPU in half precision where there is one. Nothing is downloaded."""

    scale = "cross-encoder, 0 to 1"

    def __init__(self, settings: RerankSettings) -> None:
        """The model is looked for, and loaded, when it is first needed."""
        self._settings = settings
        self._batch_size = settings.batch_size
        self.start_s = LOAD_SECONDS  # 0 once the model is loaded
        self._scores: LRUCache[bytes, float] = LRUCache(maxsize=20_000)

    def score(self, question: str, candidates: Sequence[RerankInput], seconds: float | None = None) -> RerankOutput:
        """As `Reranker.score`; of each pair of texts, the first `max_length` tokens are read. RerankerError."""
        deadline = None if seconds is None else time.monotonic() + seconds
        # The titles come first, because the passage may be cut at `max_length`.
        texts = [f"{candidate.titles}\n{candidate.text}" for candidate in candidates]
        keys = [sha256(json.dumps([question, text]).encode()).digest() for text in texts]
        scores = {key: self._scores[key] for key in keys if key in self._scores}
        cached = len(scores)
        # Longest first: a batch takes as long as its longest text, and the first shows whether the memory is enough.
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in scores}
        to_read = sorted(missing, key=lambda key: -len(missing[key]))
        note = f"{pluralize(len(candidates), 'candidate')}, {len(to_read)} read, {cached} cached"
        while to_read:
            if deadline is not None and time.monotonic() >= deadline:
                raise RerankerError("the time for reranking is over")
            batch, to_read = to_read[: self._batch_size], to_read[self._batch_size :]
            new = zip(batch, self._predict(question, [missing[key] for key in batch]), strict=True)
            for key, score in new:
                scores[key] = self._scores[key] = score
        return RerankOutput(tuple(scores[key] for key in keys), note)

    def _predict(self, question: str, texts: Sequence[str]) -> list[float]:
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
                return check_scores(rows, len(texts), self._settings.model)
            except torch.OutOfMemoryError as error:
                if self._batch_size == 1:
                    raise RerankerError(f"the memory is too small for {self._settings.model}") from error
                self._batch_size //= 2
                torch.cuda.empty_cache()  # does nothing without a GPU
            except (RuntimeError, ValueError, IndexError) as error:
                raise RerankerError(f"{self._settings.model} failed: {error}") from error

    @cached_property
    def _model(self) -> "CrossEncoder":
        silence_progress_bars()
        try:
            from sentence_transformers import CrossEncoder  # 5 s, with torch
        except ModuleNotFoundError as error:
            if error.name not in {"sentence_transformers", "torch"}:  # it is there, and broken
                raise
            how = "run: uv sync --extra models"
            raise RerankerError(f"rerank.kind cross-encoder needs the extra `models`; {how}") from error
        from safetensors import SafetensorError

        folder, settings = self._folder, self._settings
        try:
            model = CrossEncoder(
                str(folder), local_files_only=True, trust_remote_code=False, max_length=settings.max_length
            )
        except (OSError, ValueError, KeyError, RuntimeError, TypeError, SafetensorError) as error:
            raise RerankerError(f"{folder} cannot be loaded: {error}") from error
        if model.device.type != "cpu":
            model.half()
        self.start_s = 0.0
        return model

    @cached_property
    def _folder(self) -> Path:
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


def find_problem(settings: RerankSettings) -> tuple[str, str]:
    """Why the cross-encoder cannot be used, and what to do about it; both empty where all is there. Loads nothing."""
    if find_spec("sentence_transformers") is None:
        return "rerank.kind cross-encoder needs the extra `models`", "uv sync --extra models"
    try:
        find_model_folder(settings.model, owner="cross-encoder")
    except EncoderError as error:
        return error.message, str(error.hint or "")
    return "", ""


def check_scores(rows: npt.ArrayLike, count: int, model: str) -> list[float]:
    scores = np.asarray(rows, dtype=np.float64)
    if scores.shape != (count,) or not np.all((scores >= 0) & (scores <= 1)):
        raise RerankerError(f"{model} gave no score from 0 to 1 for each of {count} texts")
    return [float(score) for score in scores]
