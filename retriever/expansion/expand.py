"""The stage before the search: whether a question is searched with other texts besides it, and with which.

`Expander.expand` decides whether a language model is asked, asks it, and screens its texts by their words. When they
are embedded, `screening.drop_unrelated` drops those that are not about the question. Whatever fails, the question is
searched as it is, and the answer says why.
"""

import contextlib
import json
import logging
import re
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from time import perf_counter
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from pageindex.corpus import read_file
from retriever.errors import LanguageModelError, OutOfTimeError, SnapshotError
from retriever.expansion.follow_up import build_rewriting, carry_words, find_fault, is_follow_up, read_conversation
from retriever.expansion.prompt import (
    Grounding,
    WrittenExpansion,
    build_expansion_task,
    build_material,
    plan_expansion,
    read_grounding,
)
from retriever.expansion.screening import count_rare_names, reason_to_skip, screen
from retriever.files import find_cache_file, make_private_folder, write_file
from retriever.query import AskRequest, Expansion, ExpansionReport, FollowUp
from retriever.searching.open_index import View
from retriever.searching.queries import ExpandedQuery, find_rarity
from retriever.served.generator import Generator
from retriever.served.task import USUAL, Task, Written
from retriever.settings.schema import Profile
from retriever.trace import Deadline, Recorder, milliseconds_since
from retriever.types import StageName

if TYPE_CHECKING:
    pass


OpenView = Callable[[], AbstractContextManager[View]]


class Expander:
    """Expands questions to one index; safe to share between threads."""

    def __init__(self, settings: Profile, open_generator: "Callable[[], Generator]") -> None:
        self._settings = settings
        self._open_generator = open_generator

    def expand(self, request: AskRequest, open_view: OpenView, recorder: Recorder) -> ExpandedQuery:
        """Return the question as it is understood, with the texts that pass the screening.

        The recorder has the reason where the language model was asked for, and there are none.
        """
        settings, reason = self._settings, ""
        follow_up = self._understand(request, open_view, recorder)
        if follow_up is not None:
            request = replace(request, question=follow_up.question)
        if request.expansion is None and not settings.use_llm:
            reason = "the language model is switched off (use_llm)"
        elif not (settings.rewordings or settings.hyde_variants):
            reason = "there is nothing to write: rewordings and hyde_variants are 0"
        if reason:
            if settings.hyde == "always":
                recorder.degrade(StageName.EXPAND, reason)
            return ExpandedQuery(request.question, follow_up=follow_up)
        with recorder.stage(StageName.EXPAND) as note:
            usable, report = self._expand(request, open_view, recorder)
            note.text = report.note
        return ExpandedQuery(request.question, usable, report, follow_up)

    def _understand(self, request: AskRequest, open_view: OpenView, recorder: Recorder) -> FollowUp | None:
        """Return how the question is understood by those before it; None where it stands alone."""
        question = request.question
        earlier = read_conversation(request.conversation, question)
        if not earlier or not is_follow_up(question):
            return None
        with recorder.stage(StageName.FOLLOW_UP) as note:
            languages: tuple[str, ...] = ()
            words: tuple[str, ...] = ()
            with contextlib.suppress(SnapshotError), open_view() as view:  # the search meets it too, and repairs it
                languages = view.lexical.detect_question(question)
                words = carry_words(question, earlier, partial(find_rarity, view))
            understood = FollowUp(" ".join((question, *words)), words)
            if self._settings.use_llm:
                task = build_rewriting(question, earlier)
                try:
                    answer, _ = self._ask(task, recorder.deadline, StageName.FOLLOW_UP)
                    written = " ".join(answer.standalone_question.split())
                    if fault := find_fault(written, question, earlier, languages):
                        recorder.degrade(StageName.FOLLOW_UP, f"the model's question was not used: {fault}")
                    else:
                        understood = FollowUp(written)
                except (OutOfTimeError, LanguageModelError) as error:
                    recorder.degrade(StageName.FOLLOW_UP, error)
            note.text = f"understood as: {understood.question}"
        return understood if understood.question != question else None

    def _expand(
        self, request: AskRequest, open_view: OpenView, recorder: Recorder
    ) -> tuple[Expansion, ExpansionReport]:
        question, settings = request.question, self._settings
        reason, names, grounding = self._look_into_index(question, open_view)
        if reason:
            return Expansion(), ExpansionReport(f"not needed: {reason}", gated=True)
        expansion, report = request.expansion, ExpansionReport("given")
        if expansion is None:

            def fit(generator: Generator, seconds: float | None) -> Task[WrittenExpansion]:
                target = generator.stage_s if seconds is None else min(seconds, generator.stage_s)
                # Planned by the measured speed: more than it can write in time would be cut off, and worth nothing.
                planned, readable = plan_expansion(settings, question, generator.speed or USUAL, target)
                task = build_expansion_task(question, grounding, planned)
                room = generator.room(task.instructions, task.max_tokens, seconds)
                return replace(task, material=build_material(question, grounding, min(room, readable)))

            started = perf_counter()
            try:
                task = build_expansion_task(question, grounding, settings)
                written, is_cached = self._ask(task, recorder.deadline, StageName.EXPAND, fit)
            except (OutOfTimeError, LanguageModelError) as error:
                recorder.degrade(StageName.EXPAND, error)
                return Expansion(), ExpansionReport("skipped" if isinstance(error, OutOfTimeError) else "failed")
            milliseconds = None if is_cached else milliseconds_since(started)
            note = "cached" if milliseconds is None else f"written in {milliseconds:,.0f} ms"
            expansion = written.expansion()
            report = ExpansionReport(note, milliseconds=milliseconds, cached=is_cached)

        wanted = replace(  # no more than was asked for
            expansion,
            rewordings=expansion.rewordings[: settings.rewordings],
            passages=expansion.passages[: settings.hyde_variants],
        )
        usable, dropped = screen(question, wanted, settings.hyde_max_chars, names)
        counts = Counter(item.reason for item in dropped)
        notes = [report.note, *(f"{count} dropped: {reason}" for reason, count in counts.items())]
        note = "; ".join(notes if any(usable.texts) else [*notes, "nothing to search with"])
        return usable, replace(report, note=note, dropped=dropped, intent=expansion.intent)

    def _look_into_index(self, question: str, open_view: OpenView) -> tuple[str, tuple[str, ...], Grounding]:
        """Return why the question is searched as it is, or ""; its rare names; and the words of the documents."""
        gate = self._settings.hyde
        if gate == "never":
            return "hyde is never", (), Grounding()
        try:
            with open_view() as view:
                if not view.number:
                    return "the index is not finished", (), Grounding()
                names = count_rare_names(question, view)
                reason = reason_to_skip(question, names, view, self._settings) if gate == "auto" else ""
                return reason, tuple(names), Grounding() if reason else read_grounding(view.connection)
        except SnapshotError:  # the search meets it too, and repairs it
            return "", (), Grounding()

    def _ask(
        self,
        task: Task[Written],
        deadline: Deadline,
        stage: StageName,
        fit: "Callable[[Generator, float | None], Task[Written]] | None" = None,
    ) -> tuple[Written, bool]:
        """Return what the model writes, or has written before, and whether it was cached. Failures are not cached.

        `fit` makes the task that it can do in its seconds.
        """
        generator = self._open_generator()
        key = cache_key(generator.identity, task)
        if cached := read_cached(key, task.answer):
            return cached, True
        seconds = deadline.seconds_for(stage)
        written = generator.write_planned(lambda: replace(fit(generator, seconds) if fit else task, seconds=seconds))
        keep_written(key, written)
        return written, False


# What a model wrote before: a small private file for each question in the user's cache folder. Not in the index, which
# may be read-only; what is written for a question depends on it only by the vocabulary that the model was given, which
# is part of the key. Where a file cannot be read or written, the model is asked again.

log = logging.getLogger(__name__)

FOLDER_NAME = "expansions"
MAX_ENTRIES = 1_000
MAX_BYTES = 50_000  # of an entry; no question needs a longer answer
_FILE_NAME = re.compile(r"[0-9a-f]{64}\.json")  # of ours: nothing else in the folder is removed


def cache_key(model: str, task: Task[Written]) -> str:
    """Return a hash of the model, the prompt and its numbers, the question in any case and spacing, the grounding."""
    parts = [model, task.instructions, task.temperature, task.max_tokens, " ".join(task.material.casefold().split())]
    return sha256(json.dumps(parts).encode()).hexdigest()


def read_cached(key: str, kind: type[Written]) -> Written | None:
    """Return what is kept for the key, if anything."""
    folder = find_cache_file(FOLDER_NAME)
    if folder is None:
        return None
    try:
        return kind.model_validate_json(read_file(folder / f"{key}.json", MAX_BYTES))
    except (OSError, ValidationError):  # there is none, or another version wrote it
        return None


def keep_written(key: str, written: BaseModel) -> None:
    """Keep what a model wrote; the oldest ones go."""
    folder = find_cache_file(FOLDER_NAME)
    if folder is None:
        return
    try:
        make_private_folder(folder)
        write_file(folder / f"{key}.json", written.model_dump_json())
        files = [path for path in folder.iterdir() if _FILE_NAME.fullmatch(path.name)]
        if len(files) > MAX_ENTRIES:
            for path in sorted(files, key=lambda path: path.lstat().st_mtime)[:-MAX_ENTRIES]:
                path.unlink(missing_ok=True)
    except OSError as error:
        log.info("%s: %s", folder, error)
