"""The models that questions to an index need, each opened when one needs it: encoders, language models, a reranker."""

import math
from functools import cached_property
from typing import TYPE_CHECKING

from retriever.embedding import bundled_encoder, open_encoder
from retriever.errors import EncoderError
from retriever.indexing.request import IndexRequest
from retriever.places.view import View
from retriever.settings import EncoderSettings
from retriever.store import text_vectors
from retriever.trace import Recorder
from retriever.types import Encoder, StageName

# A plain question needs none of these, and loads none of them.
if TYPE_CHECKING:
    from retriever.embedding.onnx import PassageReader
    from retriever.rerank import Reranker
    from retriever.served.generator import Generator


class OpenModels:
    """The models for questions to one index; a stage that no question asks for loads none."""

    def __init__(self, request: IndexRequest) -> None:
        self._request = request
        self._profile = request.profile
        self._encoder: Encoder | None = None
        self._made_by = ""  # the encoder of the vectors for which it was opened

    def encoder_for(self, view: View, recorder: Recorder) -> Encoder | None:
        """Return the encoder that made the vectors in force; None, with a reason in the recorder, where there is none.

        Raises:
            EncoderError: the caller's own model does not exist.
        """
        made_by = view.state.fingerprint
        if self._encoder is None or made_by != self._made_by:
            self._made_by = made_by
            dimension = text_vectors.dimension(view.connection, made_by)
            self._encoder = self._request.encoder or open_encoder(self._profile.encoder, made_by, dimension)
        if self._encoder is None:
            return None  # the caller wants words alone
        if not made_by:
            recorder.degrade(StageName.SEMANTIC, "the index has no vectors; index the documents again with this model")
            return None
        try:
            is_same = self._encoder.fingerprint == made_by
        except EncoderError as error:  # a server that does not answer
            recorder.degrade(StageName.SEMANTIC, error)
            return None
        if not is_same:
            reason = "the index was made with another embedding model; index the documents again"
            recorder.degrade(StageName.SEMANTIC, reason)
            return None
        if view.state.embedded_share < 1:
            share = math.floor(100 * view.state.embedded_share)
            reason = f"{share} % of the texts are embedded so far; the others are found by words alone"
            recorder.degrade(StageName.SEMANTIC, reason)
        return self._encoder if view.state.embedded_share else None

    @cached_property
    def generator(self) -> "Generator":
        """The language model; all stages ask the same one."""
        from retriever.served.generator import Generator

        return Generator(self._profile)

    def find_reader(self, *, abroad: bool) -> "PassageReader | None":
        """Return what reads lines of the first sections; None where words alone are wanted.

        Args:
            abroad: whether the multilingual model has embedded them, and they or the question are not in English.
        """
        if not self._profile.read_passages or self._profile.encoder.kind == "none":
            return None
        from retriever.embedding.onnx import OnnxEncoder, open_reader

        own = getattr(self._encoder, "multilingual", self._encoder)  # of both
        if isinstance(own, OnnxEncoder) and (abroad or own.bundled_as == "english"):
            return open_reader(own)
        return open_reader(bundled_encoder(EncoderSettings()))

    @cached_property
    def reranker(self) -> "Reranker | None":
        """The reranker of the candidates; None where none is wanted."""
        # Each kind is imported when it is asked for. No model is loaded yet: faults are errors of `score`.
        settings = self._profile.rerank
        match settings.kind:
            case "auto" | "llm" if self._profile.use_llm:
                from retriever.rerank import LlmReranker

                return LlmReranker(self.generator, is_forced=settings.kind == "llm")
            case "onnx":
                from retriever.rerank import OnnxReranker

                return OnnxReranker(settings)
            case "endpoint":
                from retriever.rerank import EndpointReranker

                return EndpointReranker(self._profile)
        return None
