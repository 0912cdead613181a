"""`completion`: what a shell runs to complete command lines of this program."""

import os
import sys

import click
from click.shell_completion import get_completion_class, shell_complete

from retriever.command_line.exit_codes import ExitCode
from retriever.command_line.help_pages import WithExamples

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
