"""What commands are made of: shared options and which index they open, exit codes, shell completion."""

import inspect
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from retriever import api
from retriever.command_line.console import Console
from retriever.command_line.help import SettingOption, WithHelp, all_help_option, is_hidden
from retriever.display.sanitize import sanitize_line
from retriever.errors import NoIndexError, QuestionError, RetrieverError, name_program
from retriever.indexes import find_index
from retriever.query import Scope
from retriever.settings.layers import DEFAULT_PROFILE, profile_names
from retriever.settings.schema import list_settings, merge, nest

if TYPE_CHECKING:
    from retriever.retriever import Retriever
    from retriever.several import SeveralRetrievers


class ExitCode(IntEnum):
    OK = 0
    ERROR = 1  # something went wrong; standard error says what, and what to do
    USAGE = 2  # the command line, a setting or the question is wrong
    NO_ANSWER = 3  # no section answers the question, and `--fail-on-none` was given
    INTERRUPTED = 130  # by Ctrl-C; 128 + SIGINT, as a shell says it


# What a shell may put in when the Tab key is pressed.


def complete_folder(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


def complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def complete_profile(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = [CompletionItem(name) for name in profile_names() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


# What every shell takes literally: nothing like `status=a;b` is offered.
PLAIN_WORD = re.compile(r"[\w./#][\w./#~:@%+,=-]*")


def complete_condition(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Properties of the documents, `status=draft`, those of most documents first."""
    from retriever.searching.scope import list_choices, read_documents  # numpy: 40 ms
    from retriever.store import reading

    try:
        with find_index(next(iter(context.params.get("indexes") or ()), None)).read() as connection:
            offered = list_choices(read_documents(connection), reading.fields(connection)).properties
    except RetrieverError:  # an error message would disturb the person who types
        return []
    return [CompletionItem(text) for text in offered if text.startswith(incomplete) and PLAIN_WORD.fullmatch(text)]


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
no_llm = click.option("--no-llm", is_flag=True, help="Ask no language model, whatever the profile says.")
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
fail_on_none = click.option(
    "--fail-on-none", is_flag=True, help="Exit with 3 when the verdict is none: no section answers."
)
profile = click.option(
    "--profile",
    default=DEFAULT_PROFILE,
    show_default=True,
    metavar="NAME|FILE",
    shell_complete=complete_profile,
    help=f"The recall mode: {', '.join(profile_names())}, or a YAML file of your own.",
)
DAY_HELP = "2024, 2024-05, 2024-05-01, 1.5.2024, today, 7d, 2w, 3m, 1y"
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
    for name, (flag, metavar, text) in reversed(SCOPE_OPTIONS.items()):
        is_repeated = name not in ("since", "until")
        complete = complete_condition if name == "where" else None
        function = click.option(flag, name, metavar=metavar, multiple=is_repeated, shell_complete=complete, help=text)(
            function
        )
    return function


# Which index a command opens.


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

    def open(self, console: Console, on_words: "Callable[[Retriever], object] | None" = None) -> "Retriever":
        """Return the open retriever; a person at a terminal whose folder has no index is asked whether to make one.

        Args:
            console: is told how far indexing is, where it is needed.
            on_words: as in `open_retriever`.
        """

        def open_these(docs: Sequence[str]) -> "Retriever":
            with console.show_progress() as progress:
                return api.open_retriever(docs, *self.arguments[1:], progress, on_words=on_words)

        try:
            return open_these(self.docs)
        except NoIndexError as error:
            if not (error.folder and console.can_ask and confirm(f"{error.folder} has no index yet. Index it now?")):
                raise
            return open_these([error.folder])

    def open_each(
        self, console: Console, on_words: "Callable[[Retriever], object] | None" = None
    ) -> "Retriever | SeveralRetrievers":
        """Return the open index, or the indexes of `--index a --index b` and --all, asked as one."""
        if self.several is None:
            return self.open(console, on_words)
        return api.open_several(self.several, self.profile, self.settings)


def confirm(question: str, *, default: bool = True) -> bool:
    """Ask the user at the terminal, where Enter is the default; Ctrl-C ends the program, as elsewhere."""
    try:
        return click.confirm(sanitize_line(question), default=default, err=True)
    except click.Abort:
        raise KeyboardInterrupt from None


# What --no-llm sets.
WITHOUT_LLM = {"use_llm": False, "answer": {"kind": "extractive"}}


class Command(WithHelp):
    """A command whose function is given what its options say together: its `console`, `opening` and `scope`."""

    def invoke(self, ctx: click.Context) -> object:
        """Call the function."""
        assert self.callback is not None
        given, wanted = ctx.params, inspect.signature(self.callback).parameters
        given["console"] = Console(given.pop("quiet"), given.pop("verbose"))
        given["console"].follow_logging()
        settings: dict[str, Any] = {}
        for option in self.params:
            if isinstance(option, SettingOption) and (value := given.pop(str(option.name))) not in (None, ()):
                settings = merge(settings, nest(option.setting.path, value))
        if given.pop("no_llm", False):
            settings = merge(settings, WITHOUT_LLM)
        if "opening" in wanted:
            given["opening"] = Opening.of(given, settings)
        if "scope" in wanted:
            given["scope"] = Scope(**{name: value for name in SCOPE_OPTIONS if (value := given.pop(name))})
        return super().invoke(ctx)


def command(
    *examples: str, settings: Sequence[str] | None = None, epilog: str = "", name: str = ""
) -> Callable[[Callable[..., ExitCode]], Command]:
    """A command with examples, the flags of some settings (empty: of all) and -q and -v."""

    def decorate(function: Callable[..., ExitCode]) -> Command:
        made = click.command(name or None, Command, examples=examples, epilog=epilog)(function)
        if settings is not None:
            made.params += [SettingOption(item) for item in list_settings() if item.path[0] in (settings or item.path)]
        quiet, verbose = (
            "Say nothing on standard error but errors.",
            "Say more: what is read and embedded, all that `status` knows, where an error came from.",
        )
        made.params += [
            click.Option(["-q", "--quiet"], is_flag=True, help=quiet),
            click.Option(["-v", "--verbose"], is_flag=True, help=verbose),
        ]
        if any(isinstance(option, click.Option) and is_hidden(option) for option in made.params):
            made.params.append(all_help_option())
        return made

    return decorate


def join_question(words: tuple[str, ...], example: str) -> str:
    """The question's arguments as one text, quotes or not; QuestionError, with an `example`, when there is none."""
    question = " ".join(words)
    if not question.strip():
        raise QuestionError(f"the question is empty: write it in quotes, as in: {name_program()} {example}")
    return question


COMMAND_IMPLIED = f"{__name__}.implied"  # in the context's `meta`: the default command was not named
