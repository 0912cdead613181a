"""What commands are made of: how their help looks, shared options and which index they open, shell completion."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import click
from click.core import augment_usage_errors
from click.shell_completion import CompletionItem

from retriever import api
from retriever.command_line.console import Console
from retriever.command_line.output import JsonOutput, Output
from retriever.display.phrases import sanitize_line
from retriever.errors import NoIndexError, QuestionError, RetrieverError, name_program
from retriever.looking.indexes import find_index
from retriever.query import Scope
from retriever.settings.layers import DEFAULT_PROFILE, profile_names
from retriever.settings.schema import Setting, list_settings, merge, nest

if TYPE_CHECKING:
    from retriever.retriever import Retriever


# The flags of settings, and how --help looks: examples, then everyday options, a line each; --help-all adds others.
# Most flags of settings are on neither page: `profiles NAME` lists them.

EVERYDAY = frozenset({"top_k", "exact", "documents.ignore"})  # settings on the first page
# What --help-all adds: options by their names, settings by their keys.
RARE = frozenset(
    {
        *("since", "until", "where", "conversation", "server", "token", "fail_on_none"),
        *("role_header", "roles", "context_tokens"),
    }
)
ALIASES = {"top_k": ("-n", "--limit")}  # as other programs call the flags of settings
HELP_WIDTH = 100  # columns, at most
OPTION_COLUMN = 24  # columns: what is longer stands on a line of its own
FIRST_SENTENCE = re.compile(r"(.{12,}?)(?:[.;:]\s|\.?$)")  # of a help text; what is shorter says nothing
ALL_HELP = f"{__name__}.all_help"  # in the context's `meta`: everything is wanted


class SettingOption(click.Option):
    """The flag of one setting."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        kind = click_type(setting.type)
        super().__init__(
            ["setting_" + "_".join(setting.path), *setting_flags(setting)],
            type=kind,
            multiple=get_origin(setting.type) is tuple,
            default=None,
            show_default=format_value(setting.default) if setting.default and kind is not click.BOOL else "",
            metavar="N" if kind in (click.INT, click.FLOAT) else None,
            help=setting.help,
        )


def setting_flags(setting: Setting) -> tuple[str, ...]:
    """Return the flags of a setting, the shortest first; a switch has two words in one."""
    if setting.type is bool:
        return (f"{setting.flag}/--no-{setting.flag.removeprefix('--')}",)
    own = (setting.short_flag, setting.flag) if setting.short_flag else (setting.flag,)
    return own + ALIASES.get(setting.key, ())


def format_value(value: object) -> str:
    """Return a setting's value as help pages show it."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return "empty" if value == "" else str(value)


def click_type(kind: Any) -> "click.ParamType[Any]":  # noqa: ANN401 - a type form such as Annotated[int, Ge(1)] has no type of its own
    """Return how click reads a setting of this type; its bounds are checked with those of the other layers."""
    if get_origin(kind) is tuple:
        return click_type(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    kinds: dict[type, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, bool: click.BOOL}
    return kinds.get(bare, click.STRING)


class WithHelp(click.Command):
    """A command whose help shows how it is used; `examples` are command lines without the program's name."""

    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:  # noqa: ANN401 - passed on to click
        settings = {"max_content_width": HELP_WIDTH, "help_option_names": ["--help", "-h"]}
        super().__init__(*args, **{"context_settings": settings, **kwargs})
        self.examples = examples

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{name_program()} {example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        is_all = bool(ctx.meta.get(ALL_HELP))
        write_options([item for item in options if not is_hidden(item, is_all=is_all)], ctx, formatter)
        if is_all and any(isinstance(item, SettingOption) for item in options):
            formatter.write_paragraph()
            formatter.write_text("Every setting of a profile is a flag as well: `profiles balanced` lists them all.")


def is_hidden(option: click.Option, *, is_all: bool = False) -> bool:
    """Return whether --help leaves an option out; with `is_all`, whether --help-all does."""
    if isinstance(option, SettingOption):
        return option.setting.key not in (EVERYDAY | RARE if is_all else EVERYDAY)
    return option.name in RARE and not is_all


def all_help_option() -> click.Option:
    """Return --help-all."""

    def show(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            context.meta[ALL_HELP] = True
            click.echo(context.get_help(), color=context.color)
            context.exit()

    help_text = "Show the other options as well, and exit."
    return click.Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show, help=help_text)


def write_options(options: Iterable[click.Option], context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the list of options of a help page: of each its names, and the first sentence about it."""
    rows = []
    for option in options:
        long = [flag for flag in option.opts if flag.startswith("--")]
        names = ", ".join([flag for flag in option.opts if flag not in long] + long[:1])
        metavar = "" if option.is_flag else f" {option.make_metavar(context)}"
        default = option.default if option.show_default is True else option.show_default
        rows.append((f"{names}{metavar}", f"{first_sentence(option.help)}{f' [{default}]' if default else ''}"))
    with formatter.section("Options"):
        formatter.write_dl(rows, col_max=OPTION_COLUMN)


def first_sentence(text: str | None) -> str:
    """Return the first sentence of a help text, or the whole."""
    found = FIRST_SENTENCE.match(text or "")
    return f"{found[1]}." if found else text or ""


# What commands share.


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
    """Complete a property of the documents, `status=draft`; those of most documents come first."""
    from retriever.places.choices import list_choices, read_documents  # numpy: 40 ms
    from retriever.store import reading

    try:
        with find_index(context.params.get("index")).read() as connection:
            offered = list_choices(read_documents(connection), reading.fields(connection)).properties
    except RetrieverError:  # an error message would disturb the typing
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
docs = click.option(
    "--docs",
    multiple=True,
    metavar="DIR",
    shell_complete=complete_folder,
    help="A folder of Markdown to index first: only what changed. Repeatable.",
)


def output_option(help_text: str) -> Callable[[Callable[..., ExitCode]], Callable[..., ExitCode]]:
    """Add --json; what it chooses becomes the parameter `output`, which prints the results."""
    return click.option("--json", "output", type=click.UNPROCESSED, flag_value=JsonOutput(), help=help_text)


output = output_option("Print one JSON object, for programs.")
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
    """Add --in, --tag, --since, --until and --where, which become the parameter `scope`."""
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

    @classmethod
    def of(cls, given: MutableMapping[str, Any], settings: Mapping[str, Any]) -> "Opening":
        """Return what a command's options say together, and take them out of `given`."""
        named = ("docs", "index", "profile")
        return cls(**{name: given.pop(name) for name in named if name in given}, settings=settings)

    @property
    def arguments(self) -> tuple[Sequence[str], str | None, str, Mapping[str, Any]]:
        return self.docs, self.index, self.profile, self.settings

    def open(self, console: Console, on_words: "Callable[[Retriever], object] | None" = None) -> "Retriever":
        """Return the open retriever; ask a person at a terminal whose folder has no index whether to make one.

        Args:
            console: shows how far indexing is, where it is needed.
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


def confirm(question: str, *, default: bool = True) -> bool:
    """Ask the user at the terminal, where Enter is the default; Ctrl-C ends the program, as elsewhere."""
    try:
        return click.confirm(sanitize_line(question), default=default, err=True)
    except click.Abort:
        raise KeyboardInterrupt from None


# What --no-llm sets.
WITHOUT_LLM = {"use_llm": False, "answer": {"kind": "extractive"}}


class Command(WithHelp):
    """A command whose function is given what its options say together: `console`, `output`, `opening`, `scope`."""

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
        if "output" in wanted:
            given["output"] = given["output"] or Output()
        if "opening" in wanted:
            given["opening"] = Opening.of(given, settings)
        if "scope" in wanted:
            given["scope"] = Scope(**{name: value for name in SCOPE_OPTIONS if (value := given.pop(name))})
        with augment_usage_errors(ctx):  # which names the help page
            return self.callback(**given)


def command(
    *examples: str, settings: Sequence[str] | None = None, epilog: str = "", name: str = ""
) -> Callable[[Callable[..., ExitCode]], Command]:
    """Make a command with examples, the flags of some settings (empty: of all) and -q and -v."""

    def decorate(function: Callable[..., ExitCode]) -> Command:
        made = click.command(name or None, Command, examples=examples, epilog=epilog)(function)
        if settings is not None:
            made.params += [SettingOption(item) for item in list_settings() if item.path[0] in (settings or item.path)]
        quiet, verbose = (
            "Print results and errors alone: no notes and no progress.",
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
    """Join the question's arguments to one text; QuestionError, with an `example`, when it is empty."""
    question = " ".join(words)
    if not question.strip():
        raise QuestionError(f"the question is empty: write it in quotes, as in: {name_program()} {example}")
    return question


COMMAND_IMPLIED = f"{__name__}.implied"  # in the context's `meta`: the default command was not named
