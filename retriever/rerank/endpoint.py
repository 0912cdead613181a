"""A reranking model behind a server's /rerank, as llama.cpp, vLLM, Infinity, Jina and Cohere speak it."""

from collections.abc import Sequence
from functools import cached_property

from retriever.embedding.tokenizer import readable
from retriever.errors import RerankerError
from retriever.rerank.pairs import PairReranker, check_scores, squash
from retriever.served.address import allowed_url, explain_key, find_key
from retriever.served.generator import CircuitBreaker
from retriever.served.openai import OpenAIServer
from retriever.served.transport import Limits, OverdueError, RefusedError, ServedError, StrangeAnswerError, one_line
from retriever.settings.schema import RerankSettings

CONNECT_S = 5.0
MAX_BYTES = 4 * 2**20  # some servers send the documents back


class EndpointReranker(PairReranker):
    """All candidates in one request. After two failures in a row nothing is asked for a minute."""

    scale = "the server's, 0 to 1"

    def __init__(self, settings: RerankSettings) -> None:
        """Name the server, which is asked when it is first needed."""
        super().__init__(settings)
        self._batch_size = 10_000
        self._breaker = CircuitBreaker()
        self._has_logits = False  # whether its scores go beyond 0 and 1, as those of llama.cpp do

    def _predict(self, question: str, texts: Sequence[str], seconds: float | None) -> list[float]:
        self._breaker.check()
        allowed = min(seconds or self._settings.seconds, self._settings.seconds)
        limits = Limits(CONNECT_S, allowed, max_bytes=MAX_BYTES)
        try:
            scores = self._server.rank(readable(question), [readable(text) for text in texts], limits)
        except ServedError as error:
            explained = self._explain(error, allowed)
            if seconds is None or seconds >= self._settings.seconds:  # it had its time
                self._breaker.record_failure(explained)
            raise explained from error
        self._breaker.record_success()
        return scores

    def _normalize(self, scores: Sequence[float]) -> Sequence[float]:
        self._has_logits = self._has_logits or not all(0 <= score <= 1 for score in scores)
        return check_scores(squash(scores) if self._has_logits else scores, len(scores), self._server.url)

    def _explain(self, error: ServedError, seconds: float) -> RerankerError:
        url, said = f"{self._server.url}/rerank", one_line(error)
        match error:
            case OverdueError():
                how = "wait longer (rerank.seconds), or choose a smaller model"
                return RerankerError(f"{url} took longer than {seconds:.1f} s: {how}")
            case StrangeAnswerError():
                return RerankerError(f"{url} speaks otherwise than /rerank: {said}")
            case RefusedError(status=401 | 403):
                said += f": {explain_key(self._settings.api_key_env)}"
            case RefusedError(status=404):
                said += ": see rerank.url (such as http://127.0.0.1:8080/v1) and rerank.model"
            case RefusedError():
                pass
            case _:
                return RerankerError(f"{url} gives no answer ({said}): is it running?")
        return RerankerError(f"{url} refuses: status {error.status}: {said}")

    @cached_property
    def _server(self) -> OpenAIServer:
        settings = self._settings
        if not settings.url:
            raise RerankerError("rerank.url: name the server of rerank.kind endpoint, such as http://127.0.0.1:8080/v1")
        try:
            url = allowed_url(settings.url, allow_remote=settings.allow_remote, section="rerank")
            key = find_key(settings.api_key_env, url)
        except ValueError as error:
            raise RerankerError(f"rerank.url: {error}") from error
        return OpenAIServer(settings.model, url.removesuffix("/rerank"), key)


def find_problem(settings: RerankSettings) -> str:
    """Return why the server does not rerank, having been asked about two words; empty where it does."""
    try:
        EndpointReranker(settings)._predict("boat", ["a boat", "a hat"], None)
    except RerankerError as error:
        return str(error)
    return ""
