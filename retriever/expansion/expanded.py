"""What is searched for: a question, and the texts that are searched with besides it.

A plain question has none, and imports nothing of the stage that has them written (`retriever.expansion.expand`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from retriever.expansion.gate import find_entities
from retriever.query import Correction, Expansion, ExpansionReport, FollowUp, Query, Scope, Turn
from retriever.searching.open_index import View
from retriever.searching.queries import weigh_queries
from retriever.settings.schema import QueryWeights


@dataclass(frozen=True, slots=True)
class SearchRequest:
    question: str
    # Used in place of the language model's answer; None: the model is asked, if it is switched on.
    expansion: Expansion | None = None
    conversation: tuple[Turn, ...] = ()  # what was asked before, oldest first
    focus: tuple[str, ...] = ()  # kinds of things to write about
    # Done in another thread while a language model writes: the wait is long, and this process idle.
    meanwhile: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class ExpandedQuery:
    question: str
    expansion: Expansion = field(default_factory=Expansion)
    report: ExpansionReport | None = None  # none where no expansion was asked for
    follow_up: FollowUp | None = None  # none where the question stands alone
    asked: str = ""  # the question as it was asked, with its filters
    scope: Scope = field(default_factory=Scope)  # what may be found
    notes: tuple[str, ...] = ()  # how the question was read, where that may surprise
    corrections: tuple[Correction, ...] = ()  # what was mended in it

    @property
    def entities(self) -> tuple[str, ...]:
        """The names that the question speaks of; those that a model invented are none."""
        return find_entities(self.question, self.expansion.entities)


def build_queries(expanded: ExpandedQuery, view: View, weights: QueryWeights) -> tuple[Query, ...]:
    """The question first, then the texts that may be searched with besides it."""
    return weigh_queries(expanded.question, expanded.expansion, weights, partial(find_rarity, view))


def find_rarity(view: View, terms: Sequence[str]) -> dict[str, float]:
    """How rare the terms are in the documents, of those that stand there."""
    found = view.lexical.search(terms, 1).terms if terms else ()
    return {term.term: term.rarity for term in found if term.documents}
