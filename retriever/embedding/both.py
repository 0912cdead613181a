"""One space of vectors by both bundled models, for folders of English and other languages."""

from collections.abc import Callable, Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt

from retriever.embedding.encoder import fingerprint, measure_foreign, unit_rows
from retriever.embedding.onnx import OnnxEncoder
from retriever.types import FloatMatrix

ENGLISH_SHARE = 0.5  # of the cosine of English with English
UNRELATED = 0.3  # the English cosine that counts where a text is not English: of what is nearest and about nothing
MARKS = 16  # numbers that share a mark of texts: one alone would be so large that the others are rounded away beside it


class BothEncoder:
    """Embeds English texts by both models, others by the multilingual one alone.

    With e the English model's cosine and m the multilingual one's, w the share of the first and u an unrelated e, the
    product of question and text is

        w e + (1 - w) m    if both are English
        w u + (1 - w) m    if only the question is
        (1 - w) m          if the question is not

    so that each language keeps its order, and to no question is one language nearer than another. A vector is

        sqrt(1 - w) multilingual | sqrt(w) English | mark of a text | mark of a question

    where what is not English has zeros for English and, for the length that it lacks, its mark.
    """

    bundled_as = "both"
    name = "sections-minilm-3, sections-multilingual-1"

    def __init__(self, english: OnnxEncoder, multilingual: OnnxEncoder) -> None:
        """Take the models; each is loaded when it is first needed."""
        self._english = english
        self.multilingual = multilingual
        self.fingerprint = fingerprint((english.fingerprint, multilingual.fingerprint, ENGLISH_SHARE, UNRELATED, MARKS))
        self.shared = multilingual.dimension
        """How many numbers texts in all languages have; they stand first."""
        self._marks = self.shared + english.dimension
        """Where the marks begin."""
        self.dimension = self._marks + MARKS + 1

    @property
    def max_tokens(self) -> int:
        """Return how many tokens of a text both models read, special ones included."""
        return min(self._english.max_tokens, self.multilingual.max_tokens)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the length of each text by the model that has more tokens for it, special ones included."""
        return list(map(max, self._english.count_tokens(texts), self.multilingual.count_tokens(texts)))

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Return (n, d) float32, unit rows, in the order of the texts; errors as `OnnxEncoder`."""
        rows, is_english = self._join(texts, OnnxEncoder.encode_documents)
        rows[~is_english, self._marks : -1] = (ENGLISH_SHARE / MARKS) ** 0.5
        return rows

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Do as `encode_documents` for questions."""
        rows, is_english = self._join(texts, OnnxEncoder.encode_queries)
        rows[is_english, self._marks : -1] = UNRELATED * (ENGLISH_SHARE / MARKS) ** 0.5
        rows[~is_english, -1] = (ENGLISH_SHARE + UNRELATED**2 * ENGLISH_SHARE) ** 0.5
        return unit_rows(rows, len(texts))

    def measure_lift(self, question: FloatMatrix) -> float:
        """Return what a question's vector, (d,), adds to its product with every text that is not English.

        >>> from retriever.embedding import open_bundled
        >>> from retriever.settings import EncoderSettings
        >>> both = open_bundled(EncoderSettings(), "both")
        >>> (question,) = both.encode_queries(["how do I restore a file?"])
        >>> (text,) = both.encode_documents(["Eine Datei wiederherstellen"])
        >>> by_meaning = question[: both.shared] @ text[: both.shared]
        >>> round(float(question @ text - both.measure_lift(question) - by_meaning), 5) + 0
        0.0
        """
        return float(question[self._marks : -1].sum() * (ENGLISH_SHARE / MARKS) ** 0.5)

    def _join(
        self, texts: Sequence[str], encode: Callable[[OnnxEncoder, Sequence[str]], FloatMatrix]
    ) -> tuple[FloatMatrix, npt.NDArray[np.bool_]]:
        """Return rows without marks, and which of them are English."""
        is_english: npt.NDArray[np.bool_] = np.array([not measure_foreign([text]) for text in texts], bool)
        rows = np.zeros((len(texts), self.dimension), np.float32)
        if english := list(compress(texts, is_english)):
            rows[is_english, self.shared : self._marks] = ENGLISH_SHARE**0.5 * encode(self._english, english)
        rows[:, : self.shared] = (1 - ENGLISH_SHARE) ** 0.5 * encode(self.multilingual, texts)
        return rows, is_english
