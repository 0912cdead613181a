"""Which texts of a language model are searched with: first by their words, then by what they are about."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from retriever.indexing.background import load_unrelated
from retriever.lexical.tokens import tokenize
from retriever.protocols import Encoder
from retriever.query import Dropped, Expansion, Query
from retriever.searching.open_index import View

if TYPE_CHECKING:
    from retriever.types import FloatMatrix

FACTUAL_INTENT = "STUDY_DETAIL"  # a single fact is asked for: an invented one is a wrong one
MIN_Z_SCORE = 2.0  # of normally distributed texts about something else, one in forty-four is higher
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|[\u3002\uff01\uff1f]")


def screen(
    question: str,
    expansion: Expansion,
    max_chars: int,
    names: Collection[str] = (),
) -> tuple[Expansion, tuple[Dropped, ...]]:
    """Return the expansion without the texts that no search should follow, and the dropped texts. Pure.

    A text of more than `max_chars` is cut at a sentence, a much longer one dropped; so is one that lacks one of the
    question's `names`.
    """
    seen = {tuple(sorted(tokenize(question)))}
    name_words = [frozenset(tokenize(name)) for name in names]
    kept, dropped = [], []
    for kind, text in expansion.texts:
        words = tokenize(text)
        checks = (
            (kind != "rewording" and expansion.intent == FACTUAL_INTENT, "a single fact is asked for"),
            (len(text) > 10 * max_chars, f"it has {len(text):,} characters"),
            (not words, "it says nothing"),
            (not all(name & set(words) for name in name_words), "it lost a name of the question"),
            (tuple(sorted(words)) in seen, "it repeats the question or another text"),
        )
        seen.add(tuple(sorted(words)))
        reason = next((reason for is_wrong, reason in checks if is_wrong), "")
        if reason:
            dropped.append(Dropped(kind, cut_at_sentence(text, max_chars), reason))
        else:
            kept.append((kind, cut_at_sentence(text, max_chars)))
    return expansion.with_texts(kept), tuple(dropped)


def cut_at_sentence(text: str, max_chars: int) -> str:
    """Return the text up to the last sentence that ends within `max_chars`; without one, up to the last word."""
    if len(text) <= max_chars:
        return text
    head = text[:max_chars]
    end = max((match.end() for match in _SENTENCE_END.finditer(head)), default=0)
    return head[:end] if end else (head.rpartition(" ")[0] or head)


def count_reasons(dropped: Sequence[Dropped]) -> Iterator[str]:
    """`3 dropped: it says nothing`, for each reason, in the order in which they first came."""
    for reason in dict.fromkeys(item.reason for item in dropped):
        yield f"{sum(item.reason == reason for item in dropped)} dropped: {reason}"


def find_related(
    queries: Sequence[Query], vectors: "FloatMatrix | None", view: View, encoder: Encoder | None
) -> list[bool]:
    """Return which of the queries behind the first are about the question: a model may drift away."""

    # By their vectors, (n, d) float32 with unit rows; a query that is not embedded, or all without vectors, by whether
    # BM25 finds a section for it that it finds for the question, each among its first 20.
    def find_hits(text: str) -> frozenset[int]:
        tokens = tokenize(text)
        return frozenset(key for key, _ in view.lexical.search(tokens, 20).ranking) if tokens else frozenset()

    question, *others = queries
    scores = None
    if vectors is not None and encoder is not None:
        scores = z_scores(vectors, load_unrelated(view.connection, encoder))
    return [
        scores[place] > MIN_Z_SCORE
        if scores and query.semantic_weight
        else bool(find_hits(question.text) & find_hits(query.text))
        for place, query in enumerate(others)
    ]


def z_scores(vectors: "FloatMatrix", unrelated: "FloatMatrix") -> list[float]:
    """Return how near each text is to the question, the first of (n, d) unit vectors: n - 1 numbers."""
    # The cosines of the question with questions on everything else have the mean 0 and the standard deviation 1, so
    # that one limit holds for every model.
    background = unrelated @ vectors[0]
    deviation = float(background.std()) or 1.0
    return [(float(cosine) - float(background.mean())) / deviation for cosine in vectors[1:] @ vectors[0]]
