"""The texts of a search become vectors: questions as questions, hypothetical passages as documents."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from retriever.embedding import open_encoder, unread_tokens
from retriever.embedding.tokens import checked_rows
from retriever.errors import EncoderError, IndexLockedError, RetrieverError
from retriever.indexing.model_change import Budget, read_share
from retriever.indexing.request import IndexRequest, matches_config
from retriever.lexical.tokens import tokenize
from retriever.query import Query
from retriever.searching.open_index import OpenIndex, View
from retriever.searching.sources import DenseEvidence, dense_evidence, late_ranking
from retriever.settings.layers import DEFAULT_PROFILE, given_settings
from retriever.settings.schema import EncoderSettings, Profile
from retriever.store import model_change, reading
from retriever.trace import Recorder
from retriever.types import Candidate, Encoder, FloatMatrix, Ranked, Ranking, TokenBits, as_token_encoder


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


# While one embedding model takes the place of another, both answer: each for the sections that it is asked for.
#
# The cosines of two models say nothing of each other, so their rankings are joined by rank. The former model has read
# every section, so it says at which places of the list the new model's sections are; the new model says which of them
# stands at which of these places. However few or many sections the new model has read, and whichever were read first,
# none of them is before or behind the others for that reason; when it has read all, the order is its own.

LIKELY_SECTIONS = 500
"""So many that share words with a question are embedded first."""


@dataclass(frozen=True, slots=True)
class Models:
    """What questions are embedded with."""

    encoder: Encoder | None
    """None: search by words alone."""
    former: Encoder | None = None
    """Whose place it takes; None when nothing is being changed, or that model cannot be used any more."""


class OpenModels:
    """The models that questions to one index need: the caller's own, and those that the index remembers."""

    def __init__(self, request: IndexRequest) -> None:
        self._request = request
        self._by_fingerprint: dict[str, Encoder | None] = {}
        self._has_matched = False

    def of(self, view: View) -> Models:
        """What a question to the index in this state is embedded with.

        A retriever that stays open follows the index to its new model; one that was opened for another model than
        the index's is told so by `embedded`.

        Raises:
            EncoderError: the caller's own model cannot be used.
        """
        own = self._own
        if own is None or not view.fingerprint:
            return Models(own)
        former = model_change.former_model(view.connection)
        stand_in = None if former is None else self._opened(former.fingerprint, former.settings)
        if own.fingerprint == view.fingerprint:
            self._has_matched = True
        elif self._has_matched or stand_in is own:
            followed = self._opened(view.fingerprint, reading.index_settings(view.connection))
            return Models(followed or (None if stand_in is own else own), stand_in)
        return Models(own, stand_in)

    def read_on(self, index: OpenIndex, question: str, recorder: Recorder) -> None:
        """Embeds a share of what a change of the model has left, the sections that are likely to answer first."""
        request = self._request
        try:
            with index.view() as view:
                if view.former is None or not request.profile.change_seconds:
                    return
                encoder, words = self.of(view).encoder, tokenize(question)
                if encoder is None or not matches_config(view.connection, request):
                    return
                likely = view.lexical.search(words, LIKELY_SECTIONS).ranking if words else []
            most = recorder.deadline.seconds_for("change")
            seconds = request.profile.change_seconds if most is None else min(most, request.profile.change_seconds)
            budget = Budget(seconds, [key for key, _ in likely])
            with recorder.stage("change") as note:
                note.text = f"{read_share(request, encoder, budget):,} texts embedded"
        except IndexLockedError:
            return  # another process is at it
        except RetrieverError as error:
            recorder.degraded.append(f"change: {error}")

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


def former_of(view: View) -> tuple[str, float]:
    """The name of the model whose place another one is taking, and of which share of the sections it has vectors."""
    former = model_change.former_model(view.connection)
    if former is None:
        return "", 0.0
    settings = given_settings(DEFAULT_PROFILE, None, former.settings, {}).profile().encoder
    return named(settings), model_change.read_share(view.connection, former.fingerprint)


def embedded_by(view: View, models: Models, queries: Sequence[Query], recorder: Recorder) -> Embedded | None:
    """As `embedded`, by both models while one takes the place of the other; the recorder learns how far that is."""
    texts = embedded(view, models.encoder, queries, recorder)
    if view.former is None or models == Models(None):
        return texts
    aside = Recorder()  # what the new model does not read of a question, it says itself
    stand_in = embedded(view.former, models.former, queries, aside)
    share = model_change.read_share(view.connection, view.fingerprint)
    if texts is None:
        others = (
            "it cannot be used here, and the former one answers"
            if stand_in
            else "neither it nor the former can be used"
        )
    else:
        others = (
            "the former one stands in for the others" if stand_in else "the former one is gone: words find the others"
        )
    recorder.degraded.append(f"dense: a new embedding model has read {share:.0%} of the sections; {others}")
    if texts is None:
        return stand_in
    return replace(texts, former=stand_in, share=1.0 if stand_in else share)


def dense_of(texts: Embedded, queries: Sequence[Query], profile: Profile) -> tuple[DenseEvidence, ...]:
    """As `dense_evidence`, of both models in one; the best cosine is the former's, which has seen every section."""
    found = dense_evidence(texts.view, texts.vectors, queries, profile)
    if texts.former is None:
        return tuple(replace(item, ranking=_by_share(item.ranking, texts)) for item in found)
    former = dense_evidence(texts.former.view, texts.former.vectors, queries, profile)
    return tuple(
        DenseEvidence(_joined(old.ranking, new.ranking, texts.view), old.cosine)
        for old, new in zip(former, found, strict=True)
    )


def late_of(texts: Embedded, candidates: Sequence[Candidate], profile: Profile) -> Ranking | None:
    """As `late_ranking`, of both models in one; None where a model that takes part has no tokens."""
    if texts.tokens is None:
        return None
    found = late_ranking(texts.view, texts.tokens, candidates, profile)
    if texts.former is None:
        return _by_share(found, texts)
    if texts.former.tokens is None:
        return None
    return _joined(late_ranking(texts.former.view, texts.former.tokens, candidates, profile), found, texts.view)


def _by_share(ranking: Ranking, texts: Embedded) -> Ranking:
    """To be the best of few says little: a list of a share of the sections weighs that share."""
    return replace(ranking, weight=ranking.weight * texts.share)


def _joined(old: Ranking, new: Ranking, view: View) -> Ranking:
    ids = {item.node_id for item in (*old.items, *new.items)}
    unread = model_change.unread_among(view.connection, view.fingerprint, ids)
    return replace(old, items=joined(old.items, new.items, unread))


def joined(old: Sequence[Ranked], new: Sequence[Ranked], unread: Set[str]) -> tuple[Ranked, ...]:
    """Two rankings in one: what the new model has read stands where the former had such sections, in the new order.

    Scores stay with the places (quantile normalisation, Bolstad et al. 2003, of ranks alone), so that they are on one
    scale. A section that only the new model knows takes part in its order.

    Args:
        old: of all sections, best first.
        new: of those that the new model has read, best first; of a section that it has read in part, too.
        unread: ids of the sections that it has not read, or only in part.
    """
    known = {item.node_id for item in new}
    read = [item for item in new if item.node_id not in unread]
    read += [item for item in old if item.node_id not in unread | known]  # far down in the new order
    takers = iter(read)
    return tuple(item if item.node_id in unread else _at(item, next(takers)) for item in old)


def _at(place: Ranked, taker: Ranked) -> Ranked:
    return replace(place, node_id=taker.node_id, origin=taker.origin)
