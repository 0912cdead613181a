"""What the encoders behind a server share: batches, tries, and what is believed of an answer."""

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol, TypeVar

import httpx
import numpy as np
import numpy.typing as npt

from retriever.embedding.model_card import BUNDLED_MODEL
from retriever.embedding.prefixes import Prefixes
from retriever.embedding.rows import fingerprint, unit_rows
from retriever.embedding.settings import EncoderSettings
from retriever.embedding.tokens import Tokens, refuse_longer
from retriever.errors import EncoderError
from retriever.llm.client import AnswerTooLargeError, Timeouts, one_line, server_url
from retriever.types import FloatMatrix

T = TypeVar("T")


class UnavailableError(Exception):
    """The server is not there or busy: worth another try."""


class RejectedError(Exception):
    """The server will not have this batch: a smaller one may do."""


class Server(Protocol):
    """A model on a server."""

    @property
    def name(self) -> str:
        """The model and where it is, for messages."""

    def identity(self) -> tuple[str, ...]:
        """The kind of server, the model's name and, where it can be had, the digest of its weights.

        Raises:
            EncoderError: it has no such model.
            UnavailableError: it is not there.
        """

    def embed(self, texts: Sequence[str], timeouts: Timeouts) -> npt.ArrayLike:
        """One vector for each text, in order, unchecked.

        Raises:
            EncoderError: it has no such model, takes too long or gives something that is no list of vectors.
            UnavailableError: it is not there.
            RejectedError: it does not take these texts.
        """


class RemoteEncoder:
    """Unit vectors from a server.

    What the model's tokens are is not known here, so texts are counted by the tokenizer of the bundled model; most
    models' own counts are within a third of that. A text is refused, never cut, when the server's own count says so.
    """

    def __init__(
        self, server: Server, settings: EncoderSettings, connect_s: float, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._server = server
        self._prefixes = Prefixes(settings.query_prefix, settings.document_prefix)
        self._limit = settings.max_tokens
        self._batch_size = settings.batch_size
        self._for_documents = Timeouts(connect_s, settings.batch_seconds, pauses_s=(0.5, 1, 2))
        self._for_questions = Timeouts(connect_s, settings.question_seconds, pauses_s=(0.3,))
        self._tokens = Tokens.in_file(BUNDLED_MODEL / "tokenizer.json")
        self._sleep = sleep

    @cached_property
    def fingerprint(self) -> str:
        """Over the server's kind, the model's name and digest, the dimension, the prefixes and the limit, not the URL.

        Raises:
            EncoderError: as `encode_documents`.
        """
        identity = self._retry(self._server.identity, self._for_questions)
        return fingerprint((*identity, self.dimension, self._prefixes.query, self._prefixes.document, self._limit))

    @cached_property
    def dimension(self) -> int:
        """The length of a vector, which only a vector tells.

        Raises:
            EncoderError: as `encode_documents`.
        """
        return len(self._vectors(["dimension"], self._for_questions)[0])

    @cached_property
    def max_tokens(self) -> int:
        """How many tokens of a text are sent, special ones included, the prefix not."""
        return self._prefixes.room(self._tokens, self._limit)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The length of each text in tokens of the bundled model, special ones included, without any cut."""
        return self._tokens.count(texts)

    def encode_documents(self, texts: Sequence[str]) -> FloatMatrix:
        """(n, d) float32, unit rows, in the order of the texts.

        Raises:
            EncoderError: a text is longer than `max_tokens`; or the server cannot be reached, has no such model,
                refuses a text, takes too long or gives something that is no vector.
        """
        prefixed = [self._prefixes.document + text for text in texts]
        refuse_longer(self._tokens.count(prefixed), self._limit)
        return self._batches(prefixed, self._for_documents)

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """As `encode_documents`, but the first `max_tokens` tokens of a longer question are sent: see `unread_tokens`.

        Raises:
            EncoderError: as `encode_documents`.
        """
        questions = [self._tokens.cut(self._prefixes.query + text, self._limit) for text in texts]
        return self._batches(questions, self._for_questions)

    def _batches(self, texts: Sequence[str], timeouts: Timeouts) -> FloatMatrix:
        matrix = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), self._batch_size):
            batch = texts[start : start + self._batch_size]
            rows = self._vectors(batch, timeouts)
            if rows.shape[1] != self.dimension:
                raise EncoderError(
                    f"{self._server.name} gave vectors of {self.dimension} and of {rows.shape[1]} numbers"
                )
            matrix[start : start + len(batch)] = rows
        return matrix

    def _vectors(self, texts: Sequence[str], timeouts: Timeouts) -> FloatMatrix:
        """The texts' vectors; a batch that is refused is halved until it is known which text it is."""
        try:
            rows = self._retry(lambda: self._server.embed(texts, timeouts), timeouts)
        except RejectedError as error:
            if len(texts) == 1:
                tokens = self._tokens.count(texts)[0]
                reason = f"{self._server.name} refuses a text of about {tokens} tokens ({texts[0][:40]!r}): {error}"
                raise EncoderError(f"{reason}; set encoder.max_tokens lower if it is too long") from error
            half = len(texts) // 2
            return np.concatenate([self._vectors(texts[:half], timeouts), self._vectors(texts[half:], timeouts)])
        return unit_rows(rows, len(texts), self._server.name)

    def _retry(self, ask: Callable[[], T], timeouts: Timeouts) -> T:
        """What the server says, after as many tries as are agreed."""
        for pause in timeouts.pauses_s:
            try:
                return ask()
            except UnavailableError:
                self._sleep(pause)
        try:
            return ask()
        except UnavailableError as error:
            raise EncoderError(str(error)) from error


def checked_url(url: str) -> str:
    """The URL without a closing slash.

    Raises:
        EncoderError: it is none, or holds a password.
    """
    try:
        return server_url(url)
    except ValueError as error:
        raise EncoderError(f"encoder.url: {error}") from error


def unreachable(error: Exception, server: str, advice: str) -> Exception:
    """What a failed connection means: too slow is final, anything else is worth another try."""
    if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
        return EncoderError(f"{server} did not answer in time")
    if isinstance(error, AnswerTooLargeError):
        return EncoderError(f"{server} gave more than vectors: {error}")
    return UnavailableError(f"{server} cannot be reached ({one_line(str(error))}): {advice}")


def refusal(status: int, message: str, server: str) -> Exception:
    """What an HTTP status other than 2xx means."""
    reason = f"status {status}: {one_line(message)}"
    if status in _BUSY:
        return UnavailableError(f"{server} is busy: {reason}")
    if status in _TOO_MUCH:
        return RejectedError(reason)
    return EncoderError(f"{server} refuses: {reason}")


_BUSY = frozenset({429, 502, 503, 504})
_TOO_MUCH = frozenset({400, 413, 422, 500})
