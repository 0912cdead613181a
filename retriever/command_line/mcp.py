"""`mcp`: agents over standard input and output."""

from typing import Any

import click

from retriever.command_line import options
from retriever.command_line.exit_codes import ExitCode
from retriever.command_line.help_pages import WithExamples


@click.command(
    "mcp",
    cls=WithExamples,
    examples=(
        "mcp --docs docs",
        "mcp --index ~/.local/share/notes-index --profile recall",
    ),
    params=options.setting_parameters(),
    short_help="Serve an agent (MCP) over standard input and output.",
)
@options.docs_option
@options.index_option
@options.profile_option
@options.voice_options
def mcp(**given: Any) -> ExitCode:  # noqa: ANN401 - one value for each of the profile's settings, whatever they are
    """Serve the agent that started this command, by MCP over standard input and output, until it closes them.

    It belongs into the configuration of an editor or a coding agent, not into a terminal.
    """
    options.taken_notes(given)
    settings = options.taken_settings(given)
    from retriever.serving.mcp_server import serve_stdio
    from retriever.serving.pool import ServedIndex
    from retriever.settings.layers import load_profile

    load_profile(given["profile"], settings)  # mistakes in it are named now, not when somebody asks
    with ServedIndex(given["docs"], given["index"], given["profile"], settings) as index:
        serve_stdio(index)
    return ExitCode.OK
