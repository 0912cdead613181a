"""A reranking model behind a server's /rerank, as llama.cpp, vLLM, Infinity, Jina and Cohere speak it."""

import re
import time
from collections.abc import Sequence
from functools import cached_property

from retriever.embedding import BUNDLED_MODEL
from retriever.embedding.remote import TOO_LONG
from retriever.embedding.tokenizer import Tokens, readable
from retriever.errors import RerankerError
from retriever.rerank.pairs import PairReranker, check_scores, squash
from retriever.served.address import allowed_url, find_key
from retriever.served.generator import CircuitBreaker
from retriever.served.openai import OpenAIServer
from retriever.served.server import LOOK_UP_S
from retriever.served.transport import Limits, OverdueError, RefusedError, ServedError, StrangeAnswerError, one_line
from retriever.settings.schema import RerankSettings

CONNECT_S = 5.0
MAX_BYTES = 4 * 2**20  # some servers send the documents back
LEAST_TOKENS = 48  # of a question and a text: what refuses these does not refuse their length
_TOO_LONG = re.compile(r"too (?:large|long|many)|exceed|larger than|longer than|context|maximum|tokens", re.IGNORECASE)


class EndpointReranker(PairReranker):
    """All candidates in one request. After two failures in a row nothing is asked for a minute."""

    scale = "the server's, 0 to 1"

    def __init__(self, settings: RerankSettings) -> None:
        """Name the server, which is asked when it is first needed."""
        super().__init__(settings)
        self._batch_size = 10_000
        self._breaker = CircuitBreaker()
        self._has_logits = False  # whether its scores go beyond 0 and 1, as those of llama.cpp do
        self._most_tokens: int | None = None  # of a question and a text together; None: nothing was refused yet

    def _predict(self, question: str, texts: Sequence[str], seconds: float | None) -> list[float]:
        self._breaker.check()
        allowed = min(seconds or self._settings.seconds, self._settings.seconds)
        try:
            scores = self._rank_shortened(readable(question), [readable(text) for text in texts], allowed)
        except ServedError as error:
            explained = self._explain(error, allowed)
            if seconds is None or seconds >= self._settings.seconds:  # it had its time
                self._breaker.record_failure(explained)
            raise explained from error
        self._breaker.record_success()
        return scores

    def _rank_shortened(self, question: str, texts: Sequence[str], allowed: float) -> list[float]:
        """Return the server's scores; what it refuses as too long is sent again smaller, and remembered. ServedError.

        llama.cpp refuses all texts for a single long one, and by default reads 512 tokens.
        """
        deadline = time.monotonic() + allowed
        while True:
            sent, cut_texts = self._shorten(question, texts)
            try:
                limits = Limits(CONNECT_S, max(0.001, deadline - time.monotonic()), max_bytes=MAX_BYTES)
                return self._server.rank(sent, cut_texts, limits)
            except RefusedError as error:
                is_too_long = error.status in TOO_LONG and _TOO_LONG.search(str(error))
                if not is_too_long or self._most_tokens == LEAST_TOKENS:
                    raise
                longest = self._tokens.count([sent])[0] + max(self._tokens.count(cut_texts))
                # Of the two numbers the smaller one is what it reads; its tokens may be others than ours.
                numbers = [int(number) for number in re.findall(r"\d{2,}", str(error))]
                window = min(numbers, default=0) or self._window or longest
                fitting = longest * window / max(numbers) if numbers else longest / 2
                self._most_tokens = max(LEAST_TOKENS, int(min(0.95 * fitting, 0.8 * longest, window)))

    def _shorten(self, question: str, texts: Sequence[str]) -> tuple[str, Sequence[str]]:
        """Return question and texts within the tokens that the server reads; a question takes half of them at most."""
        if self._most_tokens is None:
            return question, texts
        question = self._tokens.cut(question, self._most_tokens // 2).text
        room = self._most_tokens - self._tokens.count([question])[0]
        return question, [self._tokens.cut(text, room).text for text in texts]

    @cached_property
    def _window(self) -> int | None:
        """Ask what the server has loaded, where it refuses a text without a word of its length."""
        return self._server.ask_window(Limits(CONNECT_S, LOOK_UP_S))

    @cached_property
    def _tokens(self) -> Tokens:
        """Count as the bundled model does, which most other models resemble."""
        return Tokens.in_file(BUNDLED_MODEL / "tokenizer.json")

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
                said += f": put the key into the variable {self._settings.api_key_env}"
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


def check_server(settings: RerankSettings, chars: int) -> tuple[str, str]:
    """Return what is seen of a server that is asked about texts of so many characters, and what is wrong with it."""
    reranker = EndpointReranker(settings)
    text = "The boats come in at night, one behind the other, and are drawn up on the sand. " * (chars // 75)
    try:
        reranker._predict("when do the boats come in?", ["a hat", text[:chars]], None)
    except RerankerError as error:
        return "", str(error)
    most = reranker._most_tokens
    return f"{settings.url} reranks" + (f"; it reads {most} tokens, and texts are cut to that" if most else ""), ""
