"""Which index a command opens, as its options say, and the offer to make one where there is none."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from retriever import api
from retriever.command_line.console import Console
from retriever.display.sanitize import sanitize_line
from retriever.errors import NoIndexError
from retriever.settings.layers import DEFAULT_PROFILE

if TYPE_CHECKING:
    from retriever.retriever import Retriever
    from retriever.several import SeveralRetrievers


@dataclass(frozen=True, slots=True)
class Opening:
    """Which retriever a command opens: the first arguments of `open_retriever` and its kind."""

    docs: Sequence[str] = ()
    index: str | None = None
    profile: str = DEFAULT_PROFILE
    settings: Mapping[str, Any] = field(default_factory=dict)
    several: tuple[str, ...] | None = None  # the indexes in place of `index`; empty: all of them

    @classmethod
    def of(cls, given: MutableMapping[str, Any], settings: Mapping[str, Any]) -> "Opening":
        """Return what a command's options say together, and take them out of `given`."""
        is_all, indexes = given.pop("everywhere", False), given.pop("indexes", ())
        if is_all and indexes:
            raise click.UsageError("--all asks all indexes: leave out --index")
        if len(indexes) == 1:
            given["index"] = indexes[0]
        several = indexes if is_all or len(indexes) > 1 else None
        if several is not None and given.get("docs"):
            raise click.UsageError("--docs goes with one index; index its folders first, or leave out --docs")
        named = ("docs", "index", "profile")
        return cls(**{name: given.pop(name) for name in named if name in given}, settings=settings, several=several)

    @property
    def arguments(self) -> tuple[Sequence[str], str | None, str, Mapping[str, Any]]:
        if self.several is not None:
            raise click.UsageError("this asks one index: give --index once")
        return self.docs, self.index, self.profile, self.settings

    @contextmanager
    def open(self, console: Console, on_words: "Callable[[Retriever], object] | None" = None) -> "Iterator[Retriever]":
        """The open retriever; a person at a terminal in a folder without an index is asked whether to make one.

        Args:
            console: is told how far indexing is, where it is needed.
            on_words: as in `open_retriever`.
        """

        def open_these(docs: Sequence[str]) -> "Retriever":
            with console.show_progress() as progress:
                return api.open_retriever(docs, *self.arguments[1:], progress, on_words=on_words)

        try:
            opened = open_these(self.docs)
        except NoIndexError as error:
            if not (error.folder and console.can_ask and confirm(f"{error.folder} has no index yet. Index it now?")):
                raise
            opened = open_these([error.folder])
        with opened as retriever:
            yield retriever

    @contextmanager
    def open_each(
        self, console: Console, on_words: "Callable[[Retriever], object] | None" = None
    ) -> "Iterator[Retriever | SeveralRetrievers]":
        """The open index, or the indexes of `--index a --index b` and --all, asked as one."""
        if self.several is None:
            with self.open(console, on_words) as retriever:
                yield retriever
            return
        with api.open_several(self.several, self.profile, self.settings) as retrievers:
            yield retrievers


def confirm(question: str, *, default: bool = True) -> bool:
    """Ask the user at the terminal, where Enter is the default; Ctrl-C ends the program, as elsewhere."""
    try:
        return click.confirm(sanitize_line(question), default=default, err=True)
    except click.Abort:
        raise KeyboardInterrupt from None
