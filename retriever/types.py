"""The values that the stages hand to one another, in the order of the flow."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pageindex.node import Span

FloatMatrix = npt.NDArray[np.float32]
"""(n, d) float32."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of a node's own text that fits the encoder."""

    node_id: str
    span: Span
    """The lines it was cut from; a piece of one long line has that line alone."""
    text: str
    """The piece of the node's text; a table that was split begins with its header again."""
    embedded_text: str
    """What the encoder reads: the breadcrumb and title, then `text`. Equal texts share one vector."""


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
        """The length of each text in tokens, special ones included, without any cut."""

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """(n, d) float32, unit rows, in the order of the texts.

        Raises:
            EncoderError: the model cannot be loaded or reached, or gave something that is no vector.
        """

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """As `encode_documents`, for questions (some models want another prefix)."""
