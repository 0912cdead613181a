"""Every question through the real retriever, timed, with what each stage made of it."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from retriever.api import open_retriever
from retriever.embedding.onnx import OnnxEncoder
from retriever.evaluation.questions import (
    Question,
    QuestionSet,
    Sections,
    check_gold,
    find_excluded_sections,
    find_right_sections,
)
from retriever.evaluation.runs import Found, Outcome, Run, find_loss
from retriever.protocols import Encoder, Progress
from retriever.query import AskRequest, Expansion
from retriever.searching.fusion import Fusion, fuse
from retriever.served.check import check_llm
from retriever.settings.schema import Profile, merge
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
    base: str = ""  # the system that this one is a change of; empty for one that stands for itself


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
    with open_system(system, asked, progress) as own:
        profile = own.profile
    remark: tuple[str, ...] = ()
    stages: dict[str, Any] = {"rerank": {"kind": "none"}} if profile.rerank.kind == "llm" else {}
    stages |= {"rounds": 0} if profile.rounds else {}
    if asked.expansions and profile.use_llm and stages:
        # Recorded expansions stand in for a language model; where there is none, it does nothing else either.
        reranker = replace(profile.llm, model=profile.llm.rerank_model or profile.llm.model)
        checks = [item for item in check_llm(reranker) if not item.is_well]
        if checks:
            system = replace(system, settings=merge(system.settings, stages))
            remark = (f"{' and '.join(stages)}: {checks[0].says}; measured without it",)
    with open_system(system, asked, progress, {"top_k": max(DEPTH, profile.top_k)}) as retriever:
        sections = list_sections(retriever)
        check_gold(questions, sections)
        texts = {node.id: node.text for node in retriever.nodes()}
        asker = Asker(retriever, profile, sections, texts, OnnxEncoder(), asked, remark)
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
    return Run(system.name, outcomes, {"profile": system.profile, "settings": dict(system.settings)}, system.base)


def open_system(
    system: System, asked: Asked, progress: Progress | None = None, more: Mapping[str, Any] | None = None
) -> "Retriever":
    return open_retriever(asked.docs, asked.index, system.profile, merge(system.settings, more or {}), progress)


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one system, and notes of each answer what is measured."""

    retriever: "Retriever"
    profile: Profile  # the system's own: its top_k is what a user sees, the retriever's what is measured
    sections: Sections
    texts: Mapping[str, str]  # the own text of every node
    # Counts tokens: the bundled model for all profiles, so that those with other encoders are comparable.
    counter: Encoder
    asked: Asked
    remark: tuple[str, ...]  # on every answer

    def answer(self, question: Question) -> Answer:
        return self.retriever.search(AskRequest(question.text, expansion=self.asked.expansions.get(question.id)))

    def measure_answer(self, question: Question) -> Outcome:
        begun, calls = time.perf_counter(), self.retriever.llm_calls
        answer = self.answer(question)
        milliseconds = 1000 * (time.perf_counter() - begun)
        excluded = find_excluded_sections(question, self.sections)
        hits = [hit for hit in answer.hits if hit.node_id not in excluded]
        # A section that came in meanwhile counts by what is shown of it.
        tokens = self.counter.count_tokens([self.texts.get(hit.node_id, hit.text) for hit in hits])
        found = tuple(
            Found(hit.node_id, hit.file, hit.span, hit.score, count) for hit, count in zip(hits, tokens, strict=True)
        )
        right, loss = find_right_sections(question, self.sections), None
        if right:
            fused = fuse(answer.trace.rankings, self.profile.part(Fusion))
            candidates = in_last_order([item for item in fused if item.node_id not in excluded], answer.trace)
            cap = max(self.profile.candidate_cap, self.profile.top_k)
            loss = find_loss(right, candidates, self.profile.top_k, cap)
        return Outcome(
            question_id=question.id,
            found=found,
            abstained=answer.verdict == "none" or not answer.hits,
            confidence=answer.confidence,
            failures=tuple(str(item) for item in answer.degraded if item.stage not in REMARK_STAGES),
            remarks=(*self.remark, *(str(item) for item in answer.degraded if item.stage in REMARK_STAGES)),
            milliseconds=milliseconds,
            loss=loss,
            llm_calls=self.retriever.llm_calls - calls,
        )


def in_last_order(candidates: Sequence[Candidate], trace: Trace) -> list[Candidate]:
    """What was fused, in the order after the token match, the choice of candidates, and the reranking."""
    places = {node_id: place for place, node_id in enumerate(trace.order)}
    return sorted(candidates, key=lambda item: places.get(item.node_id, len(places)))


# A profile without one of its parts, for each part in turn: what does it bring?

# What is taken away, and the settings that do it.
PARTS: Mapping[str, Mapping[str, Any]] = {
    "semantic search": {"semantic_weight": 0.0},
    "keyword search": {"keyword_weight": 0.0},
    "token match": {"token_match_weight": 0.0},
    "names": {"name_weight": 0.0},
    "neighbors": {"neighbor_depth": 0},
    "file roots": {"candidate_file_roots": 0},
    "links": {"links_per_node": 0},
    "evidence weights": {"rank_weighting": "constant"},
    "page prior": {"page_prior": 0.0},
    "rounds": {"rounds": 0},
    "reranking": {"rerank": {"kind": "none"}},
    "rewordings": {"rewording_weight": 0.0},
    "passages": {"hyde_variant_weight": 0.0, "passage_keyword_weight": 0.0},
    "passages' words": {"passage_keyword_weight": 0.0},
    "entities": {"entity_boost": 0.0},
}
OF_EXPANSION = ("rewordings", "passages", "passages' words", "entities")  # only where questions are expanded


def without_each_part(system: System, profile: Profile, *, expanded: bool) -> Iterator[System]:
    """The system, then the same without each part that its profile has; `expanded`: expansions are given."""
    yield system
    for part, change in PARTS.items():
        if differs(profile, change) and (expanded or part not in OF_EXPANSION):
            yield System(f"{system.name} - {part}", system.profile, merge(system.settings, change), system.name)
    if expanded:
        off = {"hyde": {"gate": "never"}}
        yield System(f"{system.name} - expansion", system.profile, merge(system.settings, off), system.name)


def differs(settings: object, change: Mapping[str, Any]) -> bool:
    """Whether any of the settings, nested as in a profile file, has another value."""
    inside = ((getattr(settings, key), value) for key, value in change.items())
    return any(differs(now, value) if isinstance(value, Mapping) else now != value for now, value in inside)
