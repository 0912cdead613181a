"""Understanding and expanding a question: whether other texts are searched with besides it, and which.

`QuestionExpander.draft` decides whether a language model is asked, asks it, and keeps what can be used by the texts
alone. Once they are embedded, `related` drops what is not about the question. Whatever fails, the question is searched
as it is, and the answer says why.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

from retriever.errors import EncoderError, GenerationError, GeneratorError, OutOfTimeError
from retriever.expansion.cache import ExpansionCache, Remembered, cache_key
from retriever.expansion.gate import reason_to_skip, telling_names
from retriever.expansion.grounding import Grounding, Vocabulary, bounded_grounding, vocabulary_of
from retriever.expansion.prompt import expansion_task, instructions
from retriever.expansion.queries import Rarity, kept, weighted_queries
from retriever.expansion.relatedness import UNRELATED_BELOW, nearness, shares_hits
from retriever.expansion.screening import numbered, screened
from retriever.expansion.values import Dropped, Expansion, ExpansionReport, Query
from retriever.llm.generator import Generator
from retriever.searching.budget import TimeBudget
from retriever.searching.open_index import View
from retriever.settings.profile import Profile
from retriever.timing import milliseconds_since
from retriever.trace import Recorder
from retriever.types import Encoder

if TYPE_CHECKING:
    from retriever.types import FloatMatrix


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and what came with it."""

    question: str
    expansion: Expansion | None = None
    """What stands in for the language model's answer; None: the model is asked, if it is switched on."""
    recent_context: str = ""
    """The conversation so far."""
    focus: tuple[str, ...] = ()
    """Kinds of things to write about."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A question and what may be searched with besides."""

    question: str
    expansion: Expansion = field(default_factory=Expansion)
    report: ExpansionReport | None = None
    """None where no expansion was asked for."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the index says of a question before a model is asked."""

    reason: str = ""
    """Why it is searched as it is; empty when it may be expanded."""
    names: tuple[str, ...] = ()
    """In it, which every text must keep."""
    vocabulary: Vocabulary = field(default_factory=Vocabulary)


class QuestionExpander:
    """The stage before the search; safe to share between threads."""

    def __init__(self, profile: Profile, generator: Callable[[], Generator], cache: ExpansionCache) -> None:
        self._profile = profile
        self._generator = generator
        self._cache = cache
        self._vocabulary: tuple[int, Vocabulary] = (0, Vocabulary())
        self._one_call = threading.Lock()
        """Who asks the same question meanwhile finds the answer in the cache."""

    def draft(self, asked: Asked, view: Callable[[], AbstractContextManager[View]], recorder: Recorder) -> Draft:
        """What to search with, as far as the texts tell; the reason is in the trace, a failure in `degraded`.

        Args:
            asked: the question.
            view: opens the index in one state; it is not held while the model writes.
            recorder: of this search.
        """
        if asked.expansion is None and not self._profile.use_llm:
            if self._profile.hyde.gate == "always":
                recorder.degraded.append("expand: the language model is switched off; add --use-llm")
            return Draft(asked.question)
        if not (self._profile.rewordings or self._profile.hyde_variants):
            return Draft(asked.question)
        with recorder.stage("expand") as note:
            draft = self._draft(asked, view, recorder)
            note.text = draft.report.note if draft.report else ""
        return draft

    def _draft(self, asked: Asked, view: Callable[[], AbstractContextManager[View]], recorder: Recorder) -> Draft:
        seen = self._seen(asked.question, view)
        if seen.reason:
            return Draft(asked.question, report=ExpansionReport(f"not needed: {seen.reason}"))
        grounding = bounded_grounding(seen.vocabulary, asked.recent_context, asked.focus)
        report = ExpansionReport("given")
        if asked.expansion is not None:
            expansion = asked.expansion
        else:
            try:
                remembered, cached = self._written(asked.question, grounding, recorder.budget)
            except OutOfTimeError as error:
                recorder.degraded.append(f"expand: {error}")
                return Draft(asked.question, report=ExpansionReport("skipped"))
            except GeneratorError as error:
                recorder.degraded.append(f"expand: {error}")
                return Draft(asked.question, report=ExpansionReport("failed"))
            expansion, milliseconds = remembered.expanded.expansion(), remembered.milliseconds
            note = "remembered" if cached else f"written in {milliseconds:,.0f} ms"
            report = ExpansionReport(note, milliseconds=milliseconds, cached=cached)
        told = "\n".join((instructions(self._profile), *map(str, grounding.lines())))
        wanted = self._wanted(expansion)
        usable, dropped = screened(asked.question, wanted, self._profile.hyde_max_chars, told, seen.names)
        note = "; ".join((report.note, *numbered(dropped), *([] if any(usable.texts) else ["nothing to search with"])))
        report = replace(report, note=note, dropped=dropped, intent=expansion.intent, entities=expansion.entities)
        return Draft(asked.question, usable, report)

    def _seen(self, question: str, view: Callable[[], AbstractContextManager[View]]) -> "_Seen":
        """What the index says before the model is asked."""
        if self._profile.hyde.gate == "never":
            return _Seen("hyde.gate is never")
        try:
            with view() as state:
                if not state.number:
                    return _Seen("the index is not finished")
                names = telling_names(question, state)
                is_gated = self._profile.hyde.gate == "auto"
                reason = reason_to_skip(question, names, state, self._profile) if is_gated else ""
                return _Seen(reason, tuple(names), self._vocabulary_of(state))
        except GenerationError:  # the search comes upon it too, and repairs it
            return _Seen()

    def _vocabulary_of(self, view: View) -> Vocabulary:
        number, vocabulary = self._vocabulary
        if number != view.number:
            vocabulary = vocabulary_of(view.connection)
            self._vocabulary = (view.number, vocabulary)
        return vocabulary

    def _written(self, question: str, grounding: Grounding, budget: TimeBudget) -> tuple[Remembered, bool]:
        """What the model writes, or wrote before, and whether it did before.

        Raises:
            GeneratorError: it wrote nothing that can be used; that is not remembered.
            OutOfTimeError: it would not finish.
        """
        task = expansion_task(question, grounding, self._profile)
        generator = self._generator()
        key = cache_key(generator.name, task)
        known = self._cache.get(key)
        if known is not None:
            return known, True
        with budget.waiting(self._one_call, "expand"):
            known = self._cache.get(key)
            if known is not None:
                return known, True
            begun = perf_counter()
            with budget.allowing("expand") as seconds:
                expanded = generator.write(replace(task, seconds=seconds))
            written = Remembered(expanded, milliseconds_since(begun))
            self._cache.put(key, written)
        return written, False

    def _wanted(self, expansion: Expansion) -> Expansion:
        """What the profile's mode searches with, and no more of it than was asked for."""
        profile = self._profile
        is_answer = profile.hyde.mode == "answer"
        return replace(
            expansion,
            rewordings=expansion.rewordings[: profile.rewordings],
            passages=() if is_answer else expansion.passages[: profile.hyde_variants],
            answer=expansion.answer if is_answer else "",
        )


def draft_queries(draft: Draft, view: View, profile: Profile) -> tuple[Query, ...]:
    """The question first, then what may be searched with besides."""
    return weighted_queries(draft.question, draft.expansion, profile, _rarity(view))


def related(
    draft: Draft,
    queries: Sequence[Query],
    vectors: "FloatMatrix | None",
    view: View,
    encoder: Encoder | None,
    recorder: Recorder,
) -> list[bool]:
    """Which of the queries are about the question; itself is. The others are noted as dropped.

    Args:
        draft: of this question.
        queries: of the draft.
        vectors: (n, d) float32, of the queries; None when there are none.
        view: the index.
        encoder: that made the vectors.
        recorder: of this search; it keeps the report.
    """
    if len(queries) == 1:
        recorder.expansion = draft.report
        return [True]
    with recorder.stage("expand") as note:
        are_kept = [True, *_are_related(queries, vectors, view, encoder, recorder)]
        recorder.expansion = _reported(draft.report or ExpansionReport("given"), queries, are_kept)
        note.text = f"{sum(are_kept) - 1} of {len(queries) - 1} texts are about the question"
    return are_kept


def _are_related(
    queries: Sequence[Query], vectors: "FloatMatrix | None", view: View, encoder: Encoder | None, recorder: Recorder
) -> list[bool]:
    """By their vectors; those that are not embedded, by what BM25 finds for them."""
    question, *others = queries
    if vectors is None or encoder is None:
        return shares_hits(question.text, [query.text for query in others], view)
    try:
        near = nearness(vectors, encoder)
    except EncoderError as error:
        recorder.degraded.append(f"expand: {error}")
        return [False] * len(others)
    return [
        above > UNRELATED_BELOW if query.dense_weight else shares_hits(question.text, [query.text], view)[0]
        for query, above in zip(others, near, strict=True)
    ]


def _reported(report: ExpansionReport, queries: Sequence[Query], are_kept: Sequence[bool]) -> ExpansionReport:
    dropped = [
        Dropped(query.kind, query.text, "it is not about the question")
        for query, is_kept in zip(queries, are_kept, strict=True)
        if not is_kept
    ]
    return replace(report, queries=kept(queries, are_kept)[1:], dropped=(*report.dropped, *dropped))


def _rarity(view: View) -> Rarity:
    def rarity(terms: Sequence[str]) -> dict[str, float]:
        found = view.lexical.search(terms, 1).terms if terms else ()
        return {term.term: term.rarity for term in found if term.documents}

    return rarity
