"""The program: its commands, imported when they are needed; how errors are reported; the exit status."""

import atexit
import errno
import gc
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence

import click
from click.shell_completion import shell_complete

from retriever.command_line import COMMANDS, GROUPS
from retriever.command_line.options import COMMAND_IMPLIED, ExitCode, WithHelp
from retriever.command_line.output import abandon_output, prepare_streams
from retriever.display import sanitize
from retriever.errors import INSTALLED, RetrieverError, UsageError, name_program

COMPLETION_VARIABLE = "_HYBRID_RETRIEVE_COMPLETE"  # by it the shell's script asks what could come next (see click)
DEFAULT_COMMAND = "ask"
DASH_HINT = "A question that begins with a dash comes after --."
# What other programs call otherwise.
PEER_OPTIONS = {
    "-l": "Each hit begins with its file; `tree` lists all of them.",
    "-C": "--full shows more lines, `read FILE` all of them.",
}
COMMAND_COLUMN = 14  # columns for a command's name in --help
# New objects before Python looks for cyclic garbage; its own number is 700. The modules of an ask are 127,000 objects
# that stay, and to look at them again and again takes 8 % of its time. Garbage of more objects than that still goes.
BETWEEN_COLLECTIONS = 50_000

log = logging.getLogger("retriever")


def load_command(name: str) -> click.Command:
    """Import a command, by its name in COMMANDS; UsageError where this installation does not have it."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    try:
        command: click.Command = getattr(importlib.import_module(f".{module}", __package__), attribute)
    except ModuleNotFoundError as error:
        raise UsageError(f"this installation has no {error.name}, which `{name}` needs") from error
    return command


class Program(WithHelp, click.Group):
    """A command line without a command's name is a question."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for commands in GROUPS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name the default command where none is named; without any argument, show the help."""
        if args in ([], ["help"]):
            args = ["--help"]
        if args[0] not in (*COMMANDS, "--help", "-h", "--version"):
            ctx.meta[COMMAND_IMPLIED] = True
            args = [DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by what they are for, then the options."""
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()], col_max=COMMAND_COLUMN)
        click.Command.format_options(self, ctx, formatter)


@click.group(
    examples=(
        '--docs docs "where do we rotate the keys?"',
        '"how are the two rankings fused?" --top-k 3',
        "read ranking.md:15-28",
    ),
    cls=Program,
    epilog="Every command has its own --help: `ask --help` has the options of a question. Exit codes: 0 ok, 1 error, "
    "2 usage (a wrong flag, setting or question), 130 interrupted.",
    subcommand_metavar='"QUESTION" | COMMAND ...',
    options_metavar="[OPTIONS]",
)
@click.version_option(package_name="hybrid-retrieve", message="%(version)s")
def command_line() -> None:
    """Find the sections of a folder of Markdown that answer a question, each cited as file:first-last."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line in a process that does nothing else, and return its exit status."""
    gc.set_threshold(BETWEEN_COLLECTIONS)
    atexit.register(gc.freeze)  # nothing is collected at the end, when all memory goes back at once: 7 % of an ask
    prepare_streams()
    if instruction := os.environ.get(COMPLETION_VARIABLE):  # a shell asks what could come next
        return shell_complete(command_line, {}, INSTALLED, COMPLETION_VARIABLE, instruction)
    try:
        # Bytes that are not UTF-8 name nothing in an index: documents with such names are left out.
        readable = [argument.encode(errors="replace").decode() for argument in arguments]
        with command_line.make_context(name_program(), readable) as context:
            code = command_line.invoke(context)
        sys.stdout.flush()
        return code or ExitCode.OK
    except click.exceptions.Exit as end:
        return end.exit_code
    except (Exception, KeyboardInterrupt) as error:
        return report_error(error)


def report_error(error: Exception | KeyboardInterrupt) -> int:
    """Say on standard error what ended a command line, and return the exit status; called while it is handled."""
    match error:
        case BrokenPipeError():  # the reader has what it wants, as in `| head`
            abandon_output()
            return ExitCode.OK
        case KeyboardInterrupt() | click.Abort():
            code, message = ExitCode.INTERRUPTED, "interrupted"
        case click.UsageError():
            page = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
            hint = ""
            if isinstance(error, click.NoSuchOption) and error.ctx and error.ctx.info_name == DEFAULT_COMMAND:
                hint = f" {PEER_OPTIONS.get(error.option_name, DASH_HINT)}"
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
