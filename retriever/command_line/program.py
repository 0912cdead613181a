"""The commands put together: what an error says, the exit codes."""

import errno
import logging
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retriever.command_line.archive import export, import_file
from retriever.command_line.ask import ask
from retriever.command_line.collecting import collect_rarely
from retriever.command_line.completion import completed, completion
from retriever.command_line.default_command import QuestionOrCommand
from retriever.command_line.doctor import doctor
from retriever.command_line.evaluate import evaluate
from retriever.command_line.exit_codes import EXIT_CODES_HELP, ExitCode
from retriever.command_line.forget import forget
from retriever.command_line.history import history
from retriever.command_line.index import index
from retriever.command_line.init import init
from retriever.command_line.interrupts import noted_interrupts
from retriever.command_line.mcp import mcp
from retriever.command_line.profiles import profiles
from retriever.command_line.questions import questions
from retriever.command_line.serve import serve
from retriever.command_line.show import read, status, tree
from retriever.command_line.terminal import abandon_output, prepare_streams, write_line
from retriever.command_line.watch import watch
from retriever.command_line.why_not import explain
from retriever.errors import RetrieverError, UsageError

if TYPE_CHECKING:
    from retriever.command_line.opening import Opener

log = logging.getLogger("retriever")


@click.group(
    examples=(
        '--docs docs "how are the two rankings fused?"',
        '"how are the two rankings fused?" --full',
        "index docs ../notes",
    ),
    cls=QuestionOrCommand,
    commands=[
        ask,
        index,
        watch,
        tree,
        read,
        status,
        history,
        forget,
        export,
        import_file,
        doctor,
        profiles,
        init,
        evaluate,
        explain,
        questions,
        mcp,
        serve,
        completion,
    ],
    epilog=f"{EXIT_CODES_HELP} Every command has its own --help; `ask --help` lists every setting.",
    subcommand_metavar='"QUESTION" | COMMAND ...',
    options_metavar="[OPTIONS]",
)
@click.version_option(package_name="hybrid-retrieve", message="%(version)s")
def command_line() -> None:
    """Find the sections of a folder of Markdown that answer a question, each cited as file:first-last."""


def main(arguments: Sequence[str]) -> int:
    """Runs one command line in a process that does nothing else.

    Returns:
        the exit status; see `ExitCode`.
    """
    collect_rarely()
    prepare_streams()
    told = completed(command_line)
    return told if told is not None else run(arguments, Path(sys.argv[0]).name)


def run(arguments: Sequence[str], program: str, opener: "Opener | None" = None) -> int:
    """Runs one command line.

    Args:
        arguments: without the program's name.
        program: its name, for messages.
        opener: opens the retriever of an `ask`, in place of `open_retriever`.

    Returns:
        the exit status; see `ExitCode`.
    """
    with noted_interrupts() as interrupts:
        try:
            code = _invoked(arguments, program, opener)
            sys.stdout.flush()
            return code
        except (Exception, KeyboardInterrupt) as error:
            return ended_by(KeyboardInterrupt() if interrupts else error)


def ended_by(error: Exception | KeyboardInterrupt) -> int:
    """Says what ended a command line; called where the error is handled.

    Returns:
        the exit status.
    """
    match error:
        case BrokenPipeError():  # the reader has what it wants, as in `| head`
            abandon_output()
            return ExitCode.OK
        case KeyboardInterrupt():
            return _failed(ExitCode.INTERRUPTED, "interrupted")
        case UsageError():
            return _failed(ExitCode.USAGE, str(error))
        case RetrieverError():
            return _failed(ExitCode.ERROR, str(error))
        case OSError():
            if error.errno in {errno.ENOSPC, errno.EIO}:  # what is buffered could not be written at exit either
                abandon_output()
            return _failed(ExitCode.ERROR, str(error))
        case _:  # a bug: whatever it is, one line says what to do
            return _failed(ExitCode.ERROR, f"this is a bug, please report it with the output of -v: {error!r}")


def _invoked(arguments: Sequence[str], program: str, opener: "Opener | None") -> int:
    try:
        with command_line.make_context(program, list(arguments), obj=opener) as context:
            return int(command_line.invoke(context))
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.UsageError as error:
        page = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        raise UsageError(f"{error.format_message()}{page}") from error


def _failed(code: ExitCode, message: str) -> ExitCode:
    if log.isEnabledFor(logging.INFO):
        write_line(sys.stderr, traceback.format_exc())
    for line in message.splitlines():
        write_line(sys.stderr, f"error: {line}" if code is not ExitCode.INTERRUPTED else line)
    return code
