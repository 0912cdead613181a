"""The texts of a search become vectors: questions as questions, hypothetical passages as documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from retriever.embedding import open_encoder, unread_tokens
from retriever.embedding.tokens import checked_rows
from retriever.errors import EncoderError, RetrieverError
from retriever.indexing.request import IndexRequest
from retriever.query import Query
from retriever.searching.open_index import View
from retriever.settings.layers import DEFAULT_PROFILE, given_settings
from retriever.settings.schema import EncoderSettings
from retriever.store import reading
from retriever.trace import Recorder
from retriever.types import Encoder, FloatMatrix, TokenBits, as_token_encoder


@dataclass(frozen=True, slots=True)
class Embedded:
    """What an encoder made of the texts of a search."""

    view: View
    """The index, as it is seen by the vectors of that encoder."""
    encoder: Encoder
    vectors: FloatMatrix
    """(n, d), of the queries; a row of zeros for one that the dense arm does not heed."""
    tokens: "TokenBits | None"
    """Of the question alone; None when the encoder has none."""

    def only(self, are_kept: Sequence[bool]) -> "Embedded":
        """Without the other rows; the question's is always kept."""
        return replace(self, vectors=self.vectors[list(are_kept)])


def embedded(view: View, encoder: Encoder | None, queries: Sequence[Query], recorder: Recorder) -> Embedded | None:
    """What to search with; None, and a reason in the recorder, when there is nothing to search with."""
    if encoder is None:
        return None
    try:
        if not view.fingerprint:
            recorder.degraded.append("dense: the index has no vectors; index the documents again with this model")
            return None
        if encoder.fingerprint != view.fingerprint:
            recorder.degraded.append(
                "dense: the index was made with another embedding model; index the documents again"
            )
            return None
        for place, query in enumerate(queries):
            if (query.semantic_weight or not place) and (unread := unread_tokens(encoder, query.text)):
                text = f"expanded text {place}" if place else "question"
                recorder.degraded.append(f"embed: the last {unread} tokens of the {text} are more than the model reads")
        return _encoded(view, encoder, queries)
    except EncoderError as error:
        recorder.degraded.append(f"dense: {error}")
        return None


def _encoded(view: View, encoder: Encoder, queries: Sequence[Query]) -> Embedded:
    """One batch of questions and one of passages; the question, whatever it weighs, with its tokens."""
    token_encoder = as_token_encoder(encoder)
    vectors = np.zeros((len(queries), encoder.dimension), np.float32)
    heeded = [place for place, query in enumerate(queries) if place and query.semantic_weight]
    questions = [place for place in heeded if not queries[place].is_hypothetical]
    passages = [place for place in heeded if queries[place].is_hypothetical]
    tokens = None
    if token_encoder is None:
        questions.insert(0, 0)
    else:
        vector, tokens = token_encoder.encode_query_and_tokens(queries[0].text)
        vectors[:1] = checked_rows(vector, 1, encoder.dimension)
    for places, encode in ((questions, encoder.encode_queries), (passages, encoder.encode_documents)):
        if places:
            rows = encode([queries[place].text for place in places])
            vectors[places] = checked_rows(rows, len(places), encoder.dimension)
    return Embedded(view, encoder, vectors, tokens)


class OpenModels:
    """The models that questions to one index need: the caller's own, and those that the index remembers."""

    def __init__(self, request: IndexRequest) -> None:
        self._request = request
        self._by_fingerprint: dict[str, Encoder | None] = {}
        self._has_matched = False

    def of(self, view: View) -> Encoder | None:
        """What a question to the index in this state is embedded with.

        A retriever that stays open follows the index to its new model; one that was opened for another model than
        the index's is told so by `embedded`.

        Raises:
            EncoderError: the caller's own model cannot be used.
        """
        own = self._own
        if own is None or not view.fingerprint:
            return own
        if own.fingerprint == view.fingerprint:
            self._has_matched = True
        elif self._has_matched:
            return self._opened(view.fingerprint, reading.index_settings(view.connection)) or own
        return own

    @cached_property
    def _own(self) -> Encoder | None:
        return self._request.encoder or open_encoder(self._request.profile.encoder)

    def _opened(self, fingerprint: str, settings: Mapping[str, Any]) -> Encoder | None:
        """The model of that fingerprint, by the settings that it was used with; None when it is not there any more."""
        if self._own is not None and self._own.fingerprint == fingerprint:
            return self._own
        if fingerprint not in self._by_fingerprint:
            self._by_fingerprint[fingerprint] = _remembered(fingerprint, settings)
        return self._by_fingerprint[fingerprint]


def _remembered(fingerprint: str, settings: Mapping[str, Any]) -> Encoder | None:
    try:
        encoder = open_encoder(given_settings(DEFAULT_PROFILE, None, settings, {}).profile().encoder)
        return encoder if encoder is not None and encoder.fingerprint == fingerprint else None
    except RetrieverError:
        return None


def named(settings: EncoderSettings) -> str:
    """A model's kind and name."""
    return " ".join(filter(None, (settings.kind, settings.model)))
