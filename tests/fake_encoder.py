"""An encoder without a model: it hashes words into a vector, so that nearness means shared words."""

import re
import zlib
from collections.abc import Sequence
from functools import cache

import numpy as np

from retriever.types import Encoder, FloatMatrix

_WORD = re.compile(r"\w+|[^\w\s]")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|s|e)$")
_SAYS_NOTHING = re.compile(r"an?|and|are|as|at|be|by|can|do|for|from|how|i[nst]|o[fnr]|that|the|this|to|what|with|\W+")


class FakeEncoder:
    """Unit vectors of 64 numbers; texts that share words (but for their endings) are near, others are not."""

    dimension = 64

    def __init__(self, *, fingerprint: str = "fa4e" * 4, max_tokens: int = 256) -> None:
        self.fingerprint = fingerprint
        self.max_tokens = max_tokens
        self.encoded = 0
        """How many documents and questions it has encoded so far."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """A word, or a mark of punctuation, is a token."""
        return [len(_WORD.findall(text)) for text in texts]

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        self.encoded += len(texts)
        matrix = np.empty((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            matrix[row] = _unit_vector(text)
        return matrix

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        return self.encode_documents(texts)


class CrowdedEncoder:
    """Another encoder with one direction added to all vectors, so that their cosines lie between .7 and 1."""

    COMMON = 0.73  # of the square of a length

    def __init__(self, encoder: Encoder) -> None:
        self.own, self.fingerprint = encoder, f"c4{encoder.fingerprint[2:]}"
        self.max_tokens, self.count_tokens = encoder.max_tokens, encoder.count_tokens
        self.dimension = 2 * encoder.dimension
        # Uneven, so that rounding to int8 does not lengthen or shorten it for a whole text.
        direction = np.random.default_rng(1).uniform(-1, 1, encoder.dimension)
        self.direction = direction / np.linalg.norm(direction)

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        return self._crowd(self.own.encode_documents(texts))

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        return self._crowd(self.own.encode_queries(texts))

    def _crowd(self, vectors: FloatMatrix) -> FloatMatrix:
        added = np.tile(self.direction * self.COMMON**0.5, (len(vectors), 1))
        crowded: FloatMatrix = np.hstack([vectors * (1 - self.COMMON) ** 0.5, added]).astype(np.float32)
        return crowded


def _unit_vector(text: str) -> FloatMatrix:
    """(64,) float32: the sum of the words' directions; a text that says nothing points along the first axis."""
    words = [_ENDING.sub("", word) for word in _WORD.findall(text.lower()) if not _SAYS_NOTHING.fullmatch(word)]
    total = np.sum([_direction(word) for word in words], axis=0) if words else np.eye(FakeEncoder.dimension)[0]
    unit: FloatMatrix = (total / np.linalg.norm(total)).astype(np.float32)
    return unit


@cache
def _direction(word: str) -> FloatMatrix:
    seed = zlib.crc32(word.encode(errors="surrogatepass"))
    return np.random.default_rng(seed).standard_normal(FakeEncoder.dimension).astype(np.float32)
