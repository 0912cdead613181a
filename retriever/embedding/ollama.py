"""Embedding models of an Ollama server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import numpy.typing as npt

from retriever.embedding.remote import RemoteEncoder, checked_url, refusal, unreachable
from retriever.embedding.settings import EncoderSettings
from retriever.errors import EncoderError
from retriever.llm.client import DEFAULT_URL, RefusedError, StrangeAnswerError, Timeouts, ollama_client

if TYPE_CHECKING:
    from ollama import Client

_LOOK_UP = Timeouts(connect_s=0.5, total_s=1)


def open_ollama(settings: EncoderSettings) -> RemoteEncoder:
    """The encoder of a model that Ollama runs; the server is not asked yet.

    Raises:
        EncoderError: no model is named, or the URL is none.
    """
    if not settings.model:
        raise EncoderError("encoder.model: name an embedding model of Ollama, such as nomic-embed-text")
    url = checked_url(settings.url or DEFAULT_URL)
    return RemoteEncoder(OllamaServer(settings.model, url), settings, connect_s=0.5)


class OllamaServer:
    """One model on an Ollama server; OLLAMA_HOST, OLLAMA_API_KEY and proxies of the environment are not used."""

    def __init__(self, model: str, url: str) -> None:
        self._model = model
        self._url = url

    @property
    def name(self) -> str:
        """Such as `Ollama's nomic-embed-text at http://127.0.0.1:11434`."""
        return f"Ollama's {self._model} at {self._url}"

    def identity(self) -> tuple[str, ...]:
        """The kind, the model's name and the digest of its weights, as in the server's list of models."""
        with self._client(_LOOK_UP) as client:
            models = client.list().models
        names = (self._model, f"{self._model}:latest")
        digest = next((model.digest for model in models if model.model in names), None)
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
