"""The values of an expansion."""

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a language model made of a question without seeing the sections that answer it."""

    rewordings: tuple[str, ...] = ()
    """The question in other words; none is blank."""
    passages: tuple[str, ...] = ()
    """Hypothetical: what a document that answers it might say; none is blank."""
    answer: str = ""
    """One hypothetical answer as a whole, for the mode `answer`; may be blank."""
    intent: str = ""
    """One of `prompt.INTENTS`, or what else the model called it; empty when it said nothing."""
    entities: tuple[str, ...] = ()
    """Names of things that an answer probably speaks of."""

    @property
    def texts(self) -> Iterator[tuple[str, str]]:
        """(kind, text) of all that can be searched with."""
        yield from (("rewording", text) for text in self.rewordings)
        yield from (("passage", text) for text in self.passages)
        if self.answer:
            yield "answer", self.answer

    def with_texts(self, texts: Iterator[tuple[str, str]]) -> "Expansion":
        """The same with other texts, as `texts` gives them."""
        listed = list(texts)
        return replace(
            self,
            rewordings=tuple(text for kind, text in listed if kind == "rewording"),
            passages=tuple(text for kind, text in listed if kind == "passage"),
            answer=next((text for kind, text in listed if kind == "answer"), ""),
        )


@dataclass(frozen=True, slots=True)
class Query:
    """One text of a search, and how much each arm heeds it."""

    text: str
    dense_weight: float
    """At least 0; those of one search add up to 1. The question's is the largest, but in the mode `average`."""
    lexical_weight: float
    """Likewise, in every mode."""
    kind: str = "question"
    """`question`, `rewording`, `passage`, `answer` or `keywords`."""

    @property
    def is_hypothetical(self) -> bool:
        """Whether it is embedded as a document, not as a question."""
        return self.kind in {"passage", "answer"}


@dataclass(frozen=True, slots=True)
class Dropped:
    """A text of an expansion that was not searched with."""

    kind: str
    """As of a query."""
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExpansionReport:
    """What became of the expansion of one question."""

    note: str
    """What was done, or why nothing was, in a few words."""
    queries: tuple[Query, ...] = ()
    """What was searched with besides the question."""
    dropped: tuple[Dropped, ...] = ()
    intent: str = ""
    entities: tuple[str, ...] = ()
    milliseconds: float | None = None
    """How long the model took to write it, now or when it was remembered; None when no model was asked."""
    cached: bool = False
    """Whether it was remembered."""

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
        """The question in other words, as it was searched with; keywords too."""
        return tuple(query.text for query in self.queries if not query.is_hypothetical)

    @property
    def passages(self) -> tuple[str, ...]:
        """The hypothetical passages that were searched with: written by a model, and no content of any document."""
        return tuple(query.text for query in self.queries if query.is_hypothetical)
