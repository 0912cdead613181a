"""Cross-encoders as rerankers: one on this machine, run without PyTorch, and one behind a server's /rerank.

llama.cpp, vLLM, Infinity, Jina and Cohere speak that.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from retriever.display.phrases import pluralize
from retriever.embedding.encoder import bundled_tokens
from retriever.embedding.onnx import CrossEncoder, usable_cores
from retriever.rerank.stage import RerankInput, RerankOutput
from retriever.served.server import ModelServer
from retriever.settings.schema import Profile, RerankSettings

MAX_TOKENS = 512  # of a question and a candidate together: what the models were trained with
SENT_TOKENS = 400  # of the bundled model, to a server: by its own tokens they may be a quarter more
SERVER_SHARE = 1 / 3  # of llm.seconds, that is waited for a server: it only reads


class OnnxReranker:
    """Scores from a folder with model.onnx, tokenizer.json and reranker.json."""

    def __init__(self, settings: RerankSettings) -> None:
        """Take the settings that name the model, which is loaded when it is first needed."""
        self._model = CrossEncoder(Path(settings.model).expanduser(), usable_cores(), MAX_TOKENS)

    def score(self, question: str, candidates: Sequence[RerankInput]) -> RerankOutput:
        """Do as `Reranker.score`; EncoderError where the model cannot be used."""
        logits = [self._model.score(question, candidate.joined) for candidate in candidates]
        return RerankOutput(squash(logits), pluralize(len(candidates), "candidate"), "cross-encoder, 0 to 1")


def squash(logits: npt.ArrayLike) -> tuple[float, ...]:
    """Return the logistic function, 0 to 1: what cross-encoders of one output are trained under."""
    return tuple((1.0 / (1.0 + np.exp(-np.clip(np.asarray(logits, dtype=np.float64), -500, 500)))).tolist())


class EndpointReranker:
    """All candidates in one request."""

    def __init__(self, profile: Profile) -> None:
        """Take the profile that names the server, which is asked when it is first needed."""
        self._profile = profile

    def score(self, question: str, candidates: Sequence[RerankInput]) -> RerankOutput:
        """Do as `Reranker.score`; RerankerError where the server does not answer."""
        # llama.cpp refuses all texts for a single long one.
        tokens = bundled_tokens()
        asked = tokens.cut(question, SENT_TOKENS // 2).text
        room = SENT_TOKENS - tokens.count([asked])[0]
        texts = [tokens.cut(candidate.joined, room).text for candidate in candidates]
        limits = self._server.limits(self._profile.llm.seconds * SERVER_SHARE)
        scores = self._server.attempt(lambda: self._server.rank(asked, texts, limits))
        are_shares = all(0 <= score <= 1 for score in scores)  # those of llama.cpp are logits
        shown = tuple(scores) if are_shares else squash(scores)
        return RerankOutput(shown, pluralize(len(texts), "candidate"), "the server's, 0 to 1")

    @cached_property
    def _server(self) -> ModelServer:
        settings = self._profile.rerank
        return ModelServer("rerank", settings.model, settings.url, self._profile.allow_remote)
