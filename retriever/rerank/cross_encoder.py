"""A cross-encoder as reranker: it reads the question and one candidate together; needs the extra `models` (torch).

Nogueira and Cho, "Passage Re-ranking with BERT", 2019.
"""

import json
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.embedding.sentence_transformers import find_model_folder, silence_progress_bars
from retriever.errors import EncoderError, RerankerError
from retriever.invocation import name_installer
from retriever.rerank.pairs import MAX_LENGTH, PairReranker, check_scores
from retriever.settings.schema import RerankSettings

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

LOAD_SECONDS = 10.0  # PyTorch and sentence-transformers take 5 s to import, a model of 1 to 2 GB some more


class CrossEncoderReranker(PairReranker):
    """Scores from PyTorch, on a GPU in half precision where there is one. Nothing is downloaded."""

    @property
    def start_s(self) -> float:
        return 0.0 if "_model" in self.__dict__ else LOAD_SECONDS

    def _predict(self, question: str, texts: Sequence[str], seconds: float | None) -> list[float]:
        """Return one score for each text; the batches are halved, and stay so, when the memory is not enough."""
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
            raise RerankerError(
                f"rerank.kind cross-encoder needs the extra `models`; run: {name_installer('models')}"
            ) from error
        from safetensors import SafetensorError

        folder = self._folder
        try:
            model = CrossEncoder(str(folder), local_files_only=True, trust_remote_code=False, max_length=MAX_LENGTH)
        except (OSError, ValueError, KeyError, RuntimeError, TypeError, SafetensorError) as error:
            raise RerankerError(f"{folder} cannot be loaded: {error}") from error
        if model.device.type != "cpu":
            model.half()
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
    """Return why the cross-encoder cannot be used, and what to do; both empty where all is there. Load nothing."""
    if find_spec("sentence_transformers") is None:
        return "rerank.kind cross-encoder needs the extra `models`", name_installer("models")
    try:
        find_model_folder(settings.model, owner="cross-encoder")
    except EncoderError as error:
        return error.message, str(error.hint or "")
    return "", ""
