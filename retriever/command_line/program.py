"""The program: its commands, imported when they are needed; how errors are told; the exit status."""

import atexit
import errno
import gc
import importlib
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from retriever.command_line import COMMANDS, GROUPS
from retriever.command_line.console import abandon_output, prepare_streams
from retriever.command_line.help import WithHelp, place_option, write_options
from retriever.command_line.options import COMMAND_IMPLIED, EXIT_CODES_HELP, ExitCode
from retriever.display.sanitize import sanitize
from retriever.errors import RetrieverError, UsageError
from retriever.invocation import INSTALLED, name_program

COMPLETION_VARIABLE = "_HYBRID_RETRIEVE_COMPLETE"  # by it the shell's script asks what could come next (see click)
DEFAULT_COMMAND = "ask"
VERBOSITY_FLAGS = frozenset({"-q", "--quiet", "-v", "--verbose", "-qv", "-vq"})  # may stand before a command's name
FIRST_OF_A_QUESTION = ("docs", "setting_top_k", "full", "as_json")  # in --help
DASH_HINT = "A question that begins with a dash comes after --."
COMMAND_COLUMN = 14  # columns for a command's name in --help
# New objects before Python looks for cyclic garbage; its own number is 700. The modules of an ask are 127,000 objects
# that stay, and to look at them again and again takes 8 % of its time. Garbage of more objects than that still goes.
BETWEEN_COLLECTIONS = 50_000

log = logging.getLogger("retriever")


class Program(WithHelp, click.Group):
    """A command line without a command's name is a question; options may stand before it or after it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self.load_command(cmd_name) if cmd_name in COMMANDS else None

    def load_command(self, name: str) -> click.Command:
        if name not in self.commands:
            place, help_line = COMMANDS[name]
            module, _, attribute = place.partition(":")
            command: click.Command = getattr(importlib.import_module(f"{__package__}.{module}"), attribute)
            command.short_help = help_line
            self.add_command(command, name)
        return self.commands[name]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Names the default command where none is named; without any argument, shows the help and ends with 2."""
        if not args:
            if not ctx.resilient_parsing:
                sys.stderr.write(f"{self.get_help(ctx)}\n")
                ctx.exit(ExitCode.USAGE)
            return super().parse_args(ctx, args)
        own = {flag for option in self.get_params(ctx) for flag in option.opts}
        before = next((place for place, word in enumerate(args) if word not in VERBOSITY_FLAGS), len(args))
        first = args[before] if before < len(args) else ""
        if first in own:
            args = args[before:]
        elif first in COMMANDS:
            args = [first, *args[:before], *args[before + 1 :]]
        else:
            ctx.meta[COMMAND_IMPLIED] = True
            args = [DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if not incomplete.startswith("-"):
            names = [name for name in COMMANDS if name.startswith(incomplete)]
            return [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        command = self.load_command(DEFAULT_COMMAND)
        inner = command.shell_complete(click.Context(command, parent=ctx, info_name=DEFAULT_COMMAND), incomplete)
        return list({item.value: item for item in (*super().shell_complete(ctx, incomplete), *inner)}.values())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands by what they are for, then the default command's first options, then this group's own."""
        for heading, names in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names], col_max=COMMAND_COLUMN)
        options = self.load_command(DEFAULT_COMMAND).params
        first = [item for item in options if isinstance(item, click.Option) and item.name in FIRST_OF_A_QUESTION]
        write_options("Options of a question", sorted(first, key=place_option), ctx, formatter)
        own = [item for item in self.get_params(ctx) if isinstance(item, click.Option)]
        write_options("Options", own, ctx, formatter)


@click.group(
    examples=(
        "index docs",
        '"how are the two rankings fused?"',
        "read ranking.md:15-28",
    ),
    cls=Program,
    epilog=f"Every command has its own --help: `ask --help` has the everyday options, `ask --help-all` every setting. "
    f"{EXIT_CODES_HELP}",
    subcommand_metavar='"QUESTION" | COMMAND ...',
    options_metavar="[OPTIONS]",
)
@click.version_option(package_name="hybrid-retrieve", message="%(version)s")
def command_line() -> None:
    """Find the sections of a folder of Markdown that answer a question, each cited as file:first-last."""


@click.command(cls=WithHelp, examples=("completion bash", "completion zsh", "completion fish"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> ExitCode:
    """Print a script for SHELL, which then completes commands, options, profiles, documents and sections.

    For good, in ~/.bashrc or ~/.zshrc: eval "$(hybrid-retrieve completion bash)", or zsh; for fish:
    hybrid-retrieve completion fish > ~/.config/fish/completions/hybrid-retrieve.fish
    """
    script = get_completion_class(shell)
    assert script is not None
    sys.stdout.write(f"{script(command_line, {}, INSTALLED, COMPLETION_VARIABLE).source()}\n")
    return ExitCode.OK


def main(arguments: Sequence[str]) -> int:
    """Runs one command line in a process that does nothing else, and returns its exit status."""
    gc.set_threshold(BETWEEN_COLLECTIONS)
    atexit.register(gc.freeze)  # nothing is collected at the end, when all memory goes back at once: 7 % of an ask
    prepare_streams()
    instruction = os.environ.get(COMPLETION_VARIABLE)
    if instruction:  # a shell asks what could come next
        return shell_complete(command_line, {}, INSTALLED, COMPLETION_VARIABLE, instruction)
    with note_interrupts() as interrupts:
        try:
            with command_line.make_context(name_program(), list(arguments)) as context:
                code = int(command_line.invoke(context))
            sys.stdout.flush()
            return code
        except click.exceptions.Exit as end:
            return end.exit_code
        except (Exception, KeyboardInterrupt) as error:
            return report_error(KeyboardInterrupt() if interrupts else error)


@contextmanager
def note_interrupts() -> Iterator[list[int]]:
    """The list holds SIGINT when it came in the block, whatever became of its KeyboardInterrupt."""
    # A native module that is interrupted while it is loaded may end with any other error. Where SIGINT is handled
    # otherwise, and in threads, nothing is noted.
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield came
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def report_error(error: Exception | KeyboardInterrupt) -> int:
    """Says on standard error what ended a command line, and returns the exit status; called while it is handled."""
    match error:
        case BrokenPipeError():  # the reader has what it wants, as in `| head`
            abandon_output()
            return ExitCode.OK
        case KeyboardInterrupt():
            code, message = ExitCode.INTERRUPTED, "interrupted"
        case click.UsageError():
            page = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
            is_question = isinstance(error, click.NoSuchOption) and error.ctx and error.ctx.info_name == DEFAULT_COMMAND
            hint = f" {DASH_HINT}" if is_question else ""
            code, message = ExitCode.USAGE, f"{error.format_message()}{hint}{page}"
        case RetrieverError():
            code, message = ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.ERROR, str(error)
        case OSError():
            if error.errno in {errno.ENOSPC, errno.EIO}:  # what is buffered could not be written at exit either
                abandon_output()
            code, message = ExitCode.ERROR, str(error)
        case _:
            code = ExitCode.ERROR
            message = f"this is a bug, please report it with the output of -v: {error!r}"
    lines = message.splitlines()
    if code is not ExitCode.INTERRUPTED:
        lines = [f"error: {line}" for line in lines]
    if log.isEnabledFor(logging.INFO):
        lines = [*traceback.format_exc().splitlines(), *lines]
    sys.stderr.write(f"{sanitize(chr(10).join(lines))}\n")
    return code
