"""Flags: those made from the profile's settings, and those that several commands share."""

import math
import re
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from enum import IntEnum
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import click
from annotated_types import Ge, Gt, Le
from click.shell_completion import CompletionItem

from retriever.display.editors import AUTOMATIC, EDITOR_TEMPLATES, EDITOR_VARIABLE, NO_EDITOR
from retriever.errors import RetrieverError
from retriever.settings.layers import DEFAULT_PROFILE, profile_names
from retriever.settings.schema import Setting, merged, nested, settings

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

    from retriever.command_line.console import Notes


# What a shell may put in when the Tab key is pressed.

MAX_OFFERED = 200

_PLAIN = re.compile(r"[\w./#][\w./#~:@%+,=-]*")
"""What every shell takes as it stands. Names of documents are other people's words: what a shell would obey, such as
`a;b.md`, is never put into a command line."""


def any_folder(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders."""
    return [CompletionItem(incomplete, type="dir")]


def any_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files."""
    return [CompletionItem(incomplete, type="file")]


def profile(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of profiles, or files where none fits."""
    names = [CompletionItem(name) for name in profile_names() if name.startswith(incomplete)]
    return names or any_file(context, parameter, incomplete)


def editor(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of editors."""
    names = (AUTOMATIC, NO_EDITOR, *EDITOR_TEMPLATES)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def reference(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Paths of documents; behind a `#` their sections."""
    try:
        found = _node_ids(context, incomplete)
    except (RetrieverError, sqlite3.Error):  # nothing can be said while somebody types
        return []
    return [CompletionItem(node_id) for node_id in found if _PLAIN.fullmatch(node_id)]


def _node_ids(context: click.Context, beginning: str) -> list[str]:
    from retriever.indexing.request import absolute, find_index
    from retriever.store.database import open_database

    docs = tuple(map(absolute, context.params.get("docs") or ()))
    index = find_index(docs, context.params.get("index"))
    kind = "" if "#" in beginning else "AND parent_id IS NULL"
    with closing(open_database(index)) as connection:
        rows = connection.execute(
            f"SELECT node_id FROM nodes WHERE node_id >= ? AND node_id < ? {kind} ORDER BY node_id LIMIT ?",
            (beginning, f"{beginning}\U0010ffff", MAX_OFFERED),
        )
        return [node_id for (node_id,) in rows]


Command = TypeVar("Command", bound=Callable[..., Any])

SHORT_FLAGS = {
    "top_k": "-k",
    "context_tokens": "--max-tokens",
    "documents.ignore": "--ignore",
    "llm.url": "--ollama-url",
    "hyde.gate": "--hyde",
    "summaries.kind": "--summaries",
}
"""Settings with a shorter flag beside their own."""


class Number(click.FloatRange):
    """A finite number in a range; click's own range lets NaN through."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - as click declares it
        """The number.

        Raises:
            click.BadParameter: it is none, or out of range.
        """
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class SettingOption(click.Option):
    """The flag of one setting; when it is not given, the layers below decide."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        kind = click_type(setting.type)
        repeated = get_origin(setting.type) is tuple
        super().__init__(
            [parameter_name(setting), *flags(setting)],
            type=kind,
            multiple=repeated,
            default=None,
            metavar=_metavar(kind),
            help=f"{setting.help}{' Repeat it to give several.' if repeated else ''}",
        )

    def get_help_extra(self, ctx: click.Context) -> "OptionHelpExtra":
        """As click's, with the setting's default; the option itself has none."""
        extra = super().get_help_extra(ctx)
        extra["default"] = shown_value(self.setting.default)
        return extra


def parameter_name(setting: Setting) -> str:
    """The name under which click hands its value over."""
    return "setting_" + "_".join(setting.path)


def flags(setting: Setting) -> tuple[str, ...]:
    """Its flags, the shortest first; a switch has two words in one."""
    if setting.type is bool:
        return (f"{setting.flag}/--no-{setting.flag.removeprefix('--')}",)
    short = SHORT_FLAGS.get(setting.key)
    return (short, setting.flag) if short else (setting.flag,)


def shown_value(value: object) -> str:
    """A setting's value in a help text."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return "empty" if value == "" else str(value)


def click_type(kind: Any) -> "click.ParamType[Any]":  # noqa: ANN401 - a type form such as Annotated[int, Ge(1)] has no type of its own
    """How click reads a value of a setting's type.

    Raises:
        TypeError: a kind of setting that no flag can be made of.
    """
    if get_origin(kind) is tuple or NoneType in get_args(kind):
        return click_type(next(part for part in get_args(kind) if part is not NoneType))
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    bare, *bounds = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    if bare is str:
        return click.STRING
    if bare is bool:
        return click.BOOL
    low, high, low_open = _range(bounds)
    if bare is int:
        return click.IntRange(low, high, min_open=low_open)
    if bare is float:
        return Number(low, high, min_open=low_open)
    raise TypeError(f"no flag can be made of a setting of type {kind}")


def _range(bounds: list[Any]) -> tuple[Any, Any, bool]:
    low: Any = None
    high: Any = None
    low_open = False
    for bound in bounds:
        if isinstance(bound, Ge):
            low = bound.ge
        elif isinstance(bound, Gt):
            low, low_open = bound.gt, True
        elif isinstance(bound, Le):
            high = bound.le
        else:
            raise TypeError(f"no flag can be made of the bound {bound}")
    return low, high, low_open


def _metavar(kind: "click.ParamType[Any]") -> str | None:
    return "N" if isinstance(kind, click.IntRange | click.FloatRange) else None


def setting_parameters(sections: tuple[str, ...] | None = None) -> list[click.Parameter]:
    """The flags of every setting, or of those sections of the profile alone."""
    return [SettingOption(item) for item in settings() if sections is None or item.path[0] in sections]


def taken_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Takes the settings out of a command's parameters: nested, those alone that were given."""
    layer: dict[str, Any] = {}
    for item in settings():
        value = given.pop(parameter_name(item), None)
        if value is not None and value != ():
            layer = merged(layer, nested(item.path, value))
    return layer


def index_option(command: Command) -> Command:
    """--index."""
    return click.option(
        "--index",
        metavar="DIR",
        shell_complete=any_folder,
        help="The index's folder. Otherwise HYBRID_RETRIEVE_INDEX, else the one that belongs to --docs in your data "
        "folder, else the one used last.",
    )(command)


def docs_option(command: Command) -> Command:
    """--docs."""
    return click.option(
        "--docs",
        multiple=True,
        metavar="DIR",
        shell_complete=any_folder,
        help="A folder of Markdown to index first: only what changed. Repeatable.",
    )(command)


def profile_option(command: Command) -> Command:
    """--profile."""
    return click.option(
        "--profile",
        default=DEFAULT_PROFILE,
        show_default=True,
        metavar="NAME|FILE",
        shell_complete=profile,
        help=f"The recall mode: {', '.join(profile_names())}, or a YAML file of your own.",
    )(command)


def editor_option(command: Command) -> Command:
    """--editor."""
    return click.option(
        "--editor",
        default=AUTOMATIC,
        show_default=True,
        envvar=EDITOR_VARIABLE,
        metavar="NAME|URL",
        shell_complete=editor,
        help=f"What citations open on a terminal: {', '.join(EDITOR_TEMPLATES)}, none, or a URL with {{path}} and "
        f"{{line}}; auto: the editor whose terminal it is, else what opens the file. Otherwise {EDITOR_VARIABLE}.",
    )(command)


def json_option(command: Command) -> Command:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")(command)


def voice_options(command: Command) -> Command:
    """-q and -v, which become the parameter `notes`."""
    quiet = click.option("-q", "--quiet", is_flag=True, help="Say nothing on standard error but errors.")
    verbose = click.option("-v", "--verbose", is_flag=True, help="Say what every stage does, and how long it takes.")
    return quiet(verbose(command))


def taken_notes(given: dict[str, Any]) -> "Notes":
    """Takes -q and -v out of a command's parameters, and lets the log follow them.

    Raises:
        click.UsageError: both were given.
    """
    from retriever.command_line.console import Notes

    notes = Notes(quiet=given.pop("quiet"), verbose=given.pop("verbose"))
    if notes.quiet and notes.verbose:
        raise click.UsageError("-q and -v are opposites: give one of them")
    notes.follow_logging()
    return notes


# How --help looks: examples below the text, the few common options apart from the long list of settings.

COMMON_SETTINGS = frozenset({"top_k", "documents.ignore", "context_tokens", "record"})
"""The settings that stand with a command's own options."""

FIRST_OPTIONS = ("docs", "index", "profile")

WIDTHS = {"max_content_width": 100}
"""Context settings: help is at most so wide."""

OPTION_COLUMN = 24
"""Columns: what is longer stands on a line of its own."""


class WithExamples(click.Command):
    """A command whose help shows how it is used."""

    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:  # noqa: ANN401 - passed on to click
        super().__init__(*args, **{"context_settings": WIDTHS, **kwargs})
        self.examples = examples
        """Command lines without the program's name."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the text, then the examples."""
        super().format_help_text(ctx, formatter)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{ctx.find_root().info_name} {example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options in two lists."""
        options = self.get_params(ctx)
        write_options("Options", common_options(options), ctx, formatter)
        write_options("Every setting of a profile", filter(is_long_tail, options), ctx, formatter)


def common_options(options: Iterable[click.Parameter]) -> list[click.Parameter]:
    """Those that stand first: what is searched and how, the settings used most, the command's other ones, --help."""

    def place(option: click.Parameter) -> tuple[bool, bool, bool]:
        is_first = option.name in FIRST_OPTIONS
        return is_help(option), not is_first, not isinstance(option, SettingOption)

    return sorted((option for option in options if not is_long_tail(option)), key=place)


def is_help(option: click.Parameter) -> bool:
    """Whether it is --help."""
    return "--help" in option.opts


def is_long_tail(option: click.Parameter) -> bool:
    """Whether the option belongs to the long list of settings."""
    return isinstance(option, SettingOption) and option.setting.key not in COMMON_SETTINGS


def write_options(
    heading: str, options: Iterable[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """One list of a help page."""
    named = [option.get_help_record(ctx) for option in options if isinstance(option, click.Option)]
    records = [record for record in named if record is not None]
    if records:
        with formatter.section(heading):
            formatter.write_dl(records, col_max=OPTION_COLUMN)


# What the exit status says.


class ExitCode(IntEnum):
    """The exit status of every command."""

    OK = 0
    ERROR = 1
    """Something went wrong; standard error says what, and what to do."""
    USAGE = 2
    """The command line, a setting or the question cannot be meant."""
    NO_ANSWER = 3
    """No section answers the question, and `--fail-on-none` was given."""
    INTERRUPTED = 130
    """By Ctrl-C; 128 + SIGINT, as a shell says it."""
    TERMINATED = 143
    """A command that runs until it is ended was ended by SIGTERM; 128 + SIGTERM."""


EXIT_CODES_HELP = (
    "Exit codes: 0 ok, 1 error, 2 usage (a wrong flag, setting or question), 3 no answer (with --fail-on-none), "
    "130 interrupted."
)


# A group of commands with one that is meant when none is named.

VOICE_FLAGS = frozenset({"-q", "--quiet", "-v", "--verbose", "-qv", "-vq"})
"""Flags of every command that may stand before its name."""


IMPLIED = f"{__name__}.implied"
"""In the context's `meta`: the default command was not named."""


class QuestionOrCommand(WithExamples, click.Group):
    """`PROGRAM "question"` is `PROGRAM ask "question"`; options may stand before the question or after it."""

    default = "ask"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Names the default command where none is named; without any argument, shows the help and ends with 2."""
        if not args and not ctx.resilient_parsing:
            sys.stderr.write(f"{self.get_help(ctx)}\n")
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, self._with_command(ctx, args) if args else args)

    def _with_command(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {flag for option in self.get_params(ctx) for flag in option.opts}
        before = next((place for place, word in enumerate(args) if word not in VOICE_FLAGS), len(args))
        named = args[before : before + 1]
        if named and named[0] in own:
            return args[before:]
        if named and named[0] in self.commands:
            return [*named, *args[:before], *args[before + 1 :]]
        ctx.meta[IMPLIED] = True
        return [self.default, *args]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands; of options, those of the default command as well."""
        items = super().shell_complete(ctx, incomplete)
        if not incomplete.startswith("-"):
            return items
        command = self.commands[self.default]
        inner = command.shell_complete(click.Context(command, parent=ctx, info_name=self.default), incomplete)
        return list({item.value: item for item in (*items, *inner)}.values())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the default command's common options, then this group's own, then the commands."""
        write_options("Options of a question", self._common_options(ctx), ctx, formatter)
        write_options("Options", self.get_params(ctx), ctx, formatter)
        self.format_commands(ctx, formatter)

    def _common_options(self, ctx: click.Context) -> Iterator[click.Parameter]:
        command = self.commands[self.default]
        inner = click.Context(command, info_name=self.default, parent=ctx)
        return (option for option in common_options(command.get_params(inner)) if not is_help(option))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they were added."""
        return list(self.commands)


def refuse_misplaced_command(words: tuple[str, ...]) -> None:
    """For the default command: `--index DIR status` would silently ask "status".

    Raises:
        click.UsageError: no command was named, and the first word is the name of one.
    """
    context = click.get_current_context()
    group = context.parent.command if context.parent else None
    if context.meta.get(IMPLIED) and isinstance(group, click.Group) and words[:1] and words[0] in group.commands:
        raise click.UsageError(
            f"{words[0]} is a command, and a command comes first, before its options; "
            "a question that begins with this word comes after `ask`"
        )
