"""The stage before the search: whether a question is searched with other texts besides it, and with which.

`expand` decides whether a language model is asked, asks it, and screens its texts by their words. When they
are embedded, `screening.drop_unrelated` drops those that are not about the question. Whatever fails, the question is
searched as it is, and the answer says why.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from retriever.errors import LanguageModelError, SnapshotError
from retriever.expansion.prompt import build_expansion_task, choose_texts, plan_expansion
from retriever.expansion.screening import count_rare_names, reason_to_skip, screen
from retriever.places.view import View
from retriever.query import Expansion, ExpansionReport
from retriever.searching.queries import ExpandedQuery
from retriever.served.generator import Generator
from retriever.served.task import USUAL, Abilities
from retriever.settings import Profile
from retriever.trace import Recorder
from retriever.types import StageName

OpenView = Callable[[], AbstractContextManager[View]]


def expand(
    asked: ExpandedQuery,
    given: Expansion | None,
    open_view: OpenView,
    profile: Profile,
    generator: Generator,
    recorder: Recorder,
) -> ExpandedQuery:
    """Return a question with the texts that pass the screening, of those given or written by the language model.

    The recorder has the reason where the language model was asked for, and there are none.
    """
    is_off = given is None and not profile.use_llm
    if is_off and profile.hyde == "always":
        recorder.degrade(StageName.EXPAND, "the language model is switched off: add --use-llm")
    if is_off or profile.hyde == "never":
        return asked
    with recorder.stage(StageName.EXPAND) as note:
        reason, names = look_into_index(asked.question, profile, open_view)
        if reason:
            note.text = f"not needed: {reason}"
            return replace(asked, report=ExpansionReport(note.text, gated=True))
        expansion, note.text = given, "given"
        if expansion is None:
            expansion, note.text = write_expansion(asked.question, profile, generator, recorder)
        usable, dropped = screen(asked.question, expansion, names)
        counts = Counter(item.reason for item in dropped)
        note.text = "; ".join([note.text, *(f"{count} dropped: {reason}" for reason, count in counts.items())])
    report = ExpansionReport(note.text, dropped=dropped, intent=expansion.intent)
    return replace(asked, expansion=usable, report=report)


def write_expansion(question: str, profile: Profile, generator: Generator, recorder: Recorder) -> tuple[Expansion, str]:
    """Return what the language model writes for a question, and how that went."""
    try:
        abilities = generator.abilities or Abilities()
        texts = choose_texts(profile.hyde, abilities)
        if not (texts.rewordings or texts.passages):
            what = f"{generator.name} writes nothing that helps a search"
            recorder.notes.append(f"{what}: expansion is off for it; --hyde always forces it")
            return Expansion(), "skipped"
        # More than the model can write in its seconds would be cut off, and worth nothing.
        planned = plan_expansion(texts, question, generator.speed or USUAL, generator.stage_s)
        if planned is None:
            raise generator.explain_slow(generator.stage_s)
        written = generator.write(build_expansion_task(question, planned))
    except LanguageModelError as error:
        recorder.degrade(StageName.EXPAND, error)
        return Expansion(), "failed"
    return written.expansion(has_intent=abilities.intents), "written by the language model"


def look_into_index(question: str, profile: Profile, open_view: OpenView) -> tuple[str, tuple[str, ...]]:
    """Return why the question is searched as it is, or ""; and its rare names."""
    try:
        with open_view() as view:
            if not view.state.snapshot:
                return "the index is not finished", ()
            names = count_rare_names(question, view)
            return reason_to_skip(question, names, view) if profile.hyde == "auto" else "", tuple(names)
    except SnapshotError:  # the search meets it too, and repairs it
        return "", ()
