"""Which index a command opens, as its options say."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from retriever import api, indexes
from retriever.command_line.console import Console
from retriever.errors import IndexUnusableError
from retriever.settings.layers import DEFAULT_PROFILE

if TYPE_CHECKING:
    from retriever.retriever import Retriever
    from retriever.several import SeveralRetrievers
    from retriever.store.store import Store

EVERY_INDEX = ("--all",)  # in place of names


@dataclass(frozen=True, slots=True)
class Opening:
    """Which retriever a command opens: the first arguments of `open_retriever` and its kind."""

    docs: Sequence[str] = ()
    index: str | None = None
    profile: str = DEFAULT_PROFILE
    settings: Mapping[str, Any] = field(default_factory=dict)
    several: tuple[str, ...] = ()  # in place of `index`, where several are asked

    @classmethod
    def of(cls, given: MutableMapping[str, Any], settings: Mapping[str, Any]) -> "Opening":
        """Return what a command's options say together, and take them out of `given`."""
        is_all, indexes = given.pop("everywhere", False), given.pop("indexes", ())
        if is_all and indexes:
            raise click.UsageError("--all asks all indexes: leave out --index")
        if len(indexes) == 1:
            given["index"] = indexes[0]
        several = EVERY_INDEX if is_all else indexes if len(indexes) > 1 else ()
        named = ("docs", "index", "profile")
        return cls(**{name: given.pop(name) for name in named if name in given}, settings=settings, several=several)

    @property
    def arguments(self) -> tuple[Sequence[str], str | None, str, Mapping[str, Any]]:
        if self.several:
            raise click.UsageError("this asks one index: give --index once")
        return self.docs, self.index, self.profile, self.settings

    @contextmanager
    def open(
        self, console: Console, on_words: "Callable[[Retriever], Sequence[str]] | None" = None
    ) -> "Iterator[Retriever]":
        """The open retriever.

        Args:
            console: is told how far indexing is, where it is needed.
            on_words: as in `open_retriever`.
        """
        with console.show_progress() as progress:
            opened = api.open_retriever(*self.arguments, progress, on_words=on_words)
        with opened as retriever:
            yield retriever

    def find_several(self) -> "dict[str, Store]":
        """The indexes of `--index a --index b` or --all, by their names."""
        if self.docs:
            raise click.UsageError("--docs goes with one index; index its folders first, or leave out --docs")
        return indexes.find_several(() if self.several == EVERY_INDEX else self.several)


@contextmanager
def open_one_or_several(
    opening: Opening, console: Console, on_words: "Callable[[Retriever], Sequence[str]] | None" = None
) -> "Iterator[Retriever | SeveralRetrievers]":
    """The index, or those of `--index a --index b`, each opened as one of them alone is."""
    with ExitStack() as stack:
        if not opening.several:
            yield stack.enter_context(opening.open(console, on_words))
            return
        from retriever.several import SeveralRetrievers

        retrievers, failed = {}, {}
        for name, place in opening.find_several().items():
            try:
                one = replace(opening, index=str(place), several=()).open(console)
                retrievers[name] = stack.enter_context(one)
            except IndexUnusableError as error:
                failed[name] = error
        yield SeveralRetrievers(retrievers, failed)
