"""The input of a search: the part of the index that it may find, and the texts that it is searched with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from retriever.text import as_tuple

TextKind = Literal["question", "rewording", "passage"]


# How a question writes a filter, and the field of its scope that this sets.
FILTERS = {"in:": "folders", "-in:": "not_folders", "tag:": "tags", "-tag:": "not_tags",
           "since:": "since", "until:": "until", "where:": "where"}  # fmt: skip


@dataclass(frozen=True)
class Scope:
    """Which sections a question may find: those that meet every given field. docs/guide/scope.md has the forms."""

    folders: tuple[str, ...] = ()
    """In any of these folders or files: a path, or the end of one (`daily` is also `journal/daily/`)."""
    tags: tuple[str, ...] = ()
    """In documents that have all of these tags, or one below each (`project` has `project/alpha`)."""
    since: str = ""
    """In documents of this day or later: `2024`, `2024-05`, `2024-05-01`, `today`, `yesterday`, or
    `7d`, `2w`, `3m`, `1y` ago."""
    until: str = ""
    """In documents of this day or earlier; `2024-05` is the whole month."""
    where: tuple[str, ...] = ()
    """In documents whose front matter has all of these: `status=draft`, or `status` for any value."""
    without: tuple[str, ...] = ()
    """Not those that hold one of these words or phrases."""
    phrases: tuple[str, ...] = ()
    """Those that hold all of these, word for word, whatever their case."""
    not_folders: tuple[str, ...] = ()
    """Not in any of these folders or files."""
    not_tags: tuple[str, ...] = ()
    """Not in documents that have one of these tags."""

    def __post_init__(self) -> None:
        """Take one text for a list of it, and lists for tuples: a list is no key of what is kept of a scope."""
        for part in fields(self):
            if isinstance(part.default, tuple):
                object.__setattr__(self, part.name, as_tuple(getattr(self, part.name)))

    def __bool__(self) -> bool:
        """Return whether it leaves anything out."""
        return any(getattr(self, part.name) for part in fields(self))

    def __add__(self, other: "Scope") -> "Scope":
        """Return the filters of both; where both name a day to begin or to end with, `other`'s.

        >>> given, written = Scope("daily", since="2023", phrases="a b"), Scope(["work", "daily"], since="2024")
        >>> (given + written).terms
        ('in:daily', 'in:work', 'since:2024', '"a b"')
        """
        joined: dict[str, Any] = {}
        for part in fields(self):
            mine, theirs = getattr(self, part.name), getattr(other, part.name)
            joined[part.name] = tuple(dict.fromkeys((*mine, *theirs))) if isinstance(mine, tuple) else theirs or mine
        return Scope(**joined)

    @property
    def terms(self) -> tuple[str, ...]:
        """As it is written in a question: `in:daily`, `-"car"`, `"a phrase"`.

        >>> Scope("my notes", not_tags="work", until="2024", without="car").terms
        ('in:"my notes"', '-tag:work', 'until:2024', '-"car"')
        """
        given = {sign: as_tuple(getattr(self, name)) for sign, name in FILTERS.items()}
        named = (
            f'{sign}"{value}"' if any(map(str.isspace, value)) else f"{sign}{value}"
            for sign, values in given.items()
            for value in values
            if value
        )
        return (*named, *(f'-"{word}"' for word in self.without), *(f'"{phrase}"' for phrase in self.phrases))


EVERYWHERE = Scope()


@dataclass(frozen=True)
class SearchedScope:
    """The part of an index that one question was searched in."""

    scope: Scope
    """Of the question and the options together."""
    question: str
    """The text that was searched for: the question without its filters."""
    sections: int
    """How many sections the scope has."""
    documents: int


@dataclass(frozen=True)
class Expansion:
    """Other texts to search with, which a language model wrote without seeing the documents."""

    rewordings: tuple[str, ...] = ()  # the question in other words; none is blank
    passages: tuple[str, ...] = ()  # hypothetical: what a document that answers it might say; none is blank
    intent: str = ""  # one of `expansion.INTENTS`, or another word of the model's; empty when it gave none

    @property
    def texts(self) -> Iterator[tuple[TextKind, str]]:
        """(kind, text) of everything that can be searched with."""
        yield from (("rewording", text) for text in self.rewordings)
        yield from (("passage", text) for text in self.passages)


@dataclass(frozen=True)
class AskRequest:
    """A question, and what goes with it."""

    question: str
    """In any words; it may hold filters (`in:daily`, `tag:x`, `-"word"`, `"a phrase"`: docs/guide/scope.md)."""
    conversation: Sequence[str] = ()
    """The questions that were asked before, oldest first: a follow-up is understood by them."""
    scope: Scope = EVERYWHERE
    """The part that may be found, beside the filters in the question."""
    expansion: Expansion | None = None
    """Other wordings of the question, in place of those that a language model would write."""
    is_typing: bool = False
    """Whether the question is still being typed: its last word may be the beginning of another one, and no language
    model, reranker or reader is waited for."""

    def __post_init__(self) -> None:
        """Take one text for a list of it."""
        object.__setattr__(self, "conversation", as_tuple(self.conversation))

    @classmethod
    def of(cls, asked: "AskRequest | str") -> "AskRequest":
        """Return the request; a text alone is a question."""
        return asked if isinstance(asked, AskRequest) else cls(asked)


@dataclass(frozen=True)
class FollowUp:
    """How a question was understood that follows others."""

    question: str
    """As it was searched for: `and the old ones? snapshots forgotten`."""
    words: tuple[str, ...] = ()
    """Those of it that were taken from the questions before."""
    before: str = ""
    """The question that these are from."""


@dataclass(frozen=True)
class Correction:
    """A word of a question that was searched for in another spelling."""

    wrote: str
    """As it was typed."""
    searched: str
    """As the documents write it, in lower case."""


@dataclass(frozen=True)
class Query:
    """One text of a search, and its weight in both kinds of search."""

    text: str
    # At least 0; the weights of one search add up to 1. The question's is the largest.
    semantic_weight: float
    keyword_weight: float
    kind: TextKind = "question"

    @property
    def is_hypothetical(self) -> bool:
        """Whether it is embedded as a document, not as a question."""
        return self.kind == "passage"


@dataclass(frozen=True)
class Dropped:
    """A text of an expansion that was not searched with."""

    kind: TextKind
    text: str
    reason: str


@dataclass(frozen=True)
class ExpansionReport(Expansion):
    """The expansion of one question, as it was done: the texts that were searched with, and how they came about."""

    note: str = ""  # what was done, or why nothing was, in a few words
    dropped: tuple[Dropped, ...] = ()
    gated: bool = False  # whether the gate left the question as it is

    @property
    def used(self) -> bool:
        """Whether anything was searched with besides the question."""
        return bool(self.rewordings or self.passages)
