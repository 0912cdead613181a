"""Every question through the real retriever, timed: what a system answered, to be measured."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pageindex.node import Span
from retriever.api import open_retriever
from retriever.evaluation.questions import Question, QuestionSet, Sections, check_gold, find_excluded_sections
from retriever.protocols import Progress
from retriever.query import AskRequest, Expansion
from retriever.settings.schema import merge
from retriever.types import StageName

if TYPE_CHECKING:
    from retriever.retriever import Retriever


@dataclass(frozen=True, slots=True)
class FoundSection:
    node_id: str
    file: str
    span: Span
    score: float


@dataclass(frozen=True, slots=True)
class Outcome:
    question_id: str
    found: tuple[FoundSection, ...]  # best first, each node once
    abstained: bool  # whether the system said that the documents hold no answer
    confidence: float  # how sure it was that they do, 0 to 1
    milliseconds: float  # from the question to the answer, models and index open
    # Stages that failed: what was found then says nothing of the ranking, and is not measured.
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    system: str  # its name in every table
    outcomes: Mapping[str, Outcome]  # by question id
    settings: Mapping[str, Any] = field(default_factory=dict)  # the profile and what was set over it, for the record


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
class EvaluationInput:
    """The documents and what was asked of them."""

    questions: QuestionSet
    # Folders that are indexed first, only what changed, by the settings of each system; empty for those of `index`.
    docs: Sequence[str] = ()
    index: str | None = None  # as for `open_retriever`
    expansions: Mapping[str, Expansion] = field(default_factory=dict)  # by question id; empty: nothing is expanded


def list_sections(retriever: "Retriever") -> Sections:
    return Sections.of(retriever.nodes())


def ask_all(system: System, asked: EvaluationInput, progress: Progress | None = None) -> Run:
    """Return the answers of one system to all questions; raises as `Retriever.search`."""
    questions = asked.questions.questions
    with open_system(system, asked, progress, {"top_k": DEPTH}) as retriever:
        sections = list_sections(retriever)
        check_gold(questions, sections)
        # Before the clock runs: the first question opens the model and the index.
        ask_question(retriever, questions[0], asked, sections)
        if progress is not None:
            progress.start(system.name, len(questions), "questions")
        outcomes = {}
        for number, question in enumerate(questions, start=1):
            outcomes[question.id] = ask_question(retriever, question, asked, sections)
            if progress is not None:
                progress.advance(system.name, number)
        if progress is not None:
            progress.finish(system.name)
    return Run(system.name, outcomes, {"profile": system.profile, "settings": dict(system.settings)})


def open_system(
    system: System, asked: EvaluationInput, progress: Progress | None = None, more: Mapping[str, Any] | None = None
) -> "Retriever":
    return open_retriever(asked.docs, asked.index, system.profile, merge(system.settings, more or {}), progress)


def ask_question(retriever: "Retriever", question: Question, asked: EvaluationInput, sections: Sections) -> Outcome:
    """Return what is measured of the answer to one question."""
    begun = time.perf_counter()
    answer = retriever.search(AskRequest(question.text, expansion=asked.expansions.get(question.id)))
    milliseconds = 1000 * (time.perf_counter() - begun)
    excluded = find_excluded_sections(question, sections)
    hits = [hit for hit in answer.hits if hit.node_id not in excluded]
    return Outcome(
        question_id=question.id,
        found=tuple(FoundSection(hit.node_id, hit.file, hit.span, hit.score) for hit in hits),
        abstained=answer.verdict == "none" or not answer.hits,
        confidence=answer.confidence,
        milliseconds=milliseconds,
        failures=tuple(str(item) for item in answer.degraded if item.stage not in REMARK_STAGES),
    )
