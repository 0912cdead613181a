"""What commands are made of: the options that several share, exit codes, shell completion."""

import inspect
import re
import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from enum import IntEnum

import click
from click.shell_completion import CompletionItem

from retriever.command_line import COMMANDS
from retriever.command_line.console import Console
from retriever.command_line.flags import SettingOption
from retriever.command_line.help import WithHelp
from retriever.command_line.opening import Opening
from retriever.display.editors import AUTOMATIC, EDITOR_TEMPLATES, EDITOR_VARIABLE, NO_EDITOR
from retriever.errors import QuestionError, RetrieverError
from retriever.indexes import choose_index
from retriever.indexing.request import absolute
from retriever.invocation import name_program
from retriever.query import Scope
from retriever.settings.layers import DEFAULT_PROFILE, profile_names
from retriever.settings.schema import list_settings, merge


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
    kind = "" if "#" in incomplete else "AND parent_id IS NULL"
    query = f"SELECT node_id FROM nodes WHERE node_id >= ? AND node_id < ? {kind} ORDER BY node_id LIMIT ?"
    return list_offers(context, query, (incomplete, f"{incomplete}\U0010ffff", MAX_OFFERED))


def complete_condition(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Properties of the documents; behind a `=` their values, those of most documents first."""
    key, sign, value = incomplete.partition("=")
    offered, begin = ("key || '=' || value", value) if sign else ("key", key)
    column, given = ("key = ? AND value", (key,)) if sign else ("key", ())
    query = (
        f"SELECT {offered} FROM fields WHERE {column} >= ? AND {offered} < ?"
        f" GROUP BY {offered} ORDER BY count(*) DESC, {offered} LIMIT ?"
    )
    return list_offers(context, query, (*given, begin, f"{incomplete}\U0010ffff", MAX_OFFERED))


def list_offers(context: click.Context, query: str, given: tuple[object, ...]) -> list[CompletionItem]:
    """Return what a query to the index finds, for a shell."""
    try:
        docs = tuple(map(absolute, context.params.get("docs") or ()))
        index = choose_index(docs, context.params.get("index")).index
        with closing(index.open()) as connection:
            return [CompletionItem(text) for (text,) in connection.execute(query, given) if PLAIN_WORD.fullmatch(text)]
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
        function = click.option(flag, name, metavar=metavar, multiple=is_repeated, help=text, shell_complete=complete)(
            function
        )
    return function


# What --no-llm sets.
WITHOUT_LLM = {"use_llm": False, "answer": {"kind": "extractive"}}


class Command(WithHelp):
    """A command whose function is given what its options say together: its `console`, `opening` and `scope`."""

    def invoke(self, ctx: click.Context) -> object:
        """Call the function."""
        assert self.callback is not None
        given, wanted = ctx.params, inspect.signature(self.callback).parameters
        quiet, verbose = given.pop("quiet"), given.pop("verbose")
        if quiet and verbose:
            raise click.UsageError("-q and -v are opposites: give one of them")
        given["console"] = Console(quiet, verbose)
        given["console"].follow_logging()
        if given.pop("no_llm", False):
            given["settings"] = merge(given["settings"], WITHOUT_LLM)
        if "opening" in wanted:
            given["opening"] = Opening.of(given)
        if "scope" in wanted:
            given["scope"] = Scope(**{name: value for name in SCOPE_OPTIONS if (value := given.pop(name))})
        return super().invoke(ctx)


def command(
    *examples: str, settings: Sequence[str] | None = None, rare: Collection[str] = (), epilog: str = "", name: str = ""
) -> Callable[[Callable[..., ExitCode]], Command]:
    """A command with examples, the flags of some settings (empty: of all) and -q and -v."""

    def decorate(function: Callable[..., ExitCode]) -> Command:
        wanted = (
            [] if settings is None else [item for item in list_settings() if item.path[0] in (settings or item.path)]
        )
        flags: list[click.Parameter] = [SettingOption(item) for item in wanted]
        made = click.command(name or None, Command, examples=examples, params=flags, rare=rare, epilog=epilog)(function)
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
        raise QuestionError(f"the question is empty: write it in quotes, as in: {name_program()} {example}")
    return question


COMMAND_IMPLIED = f"{__name__}.implied"  # in the context's `meta`: the default command was not named


def refuse_misplaced_command(words: tuple[str, ...]) -> None:
    """For the default command: `--index DIR status` would silently ask "status"."""
    if click.get_current_context().meta.get(COMMAND_IMPLIED) and words and words[0] in COMMANDS:
        raise click.UsageError(
            f"{words[0]} is a command, and a command comes first, before its options; "
            "a question that begins with this word comes after `ask`"
        )
