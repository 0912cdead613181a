"""Embedding models on a server: batches, tries, and how an answer is checked."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from retriever.embedding.encoder import (
    CutText,
    Prefixes,
    TokenEncoder,
    bundled_tokens,
    fingerprint,
    served_prefixes,
    unit_rows,
)
from retriever.errors import EncoderError
from retriever.served.server import PAUSES_S, SERVERS
from retriever.settings import EncoderSettings
from retriever.types import FloatMatrix

# The longest wait for a batch while indexing, where a server may be busy, and for a question, where a person waits.
DOCUMENTS_S, QUESTION_S = 120.0, 10.0
DOCUMENT_PAUSES_S = (0.5, 1, 2)  # before the second try, the third ..
BATCH_SIZE = 32  # texts in a request: what is lost with one that fails is little


class RemoteEncoder(TokenEncoder):
    """Unit vectors from a server.

    What the model's tokens are is not known here, so texts are counted by the tokenizer of the bundled model; most
    models' own counts are within a third of that. A text is refused, never cut, when the server's own count says so.
    """

    def __init__(self, settings: EncoderSettings, dimension: int | None = None) -> None:
        """Take what names the server, which is not asked yet, and the length of its vectors where that is known.

        Raises:
            EncoderError: no model is named, or the address may not be asked.
        """
        if not settings.model:
            raise EncoderError("encoder.model: name the server's embedding model, such as nomic-embed-text")
        # OLLAMA_HOST is followed as for the language model; to another machine only where encoder.url names it.
        allow_remote = bool(settings.url)
        self._server = SERVERS[settings.kind]("encoder", settings.model, settings.url, allow_remote)
        self._settings = settings
        self._tokens = bundled_tokens()
        self._known_dimension = dimension

    @cached_property
    def fingerprint(self) -> str:
        """Over the server's kind, the model's name and digest, the dimension, the prefixes and the limit, not the URL.

        Raises:
            EncoderError: as `encode_documents`.
        """
        # Not the URL: the same model behind another address gives the same vectors, and needs no new index.
        limits = self._server.limits()
        identity = self._server.attempt(lambda: self._server.identity(limits))
        return fingerprint((*identity, self.dimension, *self._prefixes, self._limit))

    @cached_property
    def dimension(self) -> int:
        """Return the length of a vector: the index's, or that of a text that is sent to find it.

        Raises:
            EncoderError: as `encode_documents`.
        """
        return self._known_dimension or len(self._ask(["dimension"], None, are_questions=True)[0])

    @cached_property
    def _prefixes(self) -> Prefixes:
        return served_prefixes(self._settings)

    @property
    def _limit(self) -> int:
        return self._settings.max_tokens

    def measure_known(self, text: str) -> float:
        """Return 1: the model's vocabulary is not here."""
        return 1.0

    def _embed(self, texts: Sequence[CutText], *, are_questions: bool) -> FloatMatrix:
        parts = [np.empty((0, self.dimension), dtype=np.float32)]
        for start in range(0, len(texts), BATCH_SIZE):
            batch = [text.text for text in texts[start : start + BATCH_SIZE]]
            # The model may have been changed under its name: two lengths in one index compare with nothing.
            parts.append(self._ask(batch, self.dimension, are_questions=are_questions))
        return np.concatenate(parts)

    def _ask(self, texts: Sequence[str], dimension: int | None, *, are_questions: bool) -> FloatMatrix:
        server = self._server
        limits = server.limits(QUESTION_S if are_questions else DOCUMENTS_S)
        pauses = PAUSES_S if are_questions else DOCUMENT_PAUSES_S
        rows = server.attempt(lambda: server.embed(texts, limits), pauses)
        return unit_rows(rows, len(texts), f"{server.model} at {server.url}", dimension)
