"""The stage before the search: whether a question is searched with other texts besides it, and with which.

`Expander.expand` decides whether a language model is asked, asks it, and screens its texts by their words. When they
are embedded, `screening.drop_unrelated` drops those that are not about the question. Whatever fails, the question is
searched as it is, and the answer says why.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from retriever.errors import LanguageModelError, SnapshotError
from retriever.expansion.prompt import MOST_TEXTS, build_expansion_task, choose_texts, plan_expansion
from retriever.expansion.screening import count_rare_names, reason_to_skip, screen
from retriever.places.view import View
from retriever.query import Expansion, ExpansionReport
from retriever.searching.queries import ExpandedQuery
from retriever.served.generator import Generator
from retriever.served.task import USUAL, Abilities
from retriever.settings.schema import Profile
from retriever.trace import Recorder
from retriever.types import StageName

OpenView = Callable[[], AbstractContextManager[View]]


@dataclass(frozen=True, slots=True)
class Expander:
    """Expands questions to one index; safe to share between threads."""

    settings: Profile
    generator: Generator

    def expand(
        self, asked: ExpandedQuery, expansion: Expansion | None, open_view: OpenView, recorder: Recorder
    ) -> ExpandedQuery:
        """Return a question with the texts that pass the screening, of those given or written by the language model.

        The recorder has the reason where the language model was asked for, and there are none.
        """
        settings = self.settings
        is_off = expansion is None and not settings.use_llm
        if is_off and settings.hyde == "always":
            recorder.degrade(StageName.EXPAND, "the language model is switched off: add --use-llm")
        if is_off or settings.hyde == "never":
            return asked
        with recorder.stage(StageName.EXPAND) as note:
            usable, report = self._expand(asked.question, expansion, open_view, recorder)
            note.text = report.note
        return replace(asked, expansion=usable, report=report)

    def _expand(
        self, question: str, expansion: Expansion | None, open_view: OpenView, recorder: Recorder
    ) -> tuple[Expansion, ExpansionReport]:
        reason, names = self._look_into_index(question, open_view)
        if reason:
            return Expansion(), ExpansionReport(f"not needed: {reason}", gated=True)
        report = ExpansionReport("given")
        if expansion is None:
            try:
                abilities = self.generator.abilities or Abilities()
                texts = choose_texts(self.settings.hyde, abilities)
                if not (texts.rewordings or texts.passages):
                    what = f"{self.generator.name} writes nothing that helps a search"
                    recorder.notes.append(f"{what}: expansion is off for it; --hyde always forces it")
                    return Expansion(), ExpansionReport("skipped")
                # More than the model can write in its seconds would be cut off, and worth nothing.
                speed, seconds = self.generator.speed or USUAL, self.generator.stage_s
                planned = plan_expansion(texts, question, speed, seconds)
                written = self.generator.write(build_expansion_task(question, planned))
            except LanguageModelError as error:
                recorder.degrade(StageName.EXPAND, error)
                return Expansion(), ExpansionReport("failed")
            expansion = written.expansion()
            if not abilities.intents:
                expansion = replace(expansion, intent="")
            report = ExpansionReport("written by the language model")

        wanted = replace(  # no more than was asked for
            expansion,
            rewordings=expansion.rewordings[: MOST_TEXTS.rewordings],
            passages=expansion.passages[: MOST_TEXTS.passages],
        )
        usable, dropped = screen(question, wanted, names)
        counts = Counter(item.reason for item in dropped)
        notes = [report.note, *(f"{count} dropped: {reason}" for reason, count in counts.items())]
        note = "; ".join(notes if any(usable.texts) else [*notes, "nothing to search with"])
        return usable, replace(report, note=note, dropped=dropped, intent=expansion.intent)

    def _look_into_index(self, question: str, open_view: OpenView) -> tuple[str, tuple[str, ...]]:
        """Return why the question is searched as it is, or ""; and its rare names."""
        try:
            with open_view() as view:
                if not view.number:
                    return "the index is not finished", ()
                names = count_rare_names(question, view)
                return reason_to_skip(question, names, view) if self.settings.hyde == "auto" else "", tuple(names)
        except SnapshotError:  # the search meets it too, and repairs it
            return "", ()
