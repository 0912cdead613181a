"""The parts of commands: the options that they share, and which index they open."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

import click
from click.core import augment_usage_errors

from retriever import api
from retriever.command_line.output import Console, JsonOutput, Output
from retriever.display import sanitize_line
from retriever.errors import NoIndexError, QuestionError, name_program
from retriever.query import Scope
from retriever.settings import DEFAULT_PROFILE, Setting, list_settings, merge, nest

if TYPE_CHECKING:
    from retriever.retriever import Retriever


Function = Callable[..., "ExitCode | None"]  # of a command, which returns nothing where all went well


class ExitCode(IntEnum):
    OK = 0
    ERROR = 1  # something went wrong; standard error says what, and what to do
    USAGE = 2  # the command line, a setting or the question is wrong
    INTERRUPTED = 130  # by Ctrl-C; 128 + SIGINT, as a shell says it


PATH = click.Path(readable=False)  # of which nothing is checked here; a shell completes it


# Options that several commands share.

index = click.option(
    "--index",
    metavar="NAME|DIR",
    type=PATH,
    help="Use this index, by its name (see `indexes`), folder or postgresql://... By default: HYBRID_RETRIEVE_INDEX, "
    "else the one that covers --docs or the current folder.",
)
docs = click.option(
    "--docs",
    multiple=True,
    metavar="DIR",
    type=PATH,
    help="Index this folder of Markdown first, reading only changed files. Repeatable.",
)
# What it chooses becomes the parameter `output`, which prints the results.
output = click.option(
    "--json",
    "output",
    type=click.UNPROCESSED,
    flag_value=JsonOutput(),
    default=Output(),
    help="Print JSON, for programs.",
)
no_llm = click.option("--no-llm", is_flag=True, help="Do not use a language model.")
question = click.argument("words", nargs=-1, metavar="QUESTION")
conversation = click.option(
    "--after",
    "--recent-context",
    "conversation",
    multiple=True,
    metavar="TEXT",
    help="Give an earlier question that this one follows up on. Repeatable, oldest first.",
)
quiet = click.option("-q", "--quiet", is_flag=True, help="Print results and errors only.")
verbose = click.option(
    "-v", "--verbose", is_flag=True, help="Print more details: files read, all of `status`, stack traces."
)
folders = click.argument("docs", nargs=-1, required=True, metavar="DOCS...", type=PATH)


profile = click.option(
    "--profile",
    default=DEFAULT_PROFILE,
    show_default=True,
    metavar="NAME|FILE",
    type=PATH,
    help="Take the settings of this profile (see `profiles`), or of a YAML file.",
)


def opened(function: Function) -> Function:
    """Add --docs, --index and --profile, which become the parameter `opening`."""
    return docs(index(profile(function)))


# By the fields of `Scope`.
SCOPE_OPTIONS = {
    "folders": ("--in", "FOLDER", "Search only this folder or file. Repeatable."),
    "tags": ("--tag", "TAG", "Search only documents with this tag. Repeat it to require several."),
    "since": ("--since", "DAY", "Search only documents dated this day or later: 2024-05-01, 2024, today, 7d, 2w."),
    "until": ("--until", "DAY", "Search only documents dated this day or earlier."),
    "where": (
        "--where",
        "KEY=VALUE",
        "Search only documents with this front matter, such as status=draft. Repeatable.",
    ),
}


def scope(function: Function) -> Function:
    """Add --in, --tag, --since, --until and --where, which become the parameter `scope`."""
    for name, (flag, form, text) in reversed(SCOPE_OPTIONS.items()):
        function = click.option(flag, name, metavar=form, multiple=name not in ("since", "until"), help=text)(function)
    return function


# Which index a command opens.


class Opening(NamedTuple):
    """Which retriever a command opens: the first arguments of `open_retriever` and its kind."""

    docs: Sequence[str] = ()
    index: str | None = None  # type: ignore[assignment]  # nobody looks for the place of a value
    profile: str = DEFAULT_PROFILE
    settings: Mapping[str, Any] = {}

    def open(self, console: Console, on_words: "Callable[[Retriever], object] | None" = None) -> "Retriever":
        """Return the open retriever; ask a person at a terminal whose folder has no index whether to make one.

        Args:
            console: shows how far indexing is, where it is needed.
            on_words: as in `open_retriever`.
        """
        try:
            with console.show_progress() as progress:
                return api.open_retriever(*self, progress, on_words=on_words)
        except NoIndexError as error:
            question = f"{sanitize_line(error.folder)} has no index yet. Index it now?"
            if not (error.folder and console.can_ask and click.confirm(question, default=True, err=True)):
                raise
            return self._replace(docs=[error.folder]).open(console, on_words)


# The flags of settings, and help pages with examples.

# Those that --help shows; `profiles NAME` lists them all.
EVERYDAY = frozenset({"top_k", "exact", "documents.ignore", "context_tokens"})
HELP_WIDTH = 100  # columns, at most


def make_option(setting: Setting) -> click.Option:
    """Make the flag of a setting; its bounds are checked with those of the other layers."""
    origin = get_origin(setting.type)
    kind: Any = getattr(setting.type, "__origin__", setting.type)  # of Annotated[int, ...], the int
    number = kind if kind in (int, float) else None
    return click.Option(
        [name_parameter(setting), *setting.flags],
        type=click.Choice(get_args(setting.type)) if origin is Literal else number,
        multiple=origin is tuple,
        default=None,  # of a flag too
        metavar="N" if number else None,
        hidden=setting.key not in EVERYDAY,
        envvar=setting.variable,
        show_envvar=True,
        help=setting.help,
    )


def name_parameter(setting: Setting) -> str:
    """Return the name of the parameter that the flag of a setting becomes."""
    return "setting_" + "_".join(setting.path)


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
        for setting in list_settings():
            if (value := given.pop(name_parameter(setting), None)) not in (None, ()):
                settings = merge(settings, nest(setting.path, value))
        if given.pop("no_llm", False):
            settings = merge(settings, WITHOUT_LLM)
        if "opening" in wanted:
            named = {name: given.pop(name) for name in ("docs", "index", "profile") if name in given}
            given["opening"] = Opening(**named, settings=settings)
        if "scope" in wanted:
            given["scope"] = Scope(**{name: value for name in SCOPE_OPTIONS if (value := given.pop(name))})
        with augment_usage_errors(ctx):  # which names the help page
            return self.callback(**given)


def command(*examples: str, settings: Sequence[str] | None = None, epilog: str = "") -> Callable[[Function], Command]:
    """Make a command with examples, the flags of some settings (empty: of all) and -q and -v."""

    def decorate(function: Function) -> Command:
        made = click.command(cls=Command, examples=examples, epilog=epilog)(function)
        if settings is not None:
            made.params += [make_option(item) for item in list_settings() if item.path[0] in (settings or item.path)]
        return verbose(quiet(made))

    return decorate


def join_question(words: tuple[str, ...], example: str) -> str:
    """Join the question's arguments to one text; QuestionError, with an `example`, when it is empty."""
    question = " ".join(words)
    if not question.strip():
        raise QuestionError(f"the question is empty: write it in quotes, as in: {name_program()} {example}")
    return question


COMMAND_IMPLIED = f"{__name__}.implied"  # in the context's `meta`: the default command was not named
