"""Cross-encoders as rerankers: one on this machine, run without PyTorch, and one behind a server's /rerank.

llama.cpp, vLLM, Infinity, Jina and Cohere speak that.
"""

import math
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from retriever.display.phrases import pluralize
from retriever.embedding.encoder import Tokens, bundled_tokens, readable
from retriever.embedding.onnx import CrossEncoder, usable_cores
from retriever.errors import RerankerError
from retriever.rerank.stage import RerankInput, RerankOutput
from retriever.served.server import ModelServer, read_numbers
from retriever.served.transport import Limits, RefusedError
from retriever.settings.schema import Profile, RerankSettings

MAX_TOKENS = 512  # of a question and a candidate together: what the models were trained with
TOO_LONG = frozenset({400, 413, 422, 500})  # what servers say of a text that is too long
LEAST_TOKENS = 100  # of a question and a text: what refuses these does not refuse their length
SERVER_SHARE = 1 / 3  # of llm.seconds, that is waited for a server: it only reads
USUAL_WINDOW = 512  # tokens of llama.cpp and of most models, where nobody says


class OnnxReranker:
    """Scores from a folder with model.onnx, tokenizer.json and reranker.json."""

    def __init__(self, settings: RerankSettings) -> None:
        """Take the settings that name the model, which is loaded when it is first needed."""
        self._model = CrossEncoder(Path(settings.model).expanduser(), usable_cores(), MAX_TOKENS)

    def score(self, question: str, candidates: Sequence[RerankInput], seconds: float = math.inf) -> RerankOutput:
        """Do as `Reranker.score`; EncoderError where the model cannot be used."""
        deadline = time.monotonic() + seconds
        logits = []
        for candidate in candidates:
            if time.monotonic() > deadline:
                raise RerankerError("the time for reranking is over")
            logits.append(self._model.score(question, candidate.joined))
        return RerankOutput(squash(logits), pluralize(len(candidates), "candidate"), "cross-encoder, 0 to 1")


def squash(logits: npt.ArrayLike) -> tuple[float, ...]:
    """Return the logistic function, 0 to 1: what cross-encoders of one output are trained under."""
    return tuple((1.0 / (1.0 + np.exp(-np.clip(np.asarray(logits, dtype=np.float64), -500, 500)))).tolist())


class EndpointReranker:
    """All candidates in one request."""

    def __init__(self, profile: Profile) -> None:
        """Take the profile that names the server, which is asked when it is first needed."""
        self._profile = profile
        self._has_logits = False  # whether its scores go beyond 0 and 1, as those of llama.cpp do
        self.most_tokens: int | None = None  # of a question and a text together; None: nothing was refused yet

    def score(self, question: str, candidates: Sequence[RerankInput], seconds: float = math.inf) -> RerankOutput:
        """Do as `Reranker.score`; RerankerError where the server does not answer."""
        texts = [readable(candidate.joined) for candidate in candidates]
        limits = self._server.limits(min(seconds, self._profile.llm.seconds * SERVER_SHARE))
        scores = self._server.attempt(lambda: self._rank(readable(question), texts, limits))
        self._has_logits = self._has_logits or not all(0 <= score <= 1 for score in scores)
        shown = squash(scores) if self._has_logits else tuple(scores)
        return RerankOutput(shown, pluralize(len(texts), "candidate"), "the server's, 0 to 1")

    def _rank(self, question: str, texts: Sequence[str], limits: Limits) -> list[float]:
        """Return the server's scores; what it refuses is sent again shorter, and that is remembered.

        llama.cpp refuses all texts for a single long one.
        """
        most_tokens = self.most_tokens
        while True:
            asked, shown = question, texts
            if most_tokens:
                asked = self._tokens.cut(question, most_tokens // 2).text
                room = most_tokens - self._tokens.count([asked])[0]
                shown = [self._tokens.cut(text, room).text for text in texts]
            try:
                scores = self._server.rank(asked, shown, limits)
            except RefusedError as error:
                if error.status not in TOO_LONG or most_tokens == LEAST_TOKENS:
                    raise
                longest = self._tokens.count([asked])[0] + max(self._tokens.count(shown))
                numbers = read_numbers(error)  # in the server's own tokens
                window = min(numbers, default=0) or self._server.ask_window(limits) or USUAL_WINDOW
                fitting = longest * window / max(numbers) if numbers else window
                most_tokens = max(LEAST_TOKENS, int(0.9 * min(fitting, 0.8 * longest, window)))
            else:
                self.most_tokens = most_tokens
                return scores

    @cached_property
    def _tokens(self) -> Tokens:
        """Count as the bundled model does, which most other models resemble."""
        return bundled_tokens()

    @cached_property
    def _server(self) -> ModelServer:
        settings = self._profile.rerank
        return ModelServer("rerank", settings.model, settings.url, self._profile.allow_remote)


def check_rerank_server(profile: Profile) -> str:
    """Ask a server to rank texts as long as it will get, and return what that shows; RerankerError."""
    reranker = EndpointReranker(profile)
    chars = profile.final_text_chars
    text = "The boats come in at night, one behind the other, and are drawn up on the sand. " * (chars // 75)
    reranker.score("when do the boats come in?", [RerankInput("", "a hat"), RerankInput("", text[:chars])])
    most = reranker.most_tokens
    return f"{profile.rerank.url} reranks" + (f"; it reads {most} tokens, and texts are cut to that" if most else "")
