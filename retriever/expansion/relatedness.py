"""Which texts of an expansion are about the question at all: a model may drift away, and a search would follow it.

A text is as related as its vector is near to the question's, on a scale that holds for every model: the cosines of the
question with questions on everything else (`unrelated`), their mean being 0 and their standard deviation 1.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from retriever.embedding.rows import checked_rows
from retriever.indexing.unrelated import UNRELATED_QUESTIONS
from retriever.lexical.tokens import tokenize
from retriever.searching.open_index import View
from retriever.types import Encoder

if TYPE_CHECKING:
    from retriever.types import FloatMatrix

UNRELATED_BELOW = 2.0
"""Standard deviations: of texts about something else, normally distributed, one in forty-four is nearer."""
_vectors_of_unrelated: "dict[str, FloatMatrix]" = {}
"""By the encoder's fingerprint: few models are open in one process."""
SHARED_HITS = 20
"""Sections: without vectors, a text is related when the first so many of its own hits share one with the question's."""


def nearness(vectors: "FloatMatrix", encoder: Encoder) -> list[float]:
    """How near each text is to the question, in standard deviations above unrelated questions.

    Args:
        vectors: (n, d) float32, unit rows, the question's first.
        encoder: that made them.

    Returns:
        n - 1 numbers.

    Raises:
        EncoderError: the embedding model failed.
    """
    unrelated = _unrelated(encoder) @ vectors[0]
    deviation = float(unrelated.std()) or 1.0
    return [(float(cosine) - float(unrelated.mean())) / deviation for cosine in vectors[1:] @ vectors[0]]


def _unrelated(encoder: Encoder) -> "FloatMatrix":
    """(n, d) float32, unit rows; 50 ms with the bundled model, and once for each model."""
    if encoder.fingerprint not in _vectors_of_unrelated:
        rows = checked_rows(encoder.encode_queries(UNRELATED_QUESTIONS), len(UNRELATED_QUESTIONS), encoder.dimension)
        _vectors_of_unrelated[encoder.fingerprint] = rows
    return _vectors_of_unrelated[encoder.fingerprint]


def shares_hits(question: str, texts: Sequence[str], view: View) -> list[bool]:
    """Whether BM25 finds a section for a text that it finds for the question, each among its first."""
    own = _hits(question, view)
    return [bool(own & _hits(text, view)) for text in texts]


def _hits(text: str, view: View) -> frozenset[int]:
    tokens = tokenize(text)
    return frozenset(key for key, _ in view.lexical.search(tokens, SHARED_HITS).ranking) if tokens else frozenset()
