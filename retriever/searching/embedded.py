"""The texts of a search become vectors: questions as questions, hypothetical passages as documents."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from retriever.embedding import unread_tokens
from retriever.embedding.rows import checked_rows
from retriever.errors import EncoderError
from retriever.query import Query
from retriever.searching.open_index import View
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
    former: "Embedded | None" = None
    """What the former model made of them, while another one takes its place."""
    share: float = 1.0
    """The share of the sections that are in its rankings; below 1 when another model's place is taken that is gone."""

    def only(self, are_kept: Sequence[bool]) -> "Embedded":
        """Without the other rows; the question's is always kept."""
        former = self.former.only(are_kept) if self.former else None
        return replace(self, vectors=self.vectors[list(are_kept)], former=former)

    @property
    def has_tokens(self) -> bool:
        """Whether a model gave tokens, for late interaction; while one takes the place of another, either of them."""
        return self.tokens is not None or (self.former is not None and self.former.has_tokens)

    @property
    def judged_in(self) -> View:
        """Where the best cosine says how sure an answer is: that model's that has read every section."""
        return self.former.view if self.former else self.view


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
            if (query.dense_weight or not place) and (unread := unread_tokens(encoder, query.text)):
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
    heeded = [place for place, query in enumerate(queries) if place and query.dense_weight]
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
