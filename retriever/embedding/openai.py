"""Embedding models behind a URL that speaks as OpenAI's /v1/embeddings does."""

import os
from collections.abc import Sequence

import httpx
import numpy.typing as npt

from retriever.embedding.remote import RemoteEncoder, checked_url, refusal, unreachable
from retriever.embedding.settings import EncoderSettings
from retriever.errors import EncoderError
from retriever.llm.client import Timeouts, client_options


def open_openai(settings: EncoderSettings) -> RemoteEncoder:
    """The encoder of a model behind such a URL; the server is not asked yet.

    Raises:
        EncoderError: no model is named, or the URL is none.
    """
    if not settings.model:
        raise EncoderError("encoder.model: name the embedding model that the server is to use")
    if not settings.url:
        raise EncoderError("encoder.url: name the server, such as http://127.0.0.1:8080/v1; all texts are sent to it")
    key = os.environ.get(settings.api_key_env, "")
    return RemoteEncoder(OpenAIServer(settings.model, checked_url(settings.url), key), settings, connect_s=5)


class OpenAIServer:
    """One model behind one URL."""

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
            response = self._post(body, timeouts)
            items = response.json()["data"] if response.is_success else []
            vectors = {item["index"]: item["embedding"] for item in items}
        except httpx.HTTPError as error:
            raise unreachable(error, self.name, "is it running?") from error
        except (ValueError, TypeError, KeyError) as error:
            raise EncoderError(f"{self.name} gave something that is no list of embeddings: {error!r}") from error
        if not response.is_success:
            raise refusal(response.status_code, response.text, self.name)
        if sorted(vectors) != list(range(len(texts))):
            raise EncoderError(f"{self.name} gave {len(items)} vectors for {len(texts)} texts")
        return [vectors[place] for place in range(len(texts))]

    def _post(self, body: dict[str, object], timeouts: Timeouts) -> httpx.Response:
        with httpx.Client(**client_options(timeouts, self._url)) as client:
            return client.post(f"{self._url}/embeddings", json=body, headers=self._headers)
