"""Embedding models on a server: batches, tries, and what is believed of an answer."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TypeVar

import numpy as np

from retriever.embedding import BUNDLED_MODEL
from retriever.embedding.prefixes import served_prefixes
from retriever.embedding.tokenizer import Prefixes, Tokens, fingerprint, refuse_longer, unit_rows
from retriever.errors import EncoderError
from retriever.served.address import find_key, ollama_url, server_url
from retriever.served.ollama import OllamaServer
from retriever.served.openai import OpenAIServer
from retriever.served.server import BUSY, ModelServer, may_pass
from retriever.served.transport import (
    Limits,
    OverdueError,
    RefusedError,
    ServedError,
    SilentError,
    StrangeAnswerError,
    TooLargeError,
    one_line,
)
from retriever.settings.schema import EncoderSettings
from retriever.types import FloatMatrix

T = TypeVar("T")

CONNECT_S = {"ollama": 0.5, "openai": 5.0}
# The longest wait for a batch while indexing, where a server may be busy, and for a question, where a person waits.
DOCUMENTS_S, QUESTION_S = 120.0, 10.0
BATCH_SIZE = 16  # texts in a request: what is lost with one that fails is little
DOCUMENT_PAUSES_S, QUESTION_PAUSES_S = (0.5, 1, 2), (0.3,)  # before the second try, the third ..
TOO_LONG = frozenset({400, 413, 422, 500})  # what servers say of a text that is too long


def open_remote(settings: EncoderSettings, dimension: int | None = None) -> "RemoteEncoder":
    """Return the encoder of a model on a server, which is not asked yet.

    Raises:
        EncoderError: no model is named, or the URL is none.
    """
    if not settings.model:
        raise EncoderError("encoder.model: name the server's embedding model, such as nomic-embed-text")
    if settings.kind == "openai" and not settings.url:
        raise EncoderError("encoder.url: name the server, such as http://127.0.0.1:8080/v1; all texts are sent to it")
    try:
        # OLLAMA_HOST is followed as for the language model; to another machine only where encoder.url names it.
        is_named = settings.url or settings.kind == "openai"
        url = server_url(settings.url) if is_named else ollama_url("", allow_remote=False)
        key = find_key(settings.api_key_env, url) if settings.kind == "openai" else ""
    except ValueError as error:
        raise EncoderError(f"encoder.url: {error}") from error
    kind = OllamaServer if settings.kind == "ollama" else OpenAIServer
    return RemoteEncoder(kind(settings.model, url, key), settings, dimension=dimension)


class RemoteEncoder:
    """Unit vectors from a server.

    What the model's tokens are is not known here, so texts are counted by the tokenizer of the bundled model; most
    models' own counts are within a third of that. A text is refused, never cut, when the server's own count says so.
    """

    def __init__(
        self,
        server: ModelServer,
        settings: EncoderSettings,
        sleep: Callable[[float], None] = time.sleep,
        dimension: int | None = None,
        batch_size: int = BATCH_SIZE,
        question_s: float = QUESTION_S,
    ) -> None:
        """Ask this server, not yet; `dimension` is the length of its vectors where that is known."""
        connect_s = CONNECT_S.get(settings.kind, 0.5)
        self._server = server
        self._prefixes = Prefixes(*served_prefixes(settings))
        self._limit = settings.max_tokens
        self._batch_size = batch_size
        self._for_documents = Limits(connect_s, DOCUMENTS_S)
        self._for_questions = Limits(connect_s, question_s)
        self._tokens = Tokens.in_file(BUNDLED_MODEL / "tokenizer.json")
        self._sleep = sleep
        self._known_dimension = dimension

    @cached_property
    def fingerprint(self) -> str:
        """Over the server's kind, the model's name and digest, the dimension, the prefixes and the limit, not the URL.

        Raises:
            EncoderError: as `encode_documents`.
        """
        # Not the URL: the same model behind another address gives the same vectors, and needs no new index.
        limits = Limits(self._for_questions.connect_s, min(1.0, self._for_questions.total_s))
        try:
            identity = self._retry(lambda: self._server.identity(limits), QUESTION_PAUSES_S)
        except ServedError as error:
            raise self._explain(error) from error
        return fingerprint((*identity, self.dimension, self._prefixes.query, self._prefixes.document, self._limit))

    @cached_property
    def dimension(self) -> int:
        """Return the length of a vector, which only a vector tells: of the index, or of a text that is sent for it.

        Raises:
            EncoderError: as `encode_documents`.
        """
        return self._known_dimension or len(self._vectors(["dimension"], self._for_questions, QUESTION_PAUSES_S)[0])

    @cached_property
    def max_tokens(self) -> int:
        """Return how many tokens of a text are sent, special ones included, the prefix not."""
        return self._prefixes.room(self._tokens, self._limit)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the length of each text in tokens of the bundled model, special ones included, without any cut."""
        return self._tokens.count(texts)

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """Return (n, d) float32, unit rows, in the order of the texts.

        Raises:
            EncoderError: a text is longer than `max_tokens`; or the server cannot be reached, has no such model,
                refuses a text, takes too long or gives something that is no vector.
        """
        prefixed = [self._prefixes.document + text for text in texts]
        # A server that cuts a text in silence would make what follows the cut unfindable.
        refuse_longer(self._tokens.count(prefixed), self._limit)
        return self._batches(prefixed, self._for_documents, DOCUMENT_PAUSES_S)

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """As `encode_documents`, but the first `max_tokens` tokens of a longer question are sent: see `unread_tokens`.

        Raises:
            EncoderError: as `encode_documents`.
        """
        # A question that is too long is cut here, where the caller can be told, and never refused.
        questions = [self._tokens.cut(self._prefixes.query + text, self._limit).text for text in texts]
        return self._batches(questions, self._for_questions, QUESTION_PAUSES_S)

    def _batches(self, texts: Sequence[str], limits: Limits, pauses: Sequence[float]) -> FloatMatrix:
        matrix = np.empty((len(texts), self.dimension), dtype=np.float32)
        starts = range(0, len(texts), self._batch_size)

        def embed(start: int) -> FloatMatrix:
            return self._vectors(texts[start : start + self._batch_size], limits, pauses)

        pool = ThreadPoolExecutor(self._server.parallel)
        try:
            found = pool.map(embed, starts) if self._server.parallel > 1 and len(starts) > 1 else map(embed, starts)
            for start, rows in zip(starts, found, strict=True):
                # A server whose model was changed under its name: two lengths in one index compare with nothing.
                if rows.shape[1] != self.dimension:
                    raise EncoderError(
                        f"{self._server.name} gave vectors of {self.dimension} and of {rows.shape[1]} numbers"
                    )
                matrix[start : start + len(rows)] = rows
        finally:  # also by Ctrl-C: what is not sent yet is not sent
            pool.shutdown(wait=False, cancel_futures=True)
        return matrix

    def _vectors(self, texts: Sequence[str], limits: Limits, pauses: Sequence[float]) -> FloatMatrix:
        """Return the texts' vectors; a batch that is refused is halved until it is known which text it is."""
        try:
            rows = self._retry(lambda: self._server.embed(texts, limits), pauses)
        except ServedError as error:
            if not isinstance(error, RefusedError) or error.status not in TOO_LONG:
                raise self._explain(error) from error
            if len(texts) == 1:
                tokens = self._tokens.count(texts)[0]
                what = f"{self._server.name} refuses a text of about {tokens} tokens ({texts[0][:40]!r})"
                said = f"status {error.status}: {one_line(error)}"
                raise EncoderError(f"{what}: {said}; set encoder.max_tokens lower if it is too long") from error
            # One text of a batch may be too long for the model: the others are embedded all the same.
            half = len(texts) // 2
            halves = [self._vectors(part, limits, pauses) for part in (texts[:half], texts[half:])]
            return np.concatenate(halves)
        return unit_rows(rows, len(texts), self._server.name)

    def _retry(self, ask: Callable[[], T], pauses: Sequence[float]) -> T:
        """Return what the server says, after as many tries as there are pauses, and one; ServedError."""
        for pause in pauses:
            try:
                return ask()
            except ServedError as error:
                if not may_pass(error):
                    raise
                self._sleep(pause)
        return ask()

    def _explain(self, error: ServedError) -> EncoderError:
        name, said = self._server.name, one_line(error)
        match error:
            case OverdueError() | SilentError():
                return EncoderError(f"{name} did not answer in time")
            case TooLargeError():
                return EncoderError(f"{name} gave more than vectors: {said}")
            case StrangeAnswerError():
                return EncoderError(f"{name} gave something that is no list of vectors: {said}")
            case RefusedError(status=404) if isinstance(self._server, OllamaServer):
                return EncoderError(self._server.missing())
            case RefusedError():
                what = "is busy" if error.status in BUSY else "refuses"
                return EncoderError(f"{name} {what}: status {error.status}: {said}")
        how = "start it with `ollama serve`" if isinstance(self._server, OllamaServer) else "is it running?"
        return EncoderError(f"{name} cannot be reached ({said}): {how}")
