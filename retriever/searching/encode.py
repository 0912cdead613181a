"""The queries of a search become vectors: questions as questions, hypothetical passages as documents."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from retriever.embedding import measure_known_text, unread_tokens
from retriever.embedding.tokenizer import checked_rows
from retriever.errors import EncoderError
from retriever.protocols import Encoder
from retriever.query import Query
from retriever.trace import Recorder
from retriever.types import FloatMatrix, StageName

LEAST_KNOWN = 0.1  # of a question: with less, its vector says nothing
UNDERSTOOD_FROM = 0.3  # with less, its nearest chunk says nothing about an answer
# Of the share that is known. nDCG@10 with 0 (no weighing), 1, 1.5 and 2: German .592, .629, .652, .666; French .640,
# .658, .663, .663; Spanish .550, .574, .576, .566.
TRUST_POWER = 1.5


def explain_pending(share: float) -> str:
    """What is said of an answer while vectors are still to come."""
    rest = "the others are found by words alone" if share else "the sections are found by words alone"
    return f"{math.floor(100 * share)} % of the texts are embedded so far; {rest}"


@dataclass(frozen=True, slots=True)
class EncodedQueries:
    """What an encoder made of the queries of a search."""

    encoder: Encoder
    vectors: FloatMatrix
    """(n, d)"""
    known: float = 1.0
    """Which share of the question the encoder knows, 0 to 1."""

    @property
    def trust(self) -> float:
        """What its rankings weigh beside the others, 0 to 1."""
        return float(self.known**TRUST_POWER)

    def select(self, are_kept: Sequence[bool]) -> "EncodedQueries":
        """Without the rows of the other queries; the question's is always kept."""
        return replace(self, vectors=self.vectors[list(are_kept)])


def encode(
    encoder: Encoder, queries: Sequence[Query], recorder: Recorder, *, in_english: bool = True
) -> EncodedQueries | None:
    """Encode the questions in one batch, and passages in another.

    Args:
        encoder: of the vectors in force.
        queries: the question first.
        recorder: learns what is not read of a long text, or why there are no vectors: then the result is None, as for a
            question of which the encoder knows next to nothing.
        in_english: whether the question may be.
    """
    known = measure_known_text(encoder, queries[0].text, in_english=in_english)
    if known < LEAST_KNOWN:
        text = f"the embedding model knows {known:.0%} of the question, which was searched for by its words alone"
        recorder.degrade(StageName.EMBED, text)
        return None
    vectors = np.zeros((len(queries), encoder.dimension), np.float32)
    try:
        for is_hypothetical, encode_texts in ((False, encoder.encode_queries), (True, encoder.encode_documents)):
            places = [place for place, query in enumerate(queries) if query.is_hypothetical is is_hypothetical]
            if not places:
                continue
            texts = [queries[place].text for place in places]
            for place, count in zip(places, unread_tokens(encoder, texts), strict=True):
                if count:
                    text = f"expanded text {place}" if place else "question"
                    reason = f"the last {count} tokens of the {text} are more than the model reads"
                    recorder.degrade(StageName.EMBED, reason)
            vectors[places] = checked_rows(encode_texts(texts), len(places), encoder.dimension)
    except EncoderError as error:
        recorder.degrade(StageName.SEMANTIC, error)
        return None
    return EncodedQueries(encoder, vectors, known)
