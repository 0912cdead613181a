"""What a system answered: to be measured, written as JSON Lines, and read again."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pageindex.node import Span
from retriever.errors import UsageError
from retriever.evaluation.formats import Mistakes, id_in, is_trec, json_object, read_lines, read_trec_run, text_in
from retriever.types import Candidate, Ranking, Source

# At which stage of a search the right section was lost.


class Stage(StrEnum):
    """Where the best of the right sections ended, the earliest loss first."""

    NOT_FOUND = "not found"  # no ranking has it: not by its text, not by its words, not as a neighbor
    CUT = "cut"  # a ranking has it, and it fell below the candidate cap
    BELOW = "below top_k"  # it was a candidate, below what the profile returns
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class SourceRank:
    source: Source
    rank: int | None  # from 1; None: it is not in the ranking
    score: float | None
    scale: str
    # The lowest score in the ranking: what it takes to be in it, while it is full; None for an empty list.
    last_score: float | None


@dataclass(frozen=True, slots=True)
class Loss:
    stage: Stage
    node_id: str  # that section: the one with the best rank in the fused list, else in a ranking, else the first by id
    rank: int | None  # in the fused list, from 1; None when no ranking has it
    sources: tuple[SourceRank, ...]


def find_loss(
    right: Collection[str], rankings: Sequence[Ranking], candidates: Sequence[Candidate], top_k: int, cap: int
) -> Loss:
    """How far the best of the right sections, at least one, came; `candidates` without any cut, best first."""
    ranks = {item.node_id: rank for rank, item in enumerate(candidates, start=1) if item.node_id in right}
    node_id = min(ranks, key=lambda name: (ranks[name], name)) if ranks else min(right)
    rank = ranks.get(node_id)
    if rank is None:
        stage = Stage.NOT_FOUND
    elif rank <= top_k:
        stage = Stage.RETURNED
    else:
        stage = Stage.BELOW if rank <= cap else Stage.CUT
    in_sources = []
    for ranking in rankings:
        place, score = find_place(ranking, node_id)
        last = ranking.items[-1].score if ranking.items else None
        in_sources.append(SourceRank(ranking.source, place, score, ranking.scale, last))
    return Loss(stage, node_id, rank, tuple(in_sources))


def find_place(ranking: Ranking, node_id: str) -> tuple[int | None, float | None]:
    """The rank, from 1, and the score of a section in a ranking; None twice where it is not there."""
    for rank, item in enumerate(ranking.items, start=1):
        if item.node_id == node_id:
            return rank, item.score
    return None, None


@dataclass(frozen=True, slots=True)
class Found:
    node_id: str
    file: str
    span: Span | None  # none where a run names files or documents alone
    score: float
    tokens: int = 0  # the length of its own text; 0 where it was not counted


@dataclass(frozen=True, slots=True)
class Outcome:
    question_id: str
    found: tuple[Found, ...]  # best first, each node once
    abstained: bool  # whether the system said that the documents hold no answer
    confidence: float | None = None  # how sure it was that they do, 0 to 1; None where it does not say
    # Stages that failed: what was found then says nothing of the ranking, and is not measured.
    failures: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()  # what else the answer says of its gaps
    milliseconds: float | None = None  # from the question to the answer; None where no clock ran
    # At which stage the right section was lost, or that it was not; None where that is not known.
    loss: Loss | None = None
    llm_calls: int = 0
    llm_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    system: str  # its name in every table
    outcomes: Mapping[str, Outcome]  # by question id
    settings: Mapping[str, Any] = field(default_factory=dict)  # the profile and what was set over it, for the record
    base: str = ""  # the system that this one is a change of; empty for one that stands for itself


def format_run(run: Run, systems: int) -> Iterator[str]:
    """One line for each question: id and hits, best first; with the system's name where a file holds several."""
    from retriever.display.json import dump

    for outcome in run.outcomes.values():
        name = {"system": run.system} if systems > 1 else {}
        hits = [dump(item, "tokens", *(() if item.span else ("span",))) for item in outcome.found]
        failed = {"failures": list(outcome.failures)} if outcome.failures else {}
        yield json.dumps({"id": outcome.question_id, **name, "hits": hits, **failed}, ensure_ascii=False)


def read_runs(path: Path) -> tuple[Run, ...]:
    """The runs of a file: ours, as `--run` and `ask --batch` write it, or one of TREC."""
    if is_trec(path, columns=6):
        outcomes = {}
        for key, names in read_trec_run(path).items():
            found = tuple(Found(name, name, None, float(len(names) - place)) for place, name in enumerate(names))
            outcomes[key] = Outcome(key, found, abstained=not found)
        return (Run(path.stem, outcomes),)

    with Mistakes() as mistakes:
        systems: dict[str, dict[str, Outcome]] = {}
        for place, (system, outcome) in read_lines(path, parse_outcome, mistakes):
            known = systems.setdefault(system or path.stem, {})
            if outcome.question_id in known:
                mistakes.note(place, f"the id {outcome.question_id!r} stands in an earlier line too")
            known[outcome.question_id] = outcome
    if not systems:
        raise UsageError(f'{path}: holds no answer; a line is {{"id": "1", "hits": [...]}}')
    return tuple(Run(system, outcomes) for system, outcomes in systems.items())


def parse_outcome(line: str) -> tuple[str, Outcome]:
    """A line of `run_lines`: the system's name, empty in a file of one system, and its answer; or ValueError."""
    item = json_object(line)
    hits = item.get("hits")
    if not isinstance(hits, list) or not all(isinstance(hit, dict) for hit in hits):
        raise ValueError("hits must be a list of objects")
    found = []
    for hit in hits:
        try:
            span = Span(int(hit["start_line"]), int(hit["end_line"])) if "start_line" in hit else None
            found.append(Found(text_in(hit, "node_id"), text_in(hit, "file"), span, float(hit["score"])))
        except (KeyError, TypeError) as error:
            raise ValueError("a hit has node_id, file, start_line, end_line and score") from error
    if len({hit.node_id for hit in found}) < len(found):
        raise ValueError("hits name a node twice")
    failures = tuple(str(sentence) for sentence in item.get("failures", []))
    outcome = Outcome(id_in(item), tuple(found), abstained=not found, failures=failures)
    return str(item.get("system", "")), outcome


def check_runs(runs: Iterable[Run], question_ids: Sequence[str]) -> None:
    """Refuses a run that lacks a question: it would silently count for nothing."""
    with Mistakes() as mistakes:
        for run in runs:
            missing = [key for key in question_ids if key not in run.outcomes]
            if missing:
                mistakes.note(
                    run.system, f"answers {len(missing):,} of the questions not: {', '.join(missing[:5])} ..."
                )
