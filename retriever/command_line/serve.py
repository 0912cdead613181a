"""`serve`: agents over HTTP and a page for the browser, at an address of this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line.options import ExitCode, WithExamples

if TYPE_CHECKING:
    from retriever.command_line.console import Notes
    from retriever.serving.guard import ServerAddress


@click.command(
    "serve",
    cls=WithExamples,
    examples=(
        "serve",
        "serve --web --docs docs",
        "serve --mcp --web --port 9000",
        "serve --mcp --host 192.168.1.5 --token-file token.txt",
    ),
    params=options.setting_parameters(),
    short_help="Serve `ask`, agents (MCP over HTTP) or a web page, on this machine.",
)
@click.option("--mcp", is_flag=True, help="Serve MCP, for agents, at /mcp.")
@click.option("--web", is_flag=True, help="Serve a web page at /, and its JSON API at /api.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8470, show_default=True, metavar="N", help="0: any free one."
)
@click.option(
    "--token-file",
    metavar="FILE",
    help="Holds the bearer token that every request must carry; written when it does not exist. Needed with a --host "
    "that other machines can reach.",
)
@click.option("--stop", is_flag=True, help="End the resident process.")
@click.option(
    "--idle-minutes",
    type=click.FloatRange(0),
    default=15.0,
    show_default=True,
    metavar="N",
    help="The resident process leaves when nobody has asked for so long; 0: never.",
)
@click.option("--background", is_flag=True, hidden=True, help="The resident process says nothing, and keeps a log.")
@options.docs_option
@options.index_option
@options.profile_option
@options.voice_options
def serve(**given: Any) -> ExitCode:  # noqa: ANN401 - one value for each of the profile's settings, whatever they are
    """Serve what was asked for until Ctrl-C: --mcp for agents, --web for a browser, or both.

    With neither, a resident process keeps index and models open, and answers what `ask` is asked in other processes.
    Only programs of this machine can connect, and no page of another place that a browser shows.
    """
    notes = options.taken_notes(given)
    settings = options.taken_settings(given)
    if not (given["mcp"] or given["web"]):
        return _reside(given, settings, notes)
    return _serve(given, settings, notes)


def _reside(given: dict[str, Any], settings: dict[str, Any], notes: "Notes") -> ExitCode:
    from retriever.command_line import resident

    if given["docs"] or given["index"] or settings:
        raise click.UsageError("the resident process answers with what each `ask` says; or add --mcp or --web")
    if given["stop"]:
        return resident.stop(notes)
    return resident.stay(notes, idle_minutes=given["idle_minutes"], background=given["background"])


def _serve(given: dict[str, Any], settings: dict[str, Any], notes: "Notes") -> ExitCode:
    from retriever.serving import http
    from retriever.serving.guard import ServerAddress
    from retriever.serving.pool import ServedIndex
    from retriever.settings.layers import load_profile

    token = http.read_token(Path(given["token_file"]).expanduser()) if given["token_file"] else ""
    http.check_host(given["host"], token)
    load_profile(given["profile"], settings)  # mistakes in it are named now, not when somebody asks
    with (
        http.listen(given["host"], given["port"]) as listener,
        ServedIndex(given["docs"], given["index"], given["profile"], settings) as index,
    ):
        address = ServerAddress(given["host"], listener.getsockname()[1], token)
        app = http.make_application(index, mcp=given["mcp"], web=given["web"])
        _announce(address, given, notes)
        http.run(app, listener, address)
    return ExitCode.OK


def _announce(address: "ServerAddress", given: dict[str, Any], notes: "Notes") -> None:
    if given["mcp"]:
        notes.say(f"MCP       {address.url}/mcp")
    if given["web"]:
        notes.say(f"web page  {address.url}/")
    if address.token:
        notes.say(f"token     in {given['token_file']}; send it as: Authorization: Bearer TOKEN")
    notes.aside("Ctrl-C ends it")


# `mcp`: agents over standard input and output.


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
