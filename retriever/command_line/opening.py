"""Which index a command opens, as its options say, and the offer to make one where there is none."""

import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from retriever import api, indexes
from retriever.command_line.console import Bars, Console
from retriever.display.phrases import format_duration, pluralize
from retriever.display.sanitize import sanitize
from retriever.errors import IndexUnusableError, NotIndexedError, RetrieverError
from retriever.settings.layers import DEFAULT_PROFILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from retriever.retriever import Retriever
    from retriever.several import SeveralRetrievers
    from retriever.store.store import Store

EVERY_INDEX = ("--all",)  # in place of names
# Of documents, for each core, with the bundled model (docs/internals/speed.md): for a rough guess.
BYTES_A_SECOND = 17_000
WORDS_BYTES_A_SECOND = 300_000  # until words answer, by one core


@dataclass(frozen=True, slots=True)
class Opening:
    """Which retriever a command opens: the first arguments of `open_retriever` and its kind."""

    docs: Sequence[str] = ()
    index: str | None = None
    profile: str = DEFAULT_PROFILE
    settings: Mapping[str, Any] = field(default_factory=dict)
    several: tuple[str, ...] = ()  # in place of `index`, where several are asked

    @classmethod
    def of(cls, given: MutableMapping[str, Any]) -> "Opening":
        """Return what a command's options say together, and take them out of `given`."""
        is_all, indexes = given.pop("everywhere", False), given.pop("indexes", ())
        if is_all and indexes:
            raise click.UsageError("--all asks all indexes: leave out --index")
        if len(indexes) == 1:
            given["index"] = indexes[0]
        several = EVERY_INDEX if is_all else indexes if len(indexes) > 1 else ()
        named = ("docs", "index", "profile", "settings")
        return cls(**{name: given.pop(name) for name in named if name in given}, several=several)

    @property
    def arguments(self) -> tuple[Sequence[str], str | None, str, Mapping[str, Any]]:
        if self.several:
            raise click.UsageError("this asks one index: give --index once")
        return self.docs, self.index, self.profile, self.settings

    def with_offer(self, console: Console) -> "Opening":
        """With the current folder to be indexed, where it has no index and the user at the terminal wants one."""
        try:
            if not (self.docs or self.several):
                indexes.choose_index((), self.index)
        except NotIndexedError as error:
            if can_ask(console):
                return replace(self, docs=[offer_index(error, console)])
        except RetrieverError:  # who opens it says so
            pass
        return self

    @contextmanager
    def open(
        self, console: Console, on_words: "Callable[[Retriever], Sequence[str]] | None" = None
    ) -> "Iterator[Retriever]":
        """The open retriever.

        Args:
            console: is told how far indexing is, where it is needed.
            on_words: as in `open_retriever`.
        """
        with console.show_progress("looking at the documents" if self.docs else "") as progress:

            def show_words(retriever: "Retriever") -> Sequence[str]:
                assert on_words is not None
                if isinstance(progress, Bars):
                    progress.clear()
                return on_words(retriever)

            early = show_words if on_words else None
            try:
                opened = api.open_retriever(*self.arguments, progress, on_words=early)
            except NotIndexedError as error:
                docs = [offer_index(error, console)]
                opened = api.open_retriever(*replace(self, docs=docs).arguments, progress, on_words=early)
        with opened as retriever:
            yield retriever

    def find_several(self) -> "dict[str, Store]":
        """The indexes of `--index a --index b` or --all, by their names."""
        if self.docs:
            raise click.UsageError("--docs goes with one index; index its folders first, or leave out --docs")
        return indexes.find_several(() if self.several == EVERY_INDEX else self.several)


@contextmanager
def open_one_or_several(opening: Opening, console: Console) -> "Iterator[Retriever | SeveralRetrievers]":
    """The index, or those of `--index a --index b`, each opened as one of them alone is."""
    with ExitStack() as stack:
        if not opening.several:
            yield stack.enter_context(opening.open(console))
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


def can_ask(console: Console) -> bool:
    return not console.quiet and sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, *, default: bool = False) -> bool:
    """Ask the user at the terminal; Ctrl-C ends the program, as elsewhere."""
    try:
        return click.confirm(sanitize(question), default=default, err=True)
    except click.Abort:
        raise KeyboardInterrupt from None


def offer_index(error: NotIndexedError, console: Console) -> str:
    """The folder without an index, when the user at the terminal wants one; otherwise the error."""
    if not can_ask(console):
        raise error
    words = format_duration(error.size_bytes / WORDS_BYTES_A_SECOND)
    meaning = format_duration(error.size_bytes / BYTES_A_SECOND / (os.cpu_count() or 1))
    files = pluralize(error.documents, "Markdown file") + ("" if error.is_all else " and more")
    console.note(
        f"{error.folder} has no index yet. It holds {files}: until they are found by words it takes {words}, by meaning"
        f" {meaning}, once."
    )
    if not confirm("Index it now?", default=True):
        raise error
    return str(error.folder)
