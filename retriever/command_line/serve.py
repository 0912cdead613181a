"""`serve` and `mcp`: an open index for agents and for a browser."""

import os
import signal
import webbrowser
from pathlib import Path

import click

from retriever.command_line import options
from retriever.command_line.options import ExitCode, Opening
from retriever.command_line.output import Console
from retriever.settings import load_profile


@options.command(
    "serve --web --open --docs docs",
    "serve --mcp --web --port 9000",
    settings=(),
)
@click.option("--mcp", is_flag=True, help="Serve MCP, for agents, at /mcp.")
@click.option("--web", is_flag=True, help="Serve a web page at /, and its JSON API at /api.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8470,
    show_default=True,
    metavar="N",
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    help="File with the bearer token that every request must carry; created if it does not exist. Required if other "
    "machines can reach --host.",
)
@click.option("--open", "opens", is_flag=True, help="Serve --web, and open it in your browser.")
@options.docs
@options.index
@options.profile
@options.no_llm
def serve(
    console: Console,
    opening: Opening,
    host: str,
    port: int,
    token_file: str | None,
    *,
    mcp: bool,
    web: bool,
    opens: bool,
) -> ExitCode:
    """Serve an index until Ctrl-C: --mcp for agents, --web for a browser and for programs, or both.

    Only programs on this machine can connect, unless --host says otherwise; pages of other sites cannot.
    """
    web = web or opens
    if not (mcp or web):
        raise click.UsageError("say what to serve: --web (a page, and the JSON API), --mcp (for agents), or both")
    # What is imported next may catch a Ctrl-C and report an error of its own: until the server listens for it, it ends
    # the process at once.
    signal.signal(signal.SIGINT, lambda *_: os._exit(ExitCode.INTERRUPTED))
    from retriever.serving import http
    from retriever.serving.http import ServerAddress
    from retriever.serving.pool import ServedIndex

    token = http.open_token(Path(token_file).expanduser()) if token_file else ""
    http.check_host(host, token)
    load_profile(opening.profile, opening.settings)  # mistakes in it are named now, not when somebody asks
    with http.listen(host, port) as listener, ServedIndex(*opening.arguments) as served:
        address = ServerAddress(host, listener.getsockname()[1], token)
        served.begin()
        if mcp:
            console.note(f"MCP       {address.url}/mcp")
        if web:
            console.note(f"web page  {address.url}/")
        if token:
            console.note(f"token     in {token_file}; send it as: Authorization: Bearer TOKEN")
        if opens:
            webbrowser.open(f"{address.url}/")  # the socket listens already, so the browser waits for the answer
        console.note("Ctrl-C ends it", dim=True)
        http.run_server(http.make_application(served, mcp=mcp, web=web), listener, address)
    return ExitCode.OK


@options.command(
    "mcp --docs docs",
    "mcp --profile recall",
    settings=(),
)
@options.docs
@options.index
@options.profile
@options.no_llm
def mcp(console: Console, opening: Opening) -> ExitCode:
    """Serve the agent that started this command, by MCP over standard input and output, until it closes them.

    It belongs in the configuration of an editor or a coding agent, not in a terminal.
    """
    from retriever.serving.mcp_server import DocumentServer, serve_stdio
    from retriever.serving.pool import ServedIndex

    load_profile(opening.profile, opening.settings)  # mistakes in it are named now, not when somebody asks
    with ServedIndex(*opening.arguments) as served:
        if opening.docs:
            served.begin()
        serve_stdio(DocumentServer(served))
    return ExitCode.OK
