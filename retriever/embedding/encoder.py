"""What encoders do alike: prefixes, counts of tokens, the refusal of long documents, the cut of long questions.

Embedding models want to read such texts as `query: ` and `passage: ` before a question and a document. A library of
models has them in each model's files; a server (Ollama, an OpenAI-compatible one) embeds what it is sent and adds
nothing. Without them a model that was trained with them finds far less: others measured nomic-embed-text at a recall of
.50 for the first hit, where all-MiniLM-L6-v2 has .875.
"""

import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from retriever.embedding.tokenizer import CutText, Tokens
from retriever.errors import EncoderError
from retriever.settings.schema import EncoderSettings
from retriever.types import FloatMatrix

_FAMILIES = Path(__file__).with_name("prefixes.toml")
NO_PREFIX = "none"  # as a setting: nothing, whatever the model asks for


class Prefixes(NamedTuple):
    """Texts that are put before what is encoded; empty: nothing."""

    query: str = ""
    document: str = ""

    def overridden(self, settings: EncoderSettings) -> "Prefixes":
        """Return what the settings say, where they do, else these."""
        given = zip((settings.query_prefix, settings.document_prefix), self, strict=True)
        return Prefixes(*("" if setting == NO_PREFIX else setting or own for setting, own in given))


def find_prefixes(model: str) -> Prefixes | None:
    """Return the prefixes of a model by its name and tag; None for one that is not known.

    >>> find_prefixes("nomic-embed-text:latest").query
    'search_query: '
    """
    name = model.lower().replace("_", "-")
    for family in tomllib.loads(_FAMILIES.read_text(encoding="utf-8"))["family"]:
        if re.search(family.pop("pattern"), name):
            return Prefixes(**family)
    return None


def served_prefixes(settings: EncoderSettings) -> Prefixes:
    """Return the prefixes for a model that a server runs; empty for one that is not known."""
    return (find_prefixes(settings.model) or Prefixes()).overridden(settings)


def describe_prefixes(settings: EncoderSettings) -> str:
    """Return in words what a served model is given before the texts; empty for a model that has its own files."""
    if settings.kind not in {"ollama", "openai"}:
        return ""
    query, document = served_prefixes(settings)
    used = f"{query!r} before questions, {document!r} before documents" if query or document else "none"
    if find_prefixes(settings.model) or (settings.query_prefix and settings.document_prefix):
        return used
    return f"{used}: {settings.model} is not among the known models; see its card and set encoder.query_prefix"


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
        """Return how many tokens of a text are read, special ones included, the prefix not; at least 1."""
        if not any(self._prefixes):
            return self._limit
        alone, *lengths = self._tokens.count(["", *self._prefixes])
        return max(1, self._limit - (max(lengths) - alone))

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
