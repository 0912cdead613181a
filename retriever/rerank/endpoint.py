"""A reranking model behind a server's /rerank, as llama.cpp, vLLM, Infinity, Jina and Cohere speak it."""

from collections.abc import Sequence
from functools import cached_property

import httpx
from pydantic import BaseModel, Field, ValidationError

from retriever.embedding.tokens import readable
from retriever.errors import RerankerError
from retriever.http_client import (
    OverdueError,
    Timeouts,
    allowed_url,
    client_options,
    find_key,
    keyring_command,
    one_line,
)
from retriever.llm.generator import CircuitBreaker
from retriever.rerank.pairs import PairReranker, check_scores, squash
from retriever.settings.schema import RerankSettings

CONNECT_S = 5.0
MAX_BYTES = 4 * 2**20  # some servers send the documents back


class _Scored(BaseModel):
    index: int
    relevance_score: float = Field(allow_inf_nan=False)


class _Ranked(BaseModel):
    results: list[_Scored]


class EndpointReranker(PairReranker):
    """All candidates in one request. After two failures in a row nothing is asked for a minute."""

    scale = "the server's, 0 to 1"

    def __init__(self, settings: RerankSettings) -> None:
        super().__init__(settings)
        self._batch_size = 10_000
        self._breaker = CircuitBreaker()
        self._has_logits = False  # whether its scores go beyond 0 and 1, as those of llama.cpp do

    def _predict(self, question: str, texts: Sequence[str], seconds: float | None) -> list[float]:
        self._breaker.check()
        try:
            scores = self._ask(question, texts, min(seconds or self._settings.seconds, self._settings.seconds))
        except RerankerError as error:
            if seconds is None or seconds >= self._settings.seconds:  # it had its time
                self._breaker.record_failure(error)
            raise
        self._breaker.record_success()
        return scores

    def _normalize(self, scores: Sequence[float]) -> Sequence[float]:
        self._has_logits = self._has_logits or not all(0 <= score <= 1 for score in scores)
        return check_scores(squash(scores) if self._has_logits else scores, len(scores), self._url)

    def _ask(self, question: str, texts: Sequence[str], seconds: float) -> list[float]:
        """The server's own score for each text."""
        model, url = self._settings.model, self._url
        documents = [readable(text) for text in texts]
        body = {"model": model, "query": readable(question), "documents": documents, "top_n": len(documents)}
        key = self._key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        options = client_options(Timeouts(CONNECT_S, seconds, max_bytes=MAX_BYTES), url)
        try:
            with httpx.Client(**options) as client:
                response = client.post(url, json=body, headers=headers)
        except OverdueError as error:
            how = "wait longer (rerank.seconds), or choose a smaller model"
            raise RerankerError(f"{url} took longer than {seconds:.1f} s: {how}") from error
        except httpx.HTTPError as error:
            raise RerankerError(f"{url} gives no answer ({one_line(str(error))}): is it running?") from error
        if not response.is_success:
            said = one_line(response.text.replace(key, "(the key)") if key else response.text)
            raise RerankerError(
                f"{url} refuses: status {response.status_code}: {said}{self._advise(response.status_code)}"
            )
        try:
            results = _Ranked.model_validate_json(response.content).results
        except ValidationError as error:
            raise RerankerError(f"{url} speaks otherwise than /rerank: no `results` with `relevance_score`") from error
        scores = {item.index: item.relevance_score for item in results}
        if sorted(scores) != list(range(len(texts))) or len(results) != len(texts):
            raise RerankerError(f"{url} gave {len(results)} scores for {len(texts)} texts")
        return [scores[place] for place in range(len(texts))]

    def _advise(self, status: int) -> str:
        name = self._settings.api_key_env
        if status in {401, 403}:
            return f": put its key into the variable {name}, or: {keyring_command(name)}"
        if status == 404:
            return ": see rerank.url (such as http://127.0.0.1:8080/v1) and rerank.model"
        return ""

    @cached_property
    def _url(self) -> str:
        settings = self._settings
        if not settings.url:
            raise RerankerError("rerank.url: name the server of rerank.kind endpoint, such as http://127.0.0.1:8080/v1")
        try:
            url = allowed_url(settings.url, allow_remote=settings.allow_remote, section="rerank")
        except ValueError as error:
            raise RerankerError(f"rerank.url: {error}") from error
        return url if url.endswith("/rerank") else f"{url}/rerank"

    @cached_property
    def _key(self) -> str:
        try:
            return find_key(self._settings.api_key_env, self._url)
        except ValueError as error:
            raise RerankerError(f"rerank.api_key_env: {error}") from error


def find_problem(settings: RerankSettings) -> str:
    """Why the server does not rerank, having been asked about two words; empty where it does."""
    try:
        EndpointReranker(settings)._predict("boat", ["a boat", "a hat"], None)
    except RerankerError as error:
        return str(error)
    return ""
