"""What a system answered, to be measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pageindex.node import Span


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
