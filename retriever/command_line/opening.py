"""How `ask` comes to an open retriever: it opens one, or it runs in a process that has one open."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line.options import Command
from retriever.serving.resident_client import MODE_VARIABLE

if TYPE_CHECKING:
    from retriever.retrieving import Retriever

Opener = Callable[..., AbstractContextManager["Retriever"]]
"""Takes the first five arguments of `open_retriever`."""


def chosen_opener() -> Opener:
    """That of the process where it has one, else `open_retriever`."""
    given: Any = click.get_current_context().obj
    if given is not None:
        opener: Opener = given
        return opener
    from retriever.library import open_retriever

    return open_retriever


def start_resident() -> None:
    """Starts a resident process for the questions to come, unless this command line runs in one."""
    if click.get_current_context().obj is None:
        from retriever.command_line.resident import start_in_background

        start_in_background()


def resident_option(command: Command) -> Command:
    """--resident. The process that asks has looked at it already, before it loaded what reads options."""
    return click.option(
        "--resident",
        type=click.Choice(["use", "auto", "never"]),
        default="use",
        show_default=True,
        envvar=MODE_VARIABLE,
        help="Let the resident process of `serve` answer: use it where it runs, start it in the background where it "
        f"does not (auto), or answer here (never). Otherwise {MODE_VARIABLE}.",
    )(command)
