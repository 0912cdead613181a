"""The commands put together: what an error says, the exit codes."""

import atexit
import errno
import gc
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class, shell_complete

from retriever.command_line.archive import export, import_file
from retriever.command_line.ask import ask
from retriever.command_line.console import abandon_output, prepare_streams, write_line
from retriever.command_line.doctor import doctor
from retriever.command_line.evaluate import evaluate, questions
from retriever.command_line.explain import explain
from retriever.command_line.history import forget, history
from retriever.command_line.index import index, watch
from retriever.command_line.options import EXIT_CODES_HELP, ExitCode, QuestionOrCommand, WithExamples
from retriever.command_line.profiles import init, profiles
from retriever.command_line.serve import mcp, serve
from retriever.command_line.show import read, status, tree
from retriever.errors import RetrieverError, UsageError

if TYPE_CHECKING:
    from retriever.command_line.ask import Opener


# Python's collector of cyclic garbage, in a process that loads its modules, does one thing and ends.

BETWEEN_COLLECTIONS = 50_000
"""New objects before the collector looks at them; Python's own number is 700. The modules of an ask are 127,000 objects
that stay, and to look at them again and again takes 8 % of its time. Garbage of more objects than that still goes."""


def collect_rarely() -> None:
    """Looks for garbage less often, and not at the end, when all memory goes back at once: 15 % of an ask."""
    gc.set_threshold(BETWEEN_COLLECTIONS)
    atexit.register(gc.freeze)


# Ctrl-C, also where a library makes another error of it.


@contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """The list holds SIGINT when it came in the block, whatever became of its KeyboardInterrupt.

    A native module that is interrupted while it is loaded may end with any other error. Where SIGINT is ignored or
    handled otherwise, and in threads, which it does not reach, nothing is changed and nothing noted.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield came
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# `completion`: what a shell runs to complete command lines of this program.

PROGRAM = "hybrid-retrieve"
"""The installed program: a shell completes the words behind this one."""
VARIABLE = "_HYBRID_RETRIEVE_COMPLETE"
"""By it the shell's script asks what could come next, as click describes it."""


@click.command(
    cls=WithExamples,
    examples=(
        "completion bash",
        "completion zsh",
        "completion fish",
    ),
    short_help="Print what makes a shell complete command lines.",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> ExitCode:
    """Print a script for SHELL, which then completes commands, options, profiles, documents and sections.

    For good, in ~/.bashrc or ~/.zshrc: eval "$(hybrid-retrieve completion bash)", or zsh; for fish:
    hybrid-retrieve completion fish > ~/.config/fish/completions/hybrid-retrieve.fish
    """
    script = get_completion_class(shell)
    assert script is not None
    group = click.get_current_context().find_root().command
    sys.stdout.write(f"{script(group, {}, PROGRAM, VARIABLE).source()}\n")
    return ExitCode.OK


def completed(group: click.Command) -> int | None:
    """Tells a shell what could come next, if one asks; the exit status, or None where this is an ordinary run."""
    instruction = os.environ.get(VARIABLE)
    return shell_complete(group, {}, PROGRAM, VARIABLE, instruction) if instruction else None


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
