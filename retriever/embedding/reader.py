"""The reader: a small cross-encoder that says whether a passage answers a question. It comes with the program.

An encoder sees a question and a text apart; a cross-encoder reads them together, and can tell a passage that answers
from one that has the same words. It reads three passages a question, 10 ms in all, for the verdict alone.
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


class PassageReader:
    """The model in a folder with model.onnx, tokenizer.json and reranker.json; loaded by the first question."""

    def __init__(self, folder: Path = READER) -> None:
        self._folder = folder

    def read(self, question: str, passages: Sequence[tuple[Sequence[str], str]]) -> list[float]:
        """Return a logit for each passage, given with the titles above it: above 0, it answers.

        Each pair is run by itself: what is quantized together shares one scale, so that a score would depend on the
        passages beside it.

        Raises:
            EncoderError: the model cannot be used.
        """
        session, tokenizer = self._model
        texts = [f"{' > '.join(titles[-MAX_TITLES:])}: {text}" for titles, text in passages]
        asked = readable(question[:MAX_QUESTION_CHARS])
        logits = []
        try:
            for pair in tokenizer.encode_batch([(asked, readable(text)) for text in texts]):
                given = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
                (scores,) = session.run(None, {name: np.array([ids]) for name, ids in given.items()})
                logits.append(float(np.asarray(scores).ravel()[0]))
        except onnx_errors() as error:
            raise EncoderError(f"{self._folder / MODEL_NAME} cannot be run: {error}") from error
        return logits

    @cached_property
    def _model(self) -> "tuple[InferenceSession, Tokenizer]":
        from tokenizers import Tokenizer  # 20 ms

        card = RerankerCard.read(self._folder)
        try:
            tokenizer = Tokenizer.from_str((self._folder / TOKENIZER_NAME).read_text(encoding="utf-8"))
        except OSError as error:
            raise EncoderError(f"{self._folder / TOKENIZER_NAME} cannot be read: {error.strerror}") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(card.max_tokens, strategy="only_second")
        return open_session(self._folder / MODEL_NAME, threads=1), tokenizer
