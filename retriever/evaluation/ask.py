"""Every question through the real retriever, timed, with what each stage made of it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from retriever.api import open_retriever
from retriever.evaluation.questions import (
    Question,
    QuestionSet,
    Sections,
    check_gold,
    find_excluded_sections,
)
from retriever.evaluation.runs import FoundSection, Outcome, Run
from retriever.protocols import Progress
from retriever.query import AskRequest, Expansion
from retriever.settings.schema import merge
from retriever.types import Answer, Candidate, StageName, Trace

if TYPE_CHECKING:
    from retriever.retriever import Retriever


DEPTH = 30  # sections that are asked for: the largest k of any measure
# What an answer says of these is a remark: all stages ran. What else it names did not run, or failed.
REMARK_STAGES = frozenset({StageName.EMBED, StageName.QUESTION, StageName.REFRESH})


@dataclass(frozen=True, slots=True)
class System:
    """A profile, with settings over it, under a name."""

    name: str
    profile: str
    settings: Mapping[str, Any]  # nested, as in a profile file


@dataclass(frozen=True, slots=True)
class Asked:
    """The documents and what was asked of them."""

    questions: QuestionSet
    # Folders that are indexed first, only what changed, by the settings of each system; empty for those of `index`.
    docs: Sequence[str] = ()
    index: str | None = None  # as for `open_retriever`
    expansions: Mapping[str, Expansion] = field(default_factory=dict)  # by question id; empty: nothing is expanded


def list_sections(retriever: "Retriever") -> Sections:
    return Sections.of(retriever.nodes())


def ask_all(system: System, asked: Asked, progress: Progress | None = None) -> Run:
    """Return the answers of one system to all questions; raises as `Retriever.search`."""
    questions = asked.questions.questions
    with open_system(system, asked, progress, {"top_k": DEPTH}) as retriever:
        sections = list_sections(retriever)
        check_gold(questions, sections)
        asker = Asker(retriever, sections, asked)
        # Before the clock runs: the first question opens the model and the index.
        asker.answer(questions[0])
        if progress is not None:
            progress.start(system.name, len(questions), "questions")
        outcomes = {}
        for number, question in enumerate(questions, start=1):
            outcomes[question.id] = asker.measure_answer(question)
            if progress is not None:
                progress.advance(system.name, number)
        if progress is not None:
            progress.finish(system.name)
    return Run(system.name, outcomes, {"profile": system.profile, "settings": dict(system.settings)})


def open_system(
    system: System, asked: Asked, progress: Progress | None = None, more: Mapping[str, Any] | None = None
) -> "Retriever":
    return open_retriever(asked.docs, asked.index, system.profile, merge(system.settings, more or {}), progress)


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one system, and notes of each answer what is measured."""

    retriever: "Retriever"
    sections: Sections
    asked: Asked

    def answer(self, question: Question) -> Answer:
        return self.retriever.search(AskRequest(question.text, expansion=self.asked.expansions.get(question.id)))

    def measure_answer(self, question: Question) -> Outcome:
        begun, calls = time.perf_counter(), self.retriever.llm_calls
        answer = self.answer(question)
        milliseconds = 1000 * (time.perf_counter() - begun)
        excluded = find_excluded_sections(question, self.sections)
        hits = [hit for hit in answer.hits if hit.node_id not in excluded]
        return Outcome(
            question_id=question.id,
            found=tuple(FoundSection(hit.node_id, hit.file, hit.span, hit.score) for hit in hits),
            abstained=answer.verdict == "none" or not answer.hits,
            confidence=answer.confidence,
            failures=tuple(str(item) for item in answer.degraded if item.stage not in REMARK_STAGES),
            remarks=tuple(str(item) for item in answer.degraded if item.stage in REMARK_STAGES),
            milliseconds=milliseconds,
            llm_calls=self.retriever.llm_calls - calls,
        )


def in_last_order(candidates: Sequence[Candidate], trace: Trace) -> list[Candidate]:
    """Return what was fused, in the order after the choice of candidates and the reranking."""
    places = {node_id: place for place, node_id in enumerate(trace.order)}
    return sorted(candidates, key=lambda item: places.get(item.node_id, len(places)))
