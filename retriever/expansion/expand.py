"""The stage before the search: whether a question is searched with other texts besides it, and with which.

`Expander.expand` decides whether a language model is asked, asks it, and screens its texts by their words. When they
are embedded, `drop_unrelated` drops those that are not about the question. Whatever fails, the question is searched as
it is, and the answer says why.
"""

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from retriever.errors import EncoderError, LanguageModelError, OutOfTimeError, SnapshotError
from retriever.expansion.cache import CachedExpansion, cache_key, keep_expansion, read_cached
from retriever.expansion.follow_up import build_rewriting, carry_words, find_fault, is_follow_up, read_turns
from retriever.expansion.gate import count_rare_names, find_entities, reason_to_skip
from retriever.expansion.prompt import (
    Grounding,
    Vocabulary,
    WrittenExpansion,
    build_instructions,
    build_material,
    build_task,
    limit_grounding,
    plan_expansion,
    read_vocabulary,
)
from retriever.expansion.screening import count_reasons, find_related, screen
from retriever.protocols import Encoder
from retriever.query import AskRequest, Dropped, ExpansionReport, FollowUp, Query, as_turns
from retriever.searching.open_index import View
from retriever.searching.queries import ExpandedQuery, find_rarity, normalize_weights
from retriever.served.speed import USUAL
from retriever.served.task import Generator, Task, write_planned
from retriever.settings.schema import ExpansionSettings
from retriever.store.reading import StoredState
from retriever.trace import Deadline, Recorder, milliseconds_since
from retriever.types import StageName

if TYPE_CHECKING:
    from retriever.types import FloatMatrix

OpenView = Callable[[], AbstractContextManager[View]]
# The generator and the seconds that it has -> the task that it can do in them.
FitTask = Callable[[Generator, float | None], Task[WrittenExpansion]]


class Expander:
    """Expands questions to one index; safe to share between threads."""

    def __init__(self, settings: ExpansionSettings, open_generator: Callable[[], Generator]) -> None:
        self._settings = settings
        self._open_generator = open_generator
        self._vocabulary: tuple[StoredState | None, Vocabulary] = (None, Vocabulary())  # with the state of the index

    def expand(self, request: AskRequest, open_view: OpenView, recorder: Recorder) -> ExpandedQuery:
        """Return the question as it is understood, with the texts that pass the screening.

        The recorder has the reason where the language model was asked for, and there are none.
        """
        follow_up, request = self._understand(request, open_view, recorder)
        return replace(self._expand_question(request, open_view, recorder), follow_up=follow_up)

    def _understand(
        self, request: AskRequest, open_view: OpenView, recorder: Recorder
    ) -> tuple[FollowUp | None, AskRequest]:
        """Return how the question is understood by those before it, and what is asked then."""
        question = request.question
        turns = read_turns(as_turns(request.conversation), question)
        if not turns or not is_follow_up(question):
            return None, replace(request, conversation=())
        with recorder.stage(StageName.FOLLOW_UP) as note:
            languages: tuple[str, ...] = ()
            words: tuple[str, ...] = ()
            with contextlib.suppress(SnapshotError), open_view() as view:  # the search meets it too, and repairs it
                languages = view.lexical.detect_question(question)
                words = carry_words(question, turns, partial(find_rarity, view))
            if self._settings.use_llm:
                try:
                    entry, _ = self._ask(build_rewriting(question, turns), recorder.deadline, StageName.FOLLOW_UP)
                    written = " ".join(entry.written.standalone_question.split())
                    fault = find_fault(written, question, turns, languages)
                    if not fault:
                        note.text = f"understood as: {written}"
                        return FollowUp(written), replace(request, question=written, conversation=())
                    recorder.degrade(StageName.FOLLOW_UP, f"the model's question was not used: {fault}")
                except (OutOfTimeError, LanguageModelError) as error:
                    recorder.degrade(StageName.FOLLOW_UP, error)
            joined = " ".join((question, *words))
            note.text = f"understood as: {joined}"
        return FollowUp(joined, words) if words else None, replace(request, question=joined, conversation=turns)

    def _expand_question(self, request: AskRequest, open_view: OpenView, recorder: Recorder) -> ExpandedQuery:
        settings = self._settings
        if request.expansion is None and not settings.use_llm:
            if settings.hyde.gate == "always":
                recorder.degrade(StageName.EXPAND, "the language model is switched off (use_llm)")
            return ExpandedQuery(request.question)
        if not (settings.rewordings or settings.hyde_variants or settings.hyde.mode == "answer"):
            if settings.hyde.gate == "always":
                recorder.degrade(StageName.EXPAND, "there is nothing to write: rewordings and hyde_variants are 0")
            return ExpandedQuery(request.question)
        with recorder.stage(StageName.EXPAND) as note:
            expanded = self._expand(request, open_view, recorder)
            if (report := expanded.report) is not None:
                note.text = report.note
                entities = find_entities(expanded.question, expanded.expansion.entities)
                expanded = replace(expanded, report=replace(report, entities=entities))
        return expanded

    def _expand(self, request: AskRequest, open_view: OpenView, recorder: Recorder) -> ExpandedQuery:
        question, settings = request.question, self._settings
        reason, names, vocabulary = self._look_into_index(question, open_view)
        if reason:
            return ExpandedQuery(question, report=ExpansionReport(f"not needed: {reason}", gated=True))
        # The words of the documents stand in the prompt: a model writes a likely answer in their terms, not in its own.
        grounding = limit_grounding(vocabulary, as_turns(request.conversation), request.focus)
        expansion, report = request.expansion, ExpansionReport("given")
        if expansion is None:
            try:
                entry, is_cached = self._write(request, grounding, recorder.deadline)
            except (OutOfTimeError, LanguageModelError) as error:
                recorder.degrade(StageName.EXPAND, error)
                note = "skipped" if isinstance(error, OutOfTimeError) else "failed"
                return ExpandedQuery(question, report=ExpansionReport(note))
            note = "cached" if is_cached else f"written in {entry.milliseconds:,.0f} ms"
            expansion = entry.written.expansion()
            report = ExpansionReport(note, milliseconds=entry.milliseconds, cached=is_cached)

        # No more than was asked for, and of passages and the whole answer only what the mode searches with.
        is_answer = settings.hyde.mode == "answer"
        wanted = replace(
            expansion,
            rewordings=expansion.rewordings[: settings.rewordings],
            passages=() if is_answer else expansion.passages[: settings.hyde_variants],
            answer=expansion.answer if is_answer else "",
        )
        # The screening drops what repeats the prompt, so it has to know the whole of it.
        prompt = "\n".join((build_instructions(settings), *map(str, grounding.lines())))
        usable, dropped = screen(question, wanted, settings.hyde_max_chars, prompt, names)
        nothing = [] if any(usable.texts) else ["nothing to search with"]
        note = "; ".join((report.note, *count_reasons(dropped), *nothing))
        report = replace(report, note=note, dropped=dropped, intent=expansion.intent)
        return ExpandedQuery(question, usable, report)

    def _look_into_index(self, question: str, open_view: OpenView) -> tuple[str, tuple[str, ...], Vocabulary]:
        """Return why the question is searched as it is, or ""; its rare names; and the words of the documents."""
        gate = self._settings.hyde.gate
        if gate == "never":
            return "hyde.gate is never", (), Vocabulary()
        try:
            with open_view() as view:
                if not view.number:
                    return "the index is not finished", (), Vocabulary()
                names = count_rare_names(question, view)
                reason = reason_to_skip(question, names, view, self._settings) if gate == "auto" else ""
                if self._vocabulary[0] != view.state:
                    self._vocabulary = (view.state, read_vocabulary(view.connection))
                return reason, tuple(names), self._vocabulary[1]
        except SnapshotError:  # the search meets it too, and repairs it
            return "", (), Vocabulary()

    def _write(self, request: AskRequest, grounding: Grounding, deadline: Deadline) -> tuple[CachedExpansion, bool]:
        """Return what the model writes, or has written before, and whether it was cached. Failures are not cached."""
        question = request.question

        def fit(generator: Generator, seconds: float | None) -> Task[WrittenExpansion]:
            target = generator.stage_s if seconds is None else min(seconds, generator.stage_s)
            # Planned by the measured speed: more than it can write in time would be cut off, and worth nothing.
            planned, readable = plan_expansion(self._settings, question, generator.speed or USUAL, target)
            task = build_task(question, grounding, planned)
            room = generator.room(task.instructions, task.max_tokens, seconds)
            return replace(task, material=build_material(question, grounding, min(room, readable)))

        task = build_task(question, grounding, self._settings)
        return self._ask(task, deadline, StageName.EXPAND, fit)

    def _ask(
        self,
        task: Task[WrittenExpansion],
        deadline: Deadline,
        stage: StageName,
        fit: FitTask | None = None,
    ) -> tuple[CachedExpansion, bool]:
        """Return what the model writes for a task, which `fit` cuts to the time there is, and whether it was cached."""
        generator = self._open_generator()
        key = cache_key(generator.identity, task)
        if entry := read_cached(key):
            return entry, True
        started = perf_counter()
        seconds = deadline.seconds_for(stage)
        written = write_planned(generator, lambda: replace(fit(generator, seconds) if fit else task, seconds=seconds))
        entry = CachedExpansion(written=written, milliseconds=milliseconds_since(started))
        keep_expansion(key, entry)
        return entry, False


def drop_unrelated(
    queries: Sequence[Query], vectors: "FloatMatrix | None", view: View, encoder: Encoder | None, recorder: Recorder
) -> tuple[tuple[Query, ...], list[bool]]:
    """Return the queries that are about the question, which stays first, newly weighted; and which of all they are."""
    with recorder.stage(StageName.EXPAND) as note:
        try:
            are_kept = [True, *find_related(queries, vectors, view, encoder)]
        except EncoderError as error:
            recorder.degrade(StageName.EXPAND, error)
            are_kept = [True] + [False] * (len(queries) - 1)
        kept = normalize_weights([query for query, is_kept in zip(queries, are_kept, strict=True) if is_kept])
        dropped = (
            Dropped(query.kind, query.text, "it is not about the question")
            for query, is_kept in zip(queries, are_kept, strict=True)
            if not is_kept
        )
        report = recorder.expansion or ExpansionReport("given")
        recorder.expansion = replace(report, queries=kept[1:], dropped=(*report.dropped, *dropped))
        note.text = f"{sum(are_kept) - 1} of {len(queries) - 1} texts are about the question"
    return kept, are_kept
