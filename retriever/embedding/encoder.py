"""What encoders do alike: prefixes, counts of tokens, the refusal of long documents, the cut of long questions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

from retriever.embedding.prefixes import Prefixes
from retriever.embedding.tokenizer import CutText, Tokens
from retriever.errors import EncoderError
from retriever.types import FloatMatrix


class TokenEncoder(ABC):
    """An encoder whose texts are counted and cut by tokens; a subclass gives the vectors."""

    _tokens: Tokens

    @property
    @abstractmethod
    def _prefixes(self) -> Prefixes: ...

    @property
    @abstractmethod
    def _limit(self) -> int:
        """Return how many tokens of a text with its prefix are read, special ones included."""

    @abstractmethod
    def _embed(self, texts: Sequence[CutText], *, are_questions: bool) -> FloatMatrix:
        """Return (n, d) float32, unit rows, of texts that have their prefixes and fit; EncoderError."""

    @cached_property
    def max_tokens(self) -> int:
        """Return how many tokens of a text are read, special ones included, the prefix not.

        Raises:
            EncoderError: the prefixes leave hardly any.
        """
        if not any(self._prefixes):
            return self._limit
        alone, *lengths = self._tokens.count(["", *self._prefixes])
        room = self._limit - (max(lengths) - alone)
        if room < self._limit // 2:
            taken = f"{self._limit - room} of its {self._limit} tokens"
            raise EncoderError(f"the encoder's prefixes take {taken}: shorten them")
        return room

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the length of each text in tokens, special ones included, without any cut."""
        return self._tokens.count(texts)

    def measure_known(self, text: str, *, in_english: bool = True) -> float:
        """Return which share of a text the model knows, 0 to 1 (`Tokens.measure_known`)."""
        return self._tokens.measure_known(text, in_english=in_english)

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Return (n, d) float32, unit rows, in the order of the texts.

        Raises:
            EncoderError: a text is longer than `max_tokens`, or the model cannot be used.
        """
        prefixed = [self._prefixes.document + text for text in texts]
        read = [CutText(*pair) for pair in zip(prefixed, self._tokens.ids(prefixed), strict=True)]
        for position, text in enumerate(read):  # nothing of a document is cut in silence
            if (length := len(text.ids)) > self._limit:
                what = f"text {position} has {length} tokens and the encoder reads {self._limit}"
                raise EncoderError(f"{what}: cut it into chunks")
        return self._embed(read, are_questions=False)

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """As `encode_documents`, but of a longer question the first `max_tokens` tokens are read: see `unread_tokens`.

        Raises:
            EncoderError: the model cannot be used.
        """
        read = [self._tokens.cut(self._prefixes.query + text, self._limit) for text in texts]
        return self._embed(read, are_questions=True)
