"""The command line: the commands, what an error says, the exit codes. Everything else is in retriever/command_line."""

import errno
import logging
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from retriever.command_line.ask import ask
from retriever.command_line.collecting import collect_rarely
from retriever.command_line.default_command import QuestionOrCommand
from retriever.command_line.evaluate import evaluate
from retriever.command_line.exit_codes import EXIT_CODES_HELP, ExitCode
from retriever.command_line.index import index
from retriever.command_line.profiles import profiles
from retriever.command_line.questions import questions
from retriever.command_line.show import read, status, tree
from retriever.command_line.terminal import abandon_output, prepare_streams, write_line
from retriever.command_line.why_not import explain
from retriever.errors import RetrieverError, UsageError

log = logging.getLogger("retriever")


@click.group(
    examples=(
        '--docs docs "how are the two rankings fused?"',
        '"how are the two rankings fused?" --full',
        "index docs ../notes",
    ),
    cls=QuestionOrCommand,
    commands=[ask, index, tree, read, status, profiles, evaluate, explain, questions],
    epilog=f"{EXIT_CODES_HELP} Every command has its own --help; `ask --help` lists every setting.",
    subcommand_metavar='"QUESTION" | COMMAND ...',
    options_metavar="[OPTIONS]",
)
@click.version_option(package_name="hybrid-retrieve", message="%(version)s")
def command_line() -> None:
    """Find the sections of a folder of Markdown that answer a question, each cited as file:first-last."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line, sys.argv by default.

    Returns:
        the exit status; see `ExitCode`.
    """
    collect_rarely()
    prepare_streams()
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has what it wants, as in `| head`
        abandon_output()
        code = ExitCode.OK
    except KeyboardInterrupt:
        code = _failed(ExitCode.INTERRUPTED, "interrupted")
    except UsageError as error:
        code = _failed(ExitCode.USAGE, str(error))
    except RetrieverError as error:
        code = _failed(ExitCode.ERROR, str(error))
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EIO}:  # what is buffered could not be written at exit either
            abandon_output()
        code = _failed(ExitCode.ERROR, str(error))
    except Exception as error:  # a bug: whatever it is, one line says what to do
        code = _failed(ExitCode.ERROR, f"this is a bug, please report it with the output of -v: {error!r}")
    return code


def _run(arguments: Sequence[str]) -> int:
    program = Path(sys.argv[0]).name
    try:
        with command_line.make_context(program, list(arguments)) as context:
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


if __name__ == "__main__":
    sys.exit(main())
