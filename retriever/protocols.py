"""Protocols of what a caller may bring: an embedding model, a progress reporter."""

from collections.abc import Sequence
from typing import Protocol

from retriever.types import FloatMatrix


class Encoder(Protocol):
    """Texts in, unit vectors out."""

    @property
    def fingerprint(self) -> str:
        """Names the vectors' space: two encoders with one fingerprint give the same vectors (16 hex digits)."""

    @property
    def dimension(self) -> int:
        """The length of a vector."""

    @property
    def max_tokens(self) -> int:
        """How many tokens of a text are read, special ones included; what follows them would be lost."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the length of each text in tokens, special ones included, without any cut."""

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Return (n, d) float32, unit rows, in the order of the texts.

        Raises:
            EncoderError: the model cannot be loaded or reached, or gave something that is no vector.
        """

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Do as `encode_documents` for questions (some models want another prefix)."""


class Progress(Protocol):
    """Told how far long work has come; its stages: `reading`, `words`, `embedding`, ..."""

    def start(self, stage: str, total: int, unit: str) -> None:
        """Report that a stage of `total` units begins."""

    def advance(self, stage: str, done: int) -> None:
        """Report that `done` of its units are done."""

    def finish(self, stage: str) -> None:
        """Report that it is over."""
