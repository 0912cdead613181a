"""What commands are made of: the flags that several share, the retriever they open, exit codes, shell completion."""

import functools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from retriever.command_line import COMMANDS
from retriever.command_line.console import Bars, Console
from retriever.command_line.help import SettingOption, WithExamples
from retriever.display.editors import AUTOMATIC, EDITOR_TEMPLATES, EDITOR_VARIABLE, NO_EDITOR
from retriever.errors import NotIndexedError, QuestionError, RetrieverError
from retriever.query import Scope
from retriever.settings.layers import DEFAULT_PROFILE, profile_names
from retriever.settings.schema import list_settings
from retriever.store.store import Store

if TYPE_CHECKING:
    from retriever.retriever import Retriever
    from retriever.several import SeveralRetrievers


class ExitCode(IntEnum):
    OK = 0
    ERROR = 1  # something went wrong; standard error says what, and what to do
    USAGE = 2  # the command line, a setting or the question is wrong
    NO_ANSWER = 3  # no section answers the question, and `--fail-on-none` was given
    INTERRUPTED = 130  # by Ctrl-C; 128 + SIGINT, as a shell says it
    TERMINATED = 143  # a command that runs until it is ended was ended by SIGTERM; 128 + SIGTERM


EXIT_CODES_HELP = (
    "Exit codes: 0 ok, 1 error, 2 usage (a wrong flag, setting or question), 3 no answer (with --fail-on-none), "
    "130 interrupted."
)


# What a shell may put in when the Tab key is pressed.

MAX_OFFERED = 200  # references; more are no help
# What every shell takes literally: nothing like `a;b.md` is offered.
PLAIN_WORD = re.compile(r"[\w./#][\w./#~:@%+,=-]*")


def complete_folder(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


def complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def complete_profile(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = [CompletionItem(name) for name in profile_names() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


def complete_editor(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = (AUTOMATIC, NO_EDITOR, *EDITOR_TEMPLATES)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_reference(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Paths of documents; behind a `#` their sections."""
    import sqlite3

    from retriever.indexes import choose_index
    from retriever.indexing.request import absolute

    kind = "" if "#" in incomplete else "AND parent_id IS NULL"
    try:
        docs = tuple(map(absolute, context.params.get("docs") or ()))
        index = choose_index(docs, context.params.get("index")).index
        with closing(index.open()) as connection:
            rows = connection.execute(
                f"SELECT node_id FROM nodes WHERE node_id >= ? AND node_id < ? {kind} ORDER BY node_id LIMIT ?",
                (incomplete, f"{incomplete}\U0010ffff", MAX_OFFERED),
            )
            return [CompletionItem(node_id) for (node_id,) in rows if PLAIN_WORD.fullmatch(node_id)]
    except (RetrieverError, sqlite3.Error):  # an error message would disturb the person who types
        return []


# Options that several commands share.

index = click.option(
    "--index",
    metavar="NAME|DIR",
    shell_complete=complete_folder,
    help="The index's name (see `indexes`), folder, or postgresql://... Otherwise HYBRID_RETRIEVE_INDEX, else the one "
    "that covers the folders in question, or the current one.",
)
indexes = click.option(
    "--index",
    "indexes",
    multiple=True,
    metavar="NAME|DIR",
    shell_complete=complete_folder,
    help="The index to ask, by its name (see `indexes`) or folder; otherwise that of the current folder. Repeat it to "
    "ask several.",
)
everywhere = click.option("--all", "everywhere", is_flag=True, help="Ask all your indexes (see `indexes`).")
docs = click.option(
    "--docs",
    multiple=True,
    metavar="DIR",
    shell_complete=complete_folder,
    help="A folder of Markdown to index first: only what changed. Repeatable.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
question = click.argument("words", nargs=-1, metavar="QUESTION")
conversation = click.option(
    "--after",
    "--recent-context",
    "conversation",
    multiple=True,
    metavar="TEXT",
    help="A question that was asked before, which this one may follow (`and the old ones?`). Repeatable, oldest first.",
)
folders = click.argument("docs", nargs=-1, required=True, metavar="DOCS...", shell_complete=complete_folder)
editor = click.option(
    "--editor",
    default=AUTOMATIC,
    show_default=True,
    envvar=EDITOR_VARIABLE,
    metavar="NAME|URL",
    shell_complete=complete_editor,
    help=f"What citations open on a terminal: {', '.join(EDITOR_TEMPLATES)}, none, or a URL with {{path}} and "
    f"{{line}}; auto: the editor whose terminal it is, else what opens the file. Otherwise {EDITOR_VARIABLE}.",
)


profile = click.option(
    "--profile",
    default=DEFAULT_PROFILE,
    show_default=True,
    metavar="NAME|FILE",
    shell_complete=complete_profile,
    help=f"The recall mode: {', '.join(profile_names())}, or a YAML file of your own.",
)
DAY_HELP = "2024, 2024-05, 2024-05-01, today, 7d, 2w, 3m, 1y"
# By the fields of `Scope`.
SCOPE_OPTIONS = {
    "folders": ("--in", "FOLDER", "Only in this folder or file. Repeatable: in any of them."),
    "tags": ("--tag", "TAG", "Only in documents with this tag, or one below it. Repeatable: with all of them."),
    "since": ("--since", "DAY", f"Only in documents of this day or later: {DAY_HELP}."),
    "until": ("--until", "DAY", "Only in documents of this day or earlier."),
    "where": ("--where", "KEY=VALUE", "Only in documents whose front matter says so: status=draft. Repeatable."),
}


def scope(function: Callable[..., ExitCode]) -> Callable[..., ExitCode]:
    """--in, --tag, --since, --until and --where, which become the parameter `scope`."""

    @functools.wraps(function)
    def collect(**parameters: Any) -> ExitCode:  # noqa: ANN401 - passed on
        given = {name: parameters.pop(f"scope_{name}") for name in SCOPE_OPTIONS}
        return function(scope=Scope(**{name: value for name, value in given.items() if value}), **parameters)

    inner = collect
    for name, (flag, metavar, text) in reversed(SCOPE_OPTIONS.items()):
        is_repeated = name not in ("since", "until")
        inner = click.option(flag, f"scope_{name}", metavar=metavar, multiple=is_repeated, help=text)(inner)
    return inner


@dataclass(frozen=True, slots=True)
class Opening:
    """Which retriever a command opens: the first arguments of `open_retriever` and its kind."""

    docs: Sequence[str] = ()
    index: str | None = None
    profile: str = DEFAULT_PROFILE
    settings: Mapping[str, Any] = field(default_factory=dict)
    several: tuple[str, ...] = ()  # in place of `index`, where several are asked

    @property
    def arguments(self) -> tuple[Sequence[str], str | None, str, Mapping[str, Any]]:
        if self.several:
            raise click.UsageError("this asks one index: give --index once")
        return self.docs, self.index, self.profile, self.settings

    def holding(self, reference: str) -> "Opening":
        """With the index that a reference is of, where none is named: by its name in it, or by a path that it holds."""
        from retriever.indexes import find_holder, split_reference

        if self.docs or self.index or not reference:
            return self
        store, _ = split_reference(reference)
        path = re.sub(r":\d+(-\d+)?$|#.*", "", reference)
        store = store or (find_holder(path) if os.path.lexists(path) else None)
        return replace(self, index=str(store)) if store else self

    def with_offer(self, console: Console) -> "Opening":
        """With the current folder to be indexed, where it has no index and the user at the terminal wants one."""
        from retriever.indexes import choose_index

        try:
            if not (self.docs or self.several):
                choose_index((), self.index)
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
        from retriever.api import open_retriever

        with console.show_progress("looking at the documents" if self.docs else "") as progress:

            def show_words(retriever: "Retriever") -> Sequence[str]:
                assert on_words is not None
                if isinstance(progress, Bars):
                    progress.clear()
                return on_words(retriever)

            early = show_words if on_words else None
            try:
                opened = open_retriever(*self.arguments, progress, on_words=early)
            except NotIndexedError as error:
                docs = [offer_index(error, console)]
                opened = open_retriever(*replace(self, docs=docs).arguments, progress, on_words=early)
        with opened as retriever:
            yield retriever

    def find_several(self) -> "dict[str, Store]":
        """The indexes of `--index a --index b` or --all, by their names."""
        from retriever.indexes import find_several

        if self.docs:
            raise click.UsageError("--docs goes with one index; index its folders first, or leave out --docs")
        return find_several(() if self.several == EVERY_INDEX else self.several)


EVERY_INDEX = ("--all",)  # in place of names
# Of documents, for each core, with the bundled model (docs/internals/speed.md): for a rough guess.
BYTES_A_SECOND = 17_000
WORDS_BYTES_A_SECOND = 300_000  # until words answer, by one core


@contextmanager
def open_one_or_several(opening: Opening, console: Console) -> "Iterator[Retriever | SeveralRetrievers]":
    """The index, or those of `--index a --index b`, each opened as one of them alone is."""
    with ExitStack() as stack:
        if not opening.several:
            yield stack.enter_context(opening.open(console))
            return
        from retriever.errors import IndexUnusableError
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


def offer_index(error: NotIndexedError, console: Console) -> str:
    """The folder without an index, when the user at the terminal wants one; otherwise the error."""
    if not can_ask(console):
        raise error
    from retriever.display.phrases import format_duration, pluralize

    words = format_duration(error.size_bytes / WORDS_BYTES_A_SECOND)
    meaning = format_duration(error.size_bytes / BYTES_A_SECOND / (os.cpu_count() or 1))
    files = pluralize(error.documents, "Markdown file") + ("" if error.is_all else " and more")
    console.note(
        f"{error.folder} has no index yet. It holds {files}: until they are found by words it takes {words}, by meaning"
        f" {meaning}, once."
    )
    try:
        is_wanted = click.confirm("Index it now?", default=True, err=True)
    except click.Abort:
        raise KeyboardInterrupt from None
    if not is_wanted:
        raise error
    return str(error.folder)


def opening(*options: Callable[..., Any]) -> Callable[[Callable[..., ExitCode]], Callable[..., ExitCode]]:
    """These of --docs, --index and --profile; with the settings they become the parameter `opening`."""

    def decorate(function: Callable[..., ExitCode]) -> Callable[..., ExitCode]:
        @functools.wraps(function)
        def collect(**parameters: Any) -> ExitCode:  # noqa: ANN401 - passed on
            named = {name: parameters.pop(name) for name in Opening.__slots__ if name in parameters}
            is_all, given = parameters.pop("everywhere", False), parameters.pop("indexes", ())
            if is_all and given:
                raise click.UsageError("--all asks all indexes: leave out --index")
            if len(given) == 1:
                named["index"] = given[0]
            else:
                named["several"] = EVERY_INDEX if is_all else given
            return function(opening=Opening(**named), **parameters)

        return functools.reduce(lambda inner, option: option(inner), reversed(options), collect)

    return decorate


def command(
    *examples: str,
    settings: Sequence[str] | None = None,
    cls: type[WithExamples] | None = None,
    **attributes: Any,  # noqa: ANN401 - passed on to click
) -> Callable[[Callable[..., ExitCode]], click.Command]:
    """A command with examples, the flags of some settings (empty: of all) and -q and -v, its parameter `console`."""

    def decorate(function: Callable[..., ExitCode]) -> click.Command:
        @functools.wraps(function)
        def run(*, quiet: bool, verbose: bool, **parameters: object) -> ExitCode:
            if quiet and verbose:
                raise click.UsageError("-q and -v are opposites: give one of them")
            console = Console(quiet, verbose)
            console.follow_logging()
            return function(console=console, **parameters)

        wanted = (
            [] if settings is None else [item for item in list_settings() if item.path[0] in (settings or item.path)]
        )
        flags: list[click.Parameter] = [SettingOption(item) for item in wanted]
        made = click.command(cls=cls or WithExamples, examples=examples, params=flags, **attributes)(run)
        made.params += [
            click.Option(["-q", "--quiet"], is_flag=True, help="Say nothing on standard error but errors."),
            click.Option(
                ["-v", "--verbose"], is_flag=True, help="Say what every stage does, with times, ranks and scores."
            ),
        ]
        return made

    return decorate


def join_question(words: tuple[str, ...], example: str) -> str:
    """The question's arguments as one text, quotes or not; QuestionError, with an `example`, when there is none."""
    question = " ".join(words)
    if not question.strip():
        raise QuestionError(f"the question is empty: write it in quotes, as in: hybrid_retrieve.py {example}")
    return question


COMMAND_IMPLIED = f"{__name__}.implied"  # in the context's `meta`: the default command was not named


def refuse_misplaced_command(words: tuple[str, ...]) -> None:
    """For the default command: `--index DIR status` would silently ask "status"."""
    if click.get_current_context().meta.get(COMMAND_IMPLIED) and words and words[0] in COMMANDS:
        raise click.UsageError(
            f"{words[0]} is a command, and a command comes first, before its options; "
            "a question that begins with this word comes after `ask`"
        )
