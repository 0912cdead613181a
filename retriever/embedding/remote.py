"""What the encoders behind a server share: batches, tries, and what is believed of an answer."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

import httpx
import numpy as np
import numpy.typing as npt

from retriever.embedding import BUNDLED_MODEL
from retriever.embedding.prefixes import served_prefixes
from retriever.embedding.tokens import Prefixes, Tokens, fingerprint, refuse_longer, unit_rows
from retriever.errors import EncoderError
from retriever.http_client import (
    DEFAULT_URL,
    AnswerTooLargeError,
    RefusedError,
    StrangeAnswerError,
    Timeouts,
    client_options,
    find_key,
    ollama_client,
    one_line,
    server_url,
)
from retriever.settings.schema import EncoderSettings
from retriever.types import FloatMatrix

if TYPE_CHECKING:
    from ollama import Client


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

    @property
    def parallel(self) -> int:
        """How many requests at once it usually works on."""

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
        self,
        server: Server,
        settings: EncoderSettings,
        connect_s: float,
        sleep: Callable[[float], None] = time.sleep,
        dimension: int | None = None,
    ) -> None:
        self._server = server
        self._prefixes = Prefixes(*served_prefixes(settings))
        self._limit = settings.max_tokens
        self._batch_size = settings.batch_size
        self._for_documents = Timeouts(connect_s, settings.batch_seconds, pauses_s=(0.5, 1, 2))
        self._for_questions = Timeouts(connect_s, settings.question_seconds, pauses_s=(0.3,))
        self._tokens = Tokens.in_file(BUNDLED_MODEL / "tokenizer.json")
        self._sleep = sleep
        self._known_dimension = dimension
        self._parallel = settings.parallel or server.parallel

    @cached_property
    def fingerprint(self) -> str:
        """Over the server's kind, the model's name and digest, the dimension, the prefixes and the limit, not the URL.

        Raises:
            EncoderError: as `encode_documents`.
        """
        # Not the URL: the same model behind another address gives the same vectors, and needs no new index.
        identity = self._retry(self._server.identity, self._for_questions)
        return fingerprint((*identity, self.dimension, self._prefixes.query, self._prefixes.document, self._limit))

    @cached_property
    def dimension(self) -> int:
        """The length of a vector, which only a vector tells: of the index, or of a text that is sent for it.

        Raises:
            EncoderError: as `encode_documents`.
        """
        return self._known_dimension or len(self._vectors(["dimension"], self._for_questions)[0])

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
        # A server that cuts a text in silence would make what follows the cut unfindable.
        refuse_longer(self._tokens.count(prefixed), self._limit)
        return self._batches(prefixed, self._for_documents)

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """As `encode_documents`, but the first `max_tokens` tokens of a longer question are sent: see `unread_tokens`.

        Raises:
            EncoderError: as `encode_documents`.
        """
        # A question that is too long is cut here, where the caller can be told, and never refused.
        questions = [self._tokens.cut(self._prefixes.query + text, self._limit).text for text in texts]
        return self._batches(questions, self._for_questions)

    def _batches(self, texts: Sequence[str], timeouts: Timeouts) -> FloatMatrix:
        matrix = np.empty((len(texts), self.dimension), dtype=np.float32)
        starts = range(0, len(texts), self._batch_size)

        def embed(start: int) -> FloatMatrix:
            return self._vectors(texts[start : start + self._batch_size], timeouts)

        pool = ThreadPoolExecutor(self._parallel)
        try:
            found = pool.map(embed, starts) if self._parallel > 1 and len(starts) > 1 else map(embed, starts)
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

    def _vectors(self, texts: Sequence[str], timeouts: Timeouts) -> FloatMatrix:
        """The texts' vectors; a batch that is refused is halved until it is known which text it is."""
        try:
            rows = self._retry(lambda: self._server.embed(texts, timeouts), timeouts)
        except RejectedError as error:
            if len(texts) == 1:
                tokens = self._tokens.count(texts)[0]
                reason = f"{self._server.name} refuses a text of about {tokens} tokens ({texts[0][:40]!r}): {error}"
                raise EncoderError(f"{reason}; set encoder.max_tokens lower if it is too long") from error
            # One text of a batch may be too long for the model: the others are embedded all the same.
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
    if status in {429, 502, 503, 504}:
        return UnavailableError(f"{server} is busy: {reason}")
    if status in {400, 413, 422, 500}:  # what servers say of a text that is too long
        return RejectedError(reason)
    return EncoderError(f"{server} refuses: {reason}")


# Embedding models of an Ollama server.


def open_ollama(settings: EncoderSettings, dimension: int | None = None) -> RemoteEncoder:
    """The encoder of a model that Ollama runs; the server is not asked yet.

    Raises:
        EncoderError: no model is named, or the URL is none.
    """
    if not settings.model:
        raise EncoderError("encoder.model: name an embedding model of Ollama, such as nomic-embed-text")
    url = checked_url(settings.url or DEFAULT_URL)
    return RemoteEncoder(OllamaServer(settings.model, url), settings, connect_s=0.5, dimension=dimension)


class OllamaServer:
    """One model on an Ollama server; OLLAMA_HOST, OLLAMA_API_KEY and proxies of the environment are not used."""

    parallel = 1  # the others would wait their turn

    def __init__(self, model: str, url: str) -> None:
        self._model = model
        self._url = url

    @property
    def name(self) -> str:
        """Such as `Ollama's nomic-embed-text at http://127.0.0.1:11434`."""
        return f"Ollama's {self._model} at {self._url}"

    def identity(self) -> tuple[str, ...]:
        """The kind, the model's name and the digest of its weights, as in the server's list of models."""
        with self._client(Timeouts(connect_s=0.5, total_s=1)) as client:
            models = client.list().models
        names = (self._model, f"{self._model}:latest")
        digest = next((model.digest for model in models if model.model in names), None)
        # Without a digest nobody could tell when the model behind the name is another one.
        if not digest:
            raise self._missing()
        return ("ollama", self._model, digest)

    def embed(self, texts: Sequence[str], timeouts: Timeouts) -> npt.ArrayLike:
        """One vector for each text; the server is told to refuse what it would have to cut."""
        with self._client(timeouts) as client:
            return client.embed(self._model, texts, truncate=False).embeddings

    @contextmanager
    def _client(self, timeouts: Timeouts) -> "Iterator[Client]":
        """A client for one request; its errors are turned into ours."""
        try:
            with ollama_client(self._url, timeouts) as client:
                yield client
        except httpx.HTTPError as error:
            raise unreachable(error, self.name, "start it with `ollama serve`") from error
        except RefusedError as error:
            raise self._missing() if error.status == 404 else refusal(error.status, str(error), self.name) from error
        except StrangeAnswerError as error:
            raise EncoderError(f"{self.name} gave something that is no answer of Ollama's: {error}") from error

    def _missing(self) -> EncoderError:
        return EncoderError(f"{self.name} is not there; run: ollama pull {self._model}")


# Embedding models behind a URL that speaks as OpenAI's /v1/embeddings does.


def open_openai(settings: EncoderSettings, dimension: int | None = None) -> RemoteEncoder:
    """The encoder of a model behind such a URL; the server is not asked yet.

    Raises:
        EncoderError: no model is named, or the URL is none.
    """
    if not settings.model:
        raise EncoderError("encoder.model: name the embedding model that the server is to use")
    if not settings.url:
        raise EncoderError("encoder.url: name the server, such as http://127.0.0.1:8080/v1; all texts are sent to it")
    url = checked_url(settings.url)
    try:
        server = OpenAIServer(settings.model, url, find_key(settings.api_key_env, url))
    except ValueError as error:
        raise EncoderError(f"encoder.api_key_env: {error}") from error
    return RemoteEncoder(server, settings, connect_s=5, dimension=dimension)


class OpenAIServer:
    """One model behind one URL."""

    parallel = 4  # vLLM, TEI, Infinity and hosted ones work on many; one that is busy (429, 503) is asked again

    def __init__(self, model: str, url: str, key: str) -> None:
        """The key is sent to this URL alone; empty: none is sent."""
        self._model = model
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    @property
    def name(self) -> str:
        """Such as `text-embedding-3-small at https://api.openai.com/v1`."""
        return f"{self._model} at {self._url}"

    def identity(self) -> tuple[str, ...]:
        """The kind and the model's name: such servers tell nothing of the weights."""
        return ("openai", self._model)

    def embed(self, texts: Sequence[str], timeouts: Timeouts) -> npt.ArrayLike:
        """One vector for each text."""
        body: dict[str, object] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        try:
            with httpx.Client(**client_options(timeouts, self._url)) as client:
                response = client.post(f"{self._url}/embeddings", json=body, headers=self._headers)
            items = response.json()["data"] if response.is_success else []
            vectors = {item["index"]: item["embedding"] for item in items}
        except httpx.HTTPError as error:
            raise unreachable(error, self.name, "is it running?") from error
        except (ValueError, TypeError, KeyError) as error:
            raise EncoderError(f"{self.name} gave something that is no list of embeddings: {error!r}") from error
        if not response.is_success:
            raise refusal(response.status_code, response.text, self.name)
        # In any order, as the interface allows; but each once, or two texts would change places.
        if sorted(vectors) != list(range(len(texts))):
            raise EncoderError(f"{self.name} gave {len(items)} vectors for {len(texts)} texts")
        return [vectors[place] for place in range(len(texts))]
