"""Cross-encoders as int8 ONNX: models that read a question and a text together, and say with one number if it answers.

An encoder sees a question and a text apart; a cross-encoder can tell a passage that answers from one that has the same
words. A small one, the reader, comes with the program: it reads three passages a question, 10 ms in all, for the
verdict alone. Larger ones, whose folders `scripts/export_model.py` makes, rerank.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retriever.embedding.onnx import MODEL_NAME, TOKENIZER_NAME, RerankerCard, onnx_errors, open_session
from retriever.embedding.tokenizer import readable
from retriever.errors import EncoderError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

READER = Path(__file__).parent / "models" / "reader-1"
MAX_QUESTION_CHARS = 300
MAX_TITLES = 3


class CrossEncoder:
    """The model in a folder with model.onnx, tokenizer.json and reranker.json; loaded by the first question."""

    def __init__(self, folder: Path, threads: int = 1, max_tokens: int = 10**6) -> None:
        """Name the folder; `max_tokens` of both texts are read, where the model itself reads no fewer."""
        self._folder = folder
        self._threads = threads
        self._max_tokens = max_tokens

    def score(self, question: str, text: str) -> float:
        """Return a logit, which rises with how well the text answers; what is too long is cut at its end.

        Each pair is run by itself: what is quantized together shares one scale, so that a score would depend on the
        texts beside it.

        Raises:
            EncoderError: the model cannot be used.
        """
        session, tokenizer = self._model
        pair = tokenizer.encode(readable(question), readable(text))
        known = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
        given = {item.name: np.array([known[item.name]]) for item in session.get_inputs()}
        try:
            logits = np.asarray(session.run(None, given)[0])
        except onnx_errors() as error:
            raise EncoderError(f"{self._folder / MODEL_NAME} cannot be run: {error}") from error
        if logits.size != 1 or not np.isfinite(logits).all():
            raise EncoderError(f"{self._folder} gave no single number for a question and a text")
        return float(logits.item())

    @cached_property
    def _model(self) -> "tuple[InferenceSession, Tokenizer]":
        from tokenizers import Tokenizer  # 20 ms

        card = RerankerCard.read(self._folder)
        try:
            tokenizer = Tokenizer.from_str((self._folder / TOKENIZER_NAME).read_text(encoding="utf-8"))
        except OSError as error:
            raise EncoderError(f"{self._folder / TOKENIZER_NAME} cannot be read: {error.strerror}") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(min(card.max_tokens, self._max_tokens))
        return open_session(self._folder / MODEL_NAME, self._threads), tokenizer


class PassageReader:
    """The bundled reader, or another in its form."""

    def __init__(self, folder: Path = READER) -> None:
        self._model = CrossEncoder(folder)

    def read(self, question: str, passages: Sequence[tuple[Sequence[str], str]]) -> list[float]:
        """Return a logit for each passage, given with the titles above it: above 0, it answers; EncoderError."""
        texts = [f"{' > '.join(titles[-MAX_TITLES:])}: {text}" for titles, text in passages]
        return [self._model.score(question[:MAX_QUESTION_CHARS], text) for text in texts]
