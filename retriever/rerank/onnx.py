"""A cross-encoder as int8 ONNX, run on the CPU without PyTorch; `scripts/export_model.py` makes its folder."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retriever.embedding.onnx import (
    MODEL_NAME,
    TOKENIZER_NAME,
    RerankerCard,
    onnx_errors,
    open_session,
    usable_cores,
)
from retriever.embedding.tokenizer import readable
from retriever.errors import EncoderError, RerankerError
from retriever.rerank.pairs import MAX_LENGTH, PairReranker, check_scores, squash
from retriever.settings.schema import RerankSettings

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer


LOAD_S = 0.3  # ONNX Runtime
LOADED_IN_A_SECOND = 4e8  # bytes, the checksums included; a little less than a laptop does


class OnnxReranker(PairReranker):
    """Scores from a folder with model.onnx, tokenizer.json and reranker.json."""

    # Candidates of about one length are read together, so that little is filled up.

    @property
    def start_s(self) -> float:
        try:
            size = (self._folder / MODEL_NAME).stat().st_size
        except OSError:  # said by `score`
            return 0.0
        return 0.0 if "_model" in self.__dict__ else LOAD_S + size / LOADED_IN_A_SECOND

    def _predict(self, question: str, texts: Sequence[str], seconds: float | None) -> list[float]:
        session, tokenizer = self._model
        encoded = tokenizer.encode_batch([(readable(question), readable(text)) for text in texts])
        shape = len(encoded), max(map(len, encoded))
        known = {name: np.zeros(shape, dtype=np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
        for row, pair in enumerate(encoded):
            known["input_ids"][row, : len(pair)] = pair.ids
            known["attention_mask"][row, : len(pair)] = 1
            known["token_type_ids"][row, : len(pair)] = pair.type_ids
        wanted = {item.name: known[item.name] for item in session.get_inputs() if item.name in known}
        try:
            logits = np.asarray(session.run(None, wanted)[0])
        except onnx_errors() as error:
            raise RerankerError(f"{self._folder / MODEL_NAME} cannot be run: {error}") from error
        scores = squash(logits[:, 0]) if logits.shape == (len(texts), 1) else logits
        return check_scores(scores, len(texts), str(self._folder))

    @cached_property
    def _model(self) -> "tuple[InferenceSession, Tokenizer]":
        from tokenizers import Tokenizer  # 20 ms

        folder = self._folder
        try:
            card = RerankerCard.read(folder)
            card.verify(folder)
            tokenizer = Tokenizer.from_str((folder / TOKENIZER_NAME).read_text(encoding="utf-8"))
            session = open_session(folder / MODEL_NAME, usable_cores())
        except EncoderError as error:
            raise RerankerError(f"rerank.model: {error}") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(min(card.max_tokens, MAX_LENGTH))
        return session, tokenizer

    @property
    def _folder(self) -> Path:
        return Path(self._settings.model).expanduser()


def find_problem(settings: RerankSettings) -> str:
    """Return why the model cannot be used, its files having been compared with their checksums; empty where it can."""
    try:
        OnnxReranker(settings)._model  # noqa: B018 - it is loaded
    except RerankerError as error:
        return str(error)
    return ""
