"""The texts that a question is searched with: what a language model writes for it, and what becomes of that."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

TextKind = Literal["question", "rewording", "passage", "answer", "keywords"]


@dataclass(frozen=True, slots=True)
class Expansion:
    """Other texts to search with, which a language model wrote without seeing the documents."""

    rewordings: tuple[str, ...] = ()  # the question in other words; none is blank
    passages: tuple[str, ...] = ()  # hypothetical: what a document that answers it might say; none is blank
    answer: str = ""  # one hypothetical answer as a whole, for the mode `answer`; may be blank
    intent: str = ""  # one of `prompt.INTENTS`, or another word of the model's; empty when it gave none
    entities: tuple[str, ...] = ()  # names of things that an answer probably speaks of

    @property
    def texts(self) -> Iterator[tuple[TextKind, str]]:
        """(kind, text) of everything that can be searched with."""
        yield from (("rewording", text) for text in self.rewordings)
        yield from (("passage", text) for text in self.passages)
        if self.answer:
            yield "answer", self.answer

    def with_texts(self, texts: Iterable[tuple[TextKind, str]]) -> "Expansion":
        """The same expansion with other texts, given as `texts` gives them."""
        listed = list(texts)
        return replace(
            self,
            rewordings=tuple(text for kind, text in listed if kind == "rewording"),
            passages=tuple(text for kind, text in listed if kind == "passage"),
            answer=next((text for kind, text in listed if kind == "answer"), ""),
        )


@dataclass(frozen=True, slots=True)
class Correction:
    """A word of a question that was searched for in another spelling."""

    wrote: str
    """As it was typed."""
    searched: str
    """As the documents write it, in lower case."""


@dataclass(frozen=True, slots=True)
class Query:
    """One text of a search, and its weight in both kinds of search."""

    text: str
    # At least 0; the weights of one search add up to 1. The question's is largest, except in the mode `average`.
    semantic_weight: float
    keyword_weight: float  # At least 0; the weights of one search add up to 1. The question's is always the largest.
    kind: TextKind = "question"

    @property
    def is_hypothetical(self) -> bool:
        """Whether it is embedded as a document, not as a question."""
        return self.kind in {"passage", "answer"}


@dataclass(frozen=True, slots=True)
class Dropped:
    """A text of an expansion that was not searched with."""

    kind: TextKind
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExpansionReport:
    """What was done to expand one question."""

    note: str  # what was done, or why nothing was, in a few words
    queries: tuple[Query, ...] = ()  # the texts that were searched with besides the question
    dropped: tuple[Dropped, ...] = ()
    intent: str = ""
    entities: tuple[str, ...] = ()
    # How long the model took to write it, now or earlier (`cached`); None when no model was asked.
    milliseconds: float | None = None
    cached: bool = False  # whether it came from the cache

    @property
    def used(self) -> bool:
        """Whether anything was searched with besides the question."""
        return bool(self.queries)

    @property
    def used_hyde(self) -> bool:
        """Whether hypothetical passages were searched with."""
        return bool(self.passages)

    @property
    def rewordings(self) -> tuple[str, ...]:
        """The rewordings that were searched with; keywords too."""
        return tuple(query.text for query in self.queries if not query.is_hypothetical)

    @property
    def passages(self) -> tuple[str, ...]:
        """The hypothetical passages that were searched with: written by a model, and no content of any document."""
        return tuple(query.text for query in self.queries if query.is_hypothetical)
