"""Flags: those made from the profile's settings, those that several commands share, and how --help lists them."""

import functools
import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from retriever.command_line import COMMANDS
from retriever.command_line.console import Bars, Console
from retriever.display.editors import AUTOMATIC, EDITOR_TEMPLATES, EDITOR_VARIABLE, NO_EDITOR
from retriever.errors import NotIndexedError, QuestionError, RetrieverError
from retriever.query import Scope
from retriever.settings.layers import DEFAULT_PROFILE, profile_names
from retriever.settings.schema import Bounds, Setting, list_settings, merge, nest

if TYPE_CHECKING:
    from pathlib import Path

    from click.types import OptionHelpExtra

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

    from retriever.indexing.places import choose_index
    from retriever.indexing.request import absolute
    from retriever.store.database import open_database

    kind = "" if "#" in incomplete else "AND parent_id IS NULL"
    try:
        docs = tuple(map(absolute, context.params.get("docs") or ()))
        index = choose_index(docs, context.params.get("index")).index
        with closing(open_database(index)) as connection:
            rows = connection.execute(
                f"SELECT node_id FROM nodes WHERE node_id >= ? AND node_id < ? {kind} ORDER BY node_id LIMIT ?",
                (incomplete, f"{incomplete}\U0010ffff", MAX_OFFERED),
            )
            return [CompletionItem(node_id) for (node_id,) in rows if PLAIN_WORD.fullmatch(node_id)]
    except (RetrieverError, sqlite3.Error):  # an error message would disturb the person who types
        return []


# The settings of a profile as flags.


class Number(click.FloatRange):
    """A finite number in a range; click's own range lets NaN through."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - as click declares it
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class SettingOption(click.Option):
    """The flag of one setting; those that are given reach the command as one nested dict, its parameter `settings`."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        kind = click_type(setting.type)
        is_repeated = get_origin(setting.type) is tuple
        super().__init__(
            ["setting_" + "_".join(setting.path), *setting_flags(setting)],
            type=kind,
            multiple=is_repeated,
            default=None,
            metavar="N" if isinstance(kind, click.IntRange | click.FloatRange) else None,
            help=f"{setting.help}{' Repeat it to give several.' if is_repeated else ''}",
            expose_value=False,
            callback=collect_setting,
        )

    def get_help_extra(self, ctx: click.Context) -> "OptionHelpExtra":
        extra = super().get_help_extra(ctx)
        extra["default"] = format_value(self.setting.default)  # the option itself has none
        return extra


def collect_setting(context: click.Context, option: click.Parameter, value: object) -> None:
    """A click callback: adds the value of a flag to the command's `settings`."""
    assert isinstance(option, SettingOption)
    below = context.params.setdefault("settings", {})
    if value is not None and value != ():
        context.params["settings"] = merge(below, nest(option.setting.path, value))


def setting_flags(setting: Setting) -> tuple[str, ...]:
    """The flags of a setting, the shortest first; a switch has two words in one."""
    if setting.type is bool:
        return (f"{setting.flag}/--no-{setting.flag.removeprefix('--')}",)
    return (setting.short_flag, setting.flag) if setting.short_flag else (setting.flag,)


def format_value(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return "empty" if value == "" else str(value)


def click_type(kind: Any) -> "click.ParamType[Any]":  # noqa: ANN401 - a type form such as Annotated[int, Ge(1)] has no type of its own
    if get_origin(kind) is tuple or NoneType in get_args(kind):
        return click_type(next(part for part in get_args(kind) if part is not NoneType))
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    bare, *metadata = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    if bare is str:
        return click.STRING
    if bare is bool:
        return click.BOOL
    bounds = metadata[0] if metadata else Bounds()
    if bare not in (int, float) or not isinstance(bounds, Bounds):
        raise TypeError(f"no flag can be made of a setting of type {kind}")
    is_open = bounds.above is not None
    low: Any = bounds.above if is_open else bounds.at_least
    high: Any = bounds.at_most
    return (click.IntRange if bare is int else Number)(low, high, min_open=is_open)


# Options that several commands share.

index = click.option(
    "--index",
    metavar="NAME|DIR",
    shell_complete=complete_folder,
    help="The index's name (see `indexes`) or folder. Otherwise HYBRID_RETRIEVE_INDEX, else the one that covers the "
    "folders in question, or the current one.",
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

    def with_offer(self, console: Console) -> "Opening":
        """With the current folder to be indexed, where it has no index and the user at the terminal wants one."""
        from retriever.indexing.places import choose_index

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
        """The open retriever, from the process that runs this command line where it keeps one open.

        Args:
            console: is told how far indexing is, where it is needed.
            on_words: as in `open_retriever`.
        """
        from retriever.api import open_retriever

        opener: Opener = click.get_current_context().obj or open_retriever
        with console.show_progress("looking at the documents" if self.docs else "") as progress:

            def show_words(retriever: "Retriever") -> Sequence[str]:
                assert on_words is not None
                if isinstance(progress, Bars):
                    progress.clear()
                return on_words(retriever)

            early = show_words if on_words else None
            try:
                opened = opener(*self.arguments, progress, on_words=early)
            except NotIndexedError as error:
                docs = [offer_index(error, console)]
                opened = opener(*replace(self, docs=docs).arguments, progress, on_words=early)
        with opened as retriever:
            yield retriever

    def find_several(self) -> "dict[str, Path]":
        """The indexes of `--index a --index b` or --all, by their names."""
        from retriever.indexing.places import find_several

        if self.docs:
            raise click.UsageError("--docs goes with one index; index its folders first, or leave out --docs")
        return find_several(() if self.several == EVERY_INDEX else self.several)


EVERY_INDEX = ("--all",)  # in place of names
# Of documents, for each core, with the bundled model (docs/speed.md): for a rough guess.
BYTES_A_SECOND = 17_000
WORDS_BYTES_A_SECOND = 300_000  # until words answer, by one core

# Takes an `Opening` and a `Progress`: the first five arguments of `open_retriever`.
Opener = Callable[..., AbstractContextManager["Retriever"]]


@contextmanager
def open_one_or_several(opening: Opening, console: Console) -> "Iterator[Retriever | SeveralRetrievers]":
    """The index, or those of `--index a --index b`, each opened as one of them alone is."""
    from retriever.errors import IndexUnusableError
    from retriever.several import SeveralRetrievers

    with ExitStack() as stack:
        if not opening.several:
            yield stack.enter_context(opening.open(console))
            return
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
    cls: type["WithExamples"] | None = None,
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


# How --help looks: examples, then the everyday options, a line each; --help-all has every option and all about it.

COMMON_SETTINGS = frozenset(
    {"top_k", "exact", "documents.ignore", "context_tokens", "record"}
)  # beside a command's own options
FIRST_OPTIONS = ("docs", "index", "profile")
HELP_WIDTH = 100  # columns, at most
OPTION_COLUMN = 24  # columns: what is longer stands on a line of its own
_SENTENCE = re.compile(r"(.{12,}?)(?:[.;:]\s|\.?$)")  # the first one of a help text; what is shorter says nothing


class WithExamples(click.Command):
    """A command whose help shows how it is used.

    Args:
        examples: command lines without the program's name.
        rare: options, by their names or as keys of settings, that --help-all alone shows, as it does the long list of
            settings.
    """

    def __init__(self, *args: Any, examples: Sequence[str], rare: Collection[str] = (), **kwargs: Any) -> None:  # noqa: ANN401 - passed on to click
        super().__init__(*args, **{"context_settings": {"max_content_width": HELP_WIDTH}, **kwargs})
        self.examples = examples
        """Command lines without the program's name."""
        self.rare = frozenset(rare)
        if any(map(self.is_rare, self.params)):
            self.params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=show_all_help,
                    help="Show every option with all there is to say, and exit.",
                )
            )

    def is_rare(self, option: click.Parameter) -> bool:
        """Whether --help-all alone shows it."""
        key = option.setting.key if isinstance(option, SettingOption) else option.name
        return is_long_tail(option) or key in self.rare

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{name_program(ctx)} {example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = self.get_params(ctx)
        common = common_options(options)
        if ctx.meta.get(ALL_HELP) or not any(map(self.is_rare, options)):
            write_options("Options", common, ctx, formatter)
            write_options("Every setting of a profile", filter(is_long_tail, options), ctx, formatter)
            return
        with formatter.section("Options"):
            shown = [shorten(option, ctx) for option in common if not self.is_rare(option)]
            formatter.write_dl([record for record in shown if record is not None], col_max=OPTION_COLUMN)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if ctx.meta.get(ALL_HELP) or not any(map(self.is_rare, self.params)):
            super().format_epilog(ctx, formatter)


def name_program(context: click.Context) -> str:
    """How the program is called where this one was: in a clone by uv, which needs no environment to be active."""
    name = str(context.find_root().info_name)
    return f"uv run {name}" if name == "hybrid_retrieve.py" else name


ALL_HELP = f"{__name__}.all_help"  # in the context's `meta`: everything is wanted


def show_all_help(context: click.Context, _: click.Parameter, value: bool) -> None:
    """A click callback: prints the whole help and ends."""
    if value and not context.resilient_parsing:
        context.meta[ALL_HELP] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def shorten(option: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    """An option's row in --help: its first name, and the first sentence about it."""
    record = option.get_help_record(context) if isinstance(option, click.Option) else None
    if record is None:
        return None
    assert isinstance(option, click.Option)
    names, text = record
    if len(names) > OPTION_COLUMN - 4 or option.secondary_opts:
        names = option.opts[0] if option.is_flag else f"{option.opts[0]} {names.split()[-1]}"
    sentence = _SENTENCE.match(option.help or text)
    default = option.get_help_extra(context).get("default")
    shown = f" [{default}]" if default and not option.is_flag else ""
    return names, f"{sentence[1]}.{shown}" if sentence else text


def common_options(options: Iterable[click.Parameter]) -> list[click.Parameter]:
    """Those that stand first: what is searched and how, the settings used most, the command's other ones, --help."""
    return sorted(
        (option for option in options if not is_long_tail(option)),
        key=lambda option: (is_help(option), option.name not in FIRST_OPTIONS, not isinstance(option, SettingOption)),
    )


def is_help(option: click.Parameter) -> bool:
    """Whether it is --help or --help-all."""
    return option.opts[0] in ("--help", "--help-all")


def is_long_tail(option: click.Parameter) -> bool:
    """Whether the option belongs to the long list of settings."""
    return isinstance(option, SettingOption) and option.setting.key not in COMMON_SETTINGS


def write_options(
    heading: str, options: Iterable[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Writes one list of a help page."""
    named = [option.get_help_record(ctx) for option in options if isinstance(option, click.Option)]
    records = [record for record in named if record is not None]
    if records:
        with formatter.section(heading):
            formatter.write_dl(records, col_max=OPTION_COLUMN)
