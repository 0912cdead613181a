"""What the exit status says."""

from enum import IntEnum


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
