"""`serve` and `mcp`: agents, a page for the browser, and the resident process, which keeps index and models open."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from retriever.command_line import COMMANDS, options
from retriever.command_line.console import Console
from retriever.command_line.options import ExitCode, Opening
from retriever.display.phrases import format_size, pluralize
from retriever.errors import IndexLockedError, NotIndexedError, ServingError
from retriever.files import Closing
from retriever.serving.resident_client import (
    PACKAGE,
    ConversationError,
    NoResidentError,
    ResidentPaths,
    is_question,
    talk,
)
from retriever.trace import NoProgress

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from retriever.protocols import Progress
    from retriever.retriever import Retriever
    from retriever.serving.pool import ServedIndex, ServedIndexes
    from retriever.serving.resident_server import Call, Outcome

MAX_OPEN = 4  # retrievers; each holds a model and an index: 100 MB and more
ANSWER_S = 30.0  # the longest that an answer may take, with everything to be loaded, on a busy machine
MODEL_S = 150.0  # the same where a language model takes part, which may have to be loaded first
NEVER_S = 10 * 365 * 24 * 3600.0
STOP_S = 10.0  # for a process that was told to leave; then it is killed
# Beginnings of the variables that an open retriever depends on, beside its settings and the key of its encoder.
VARIABLES = ("HOME", "XDG_", "OLLAMA_", "HF_", "TRANSFORMERS_", "SENTENCE_TRANSFORMERS_", "SSL_", "REQUESTS_CA_")


about_option = click.option(
    "--about", default="", metavar="TEXT", help="What your documents are about, in a line: agents are told it."
)


@options.command(
    "serve",
    "serve --web --open --docs docs",
    "serve --mcp --web --port 9000",
    "serve --stop",
    settings=(),
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
@click.option(
    "--roles",
    "roles_file",
    metavar="FILE",
    help="Of an index in PostgreSQL: which token, or which header of a proxy, is which role (docs/postgres.md). Each "
    "finds what it may see, and others are refused.",
)
@click.option(
    "--public-url",
    default="",
    metavar="URL",
    help="Where clients reach the proxy before it, such as https://notes.example.org: Host and Origin name that.",
)
@about_option
@click.option("--open", "opens", is_flag=True, help="Open the web page in your browser.")
@click.option("--stop", is_flag=True, help="End the resident process.")
@click.option(
    "--idle-minutes",
    type=click.FloatRange(0),
    default=15.0,
    show_default=True,
    metavar="N",
    help="The resident process leaves after this time without a question; 0: never.",
)
@click.option("--background", is_flag=True, hidden=True, help="The resident process says nothing, and keeps a log.")
@options.opening(options.docs, options.indexes, options.everywhere, options.profile)
def serve(
    console: Console,
    opening: Opening,
    host: str,
    port: int,
    token_file: str | None,
    roles_file: str | None,
    public_url: str,
    about: str,
    idle_minutes: float,
    *,
    mcp: bool,
    web: bool,
    opens: bool,
    stop: bool,
    background: bool,
) -> ExitCode:
    """Serve what was asked for until Ctrl-C: --mcp for agents, --web for a browser, or both.

    With neither, a resident process keeps index and models open, and answers what `ask` is asked in other processes.
    Only programs of this machine can connect, and no page of another place that a browser shows.
    """
    if opens and not web:
        raise click.UsageError("--open shows the web page: add --web")
    if not (mcp or web):
        if opening != Opening(profile=opening.profile) or about:
            raise click.UsageError("the resident process answers with what each `ask` says; or add --mcp or --web")
        return end_resident(console) if stop else run_resident(console, idle_minutes, background=background)

    if web and opening.several:
        raise click.UsageError("the web page has one index: give --index once, or index the folders as one: index A B")
    from retriever.serving import http
    from retriever.serving.guard import ServerAddress
    from retriever.settings.layers import load_profile

    token = http.read_token(Path(token_file).expanduser()) if token_file else ""
    http.check_host(host, token or roles_file or "")
    public_url = http.read_public_url(public_url) if public_url else ""
    load_profile(opening.profile, opening.settings)  # mistakes in it are named now, not when somebody asks
    opening = opening.with_offer(console)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(http.listen(host, port))
        app = open_app(opening, about, roles_file, token_file, stack, mcp=mcp, web=web)
        address = ServerAddress(host, listener.getsockname()[1], token, public_url)
        if mcp:
            console.note(f"MCP       {address.url}/mcp")
        if web:
            console.note(f"web page  {address.url}/")
        if token:
            console.note(f"token     in {token_file}; send it as: Authorization: Bearer TOKEN")
        if opens:
            open_browser(console, f"{address.url}/")
        console.note_dim("Ctrl-C ends it")
        http.run(app, listener, address)
    return ExitCode.OK


@options.command(
    'mcp --docs docs --about "How our team works"',
    "mcp --profile recall",
    settings=(),
)
@about_option
@options.opening(options.docs, options.indexes, options.everywhere, options.profile)
def mcp(console: Console, opening: Opening, about: str) -> ExitCode:
    """Serve the agent that started this command, by MCP over standard input and output, until it closes them.

    It belongs into the configuration of an editor or a coding agent, not into a terminal.
    """
    from retriever.serving.mcp_server import serve_stdio
    from retriever.settings.layers import load_profile

    load_profile(opening.profile, opening.settings)  # mistakes in it are named now, not when somebody asks
    with open_served(opening, about) as served:
        if opening.docs:
            served.begin()
        serve_stdio(served)
    return ExitCode.OK


def open_served(opening: Opening, about: str) -> "ServedIndex | ServedIndexes":
    """The index to serve, or those of `--index a --index b`; each is opened when it is asked for."""
    from retriever.serving.pool import ServedIndex, ServedIndexes

    if not opening.several:
        return ServedIndex(*opening.arguments, about=about)
    places = opening.find_several()
    given = {name: ServedIndex((), str(place), opening.profile, opening.settings) for name, place in places.items()}
    return ServedIndexes(given, about)


def open_app(
    opening: Opening,
    about: str,
    roles_file: str | None,
    token_file: str | None,
    stack: contextlib.ExitStack,
    *,
    mcp: bool,
    web: bool,
) -> "ASGIApp":
    """The application for one index; or for the roles of a file, each of which has its own index and connections."""
    from retriever.indexing.request import INDEX_VARIABLE
    from retriever.serving.http import make_application
    from retriever.serving.roles import read_roles, route_roles
    from retriever.store.address import read_address

    if not roles_file:
        served = open_served(opening, about)
        stack.enter_context(served)
        served.begin()
        return make_application(served, mcp=mcp, web=web)
    index = read_address(opening.index or os.environ.get(INDEX_VARIABLE) or "")
    if index is None or opening.several or opening.docs or token_file:
        raise click.UsageError("--roles is for one --index postgresql://..., without --docs and --token-file")
    roles, apps = read_roles(Path(roles_file).expanduser()), {}
    for role in roles.names:
        served = open_served(replace(opening, index=str(index.with_role(role))), about)
        stack.enter_context(served)
        apps[role] = make_application(served, mcp=mcp, web=web)
    return route_roles(roles, apps)


def open_browser(console: Console, address: str) -> None:
    """Opens a page as soon as it can be loaded: the socket listens already, so a browser waits for the answer."""
    import webbrowser

    try:
        is_open = webbrowser.open(address)
    except webbrowser.Error:
        is_open = False
    if not is_open:
        console.note("no browser could be opened; open the address above yourself")


# The resident process.


def run_resident(console: Console, idle_minutes: float, *, background: bool) -> ExitCode:
    """Answers the questions of other processes until told to leave, or idle for that time (0: for ever)."""
    # What every question needs is loaded now, so that the first one finds it.
    import retriever.command_line.ask
    import retriever.command_line.render
    import retriever.embedding.onnx
    import retriever.vectors  # noqa: F401 - loaded, not used
    from retriever.serving.resident_server import ResidentServer, write_log

    paths = ResidentPaths(os.environ)
    with QuestionRunner() as runner:
        server = ResidentServer(
            runner.run, paths, lambda: MODEL_S if runner.uses_model else ANSWER_S, idle_minutes * 60 or NEVER_S
        )
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda *_: server.leave())
        if background:
            write_log(paths.log, "begins")
        else:
            console.note(f"resident  process {os.getpid()} answers what `ask` is asked")
            console.note_dim("Ctrl-C or `serve --stop` ends it")
        reason = server.run()
    if background:
        write_log(paths.log, f"leaves: {reason}")
    else:
        console.note_dim(reason)
    return ExitCode.OK


class DeclinedError(BaseException):
    """The question is to be asked in a process of its own. No Exception: nothing on the way may handle it."""


class QuestionRunner(Closing):
    """Runs the command lines of other processes, with retrievers that stay open between them; for one thread."""

    def __init__(self) -> None:
        from retriever.serving.pool import RetrieverPool

        self.uses_model = False  # whether the question of now may wait for a language model
        self._pool = RetrieverPool(MAX_OPEN)

    def close(self) -> None:
        self._pool.close()

    def run(self, call: "Call") -> "Outcome":
        from retriever.command_line.program import run
        from retriever.serving.resident_server import impersonate

        if not is_question(call.words, COMMANDS):
            return "it is no question"
        self.uses_model = False
        try:
            with impersonate(call) as chunks:
                code = run(call.words, call.program_name, self.open_retriever)
        except DeclinedError as error:
            return f"to be indexed first: {error}"
        except OSError as error:
            return f"its folder cannot be entered: {error}"
        return code, chunks

    @contextmanager
    def open_retriever(
        self,
        docs: Sequence[str | Path],
        index: str | Path | None,
        profile: str,
        settings: Mapping[str, Any],
        _: "Progress | None" = None,
        *,
        on_words: object = None,
    ) -> "Iterator[Retriever]":
        """As `retriever.api.open_retriever`, but the retriever stays open, unless it is in trouble; never early."""
        from retriever.api import index_request
        from retriever.indexing.request import remember
        from retriever.indexing.update import update_index
        from retriever.retriever import Retriever

        # All is resolved anew, and a retriever is used only if it was opened for just the same profile, environment and
        # index settings.
        try:
            request = index_request(docs, index, profile, settings)
        except NotIndexedError as error:  # it is offered to index the folder: this process has no terminal
            raise DeclinedError(str(error)) from error
        self.uses_model = request.profile.use_llm
        if request.docs:
            try:
                update_index(replace(request, wait_s=0.0, with_chroma=False, leaves_pending=True), _NoIndexing())
            except IndexLockedError as error:
                raise DeclinedError(str(error)) from error
            remember(request.index)
        names = (*VARIABLES, request.profile.encoder.api_key_env or VARIABLES[0])
        variables = sorted(item for item in os.environ.items() if item[0].startswith(names))
        key = repr((request.index, request.profile, request.settings, request.index_config, profile, variables))
        with self._pool.borrow(key, lambda: Retriever(request, profile)) as retriever:
            with retriever.view() as view:
                if view.embedded_share < 1:
                    raise DeclinedError("its vectors are not all there")
            try:
                retriever.look_again()
                yield retriever
            except BaseException:
                self._pool.discard(key)
                raise
            if retriever.is_impaired:  # a process of its own would begin without what this one remembers of it
                self._pool.discard(key)


class _NoIndexing(NoProgress):
    """A Progress that declines: whoever indexes wants to see how far it is, and to stop it."""

    def start(self, stage: str, total: int, unit: str) -> NoReturn:
        raise DeclinedError(f"{stage} {total:,} {unit}")


def start_in_background() -> None:
    """Starts a resident process that outlives this one, in a session of its own; where one runs, the new one leaves."""
    subprocess.Popen(
        [sys.executable, str(Path(PACKAGE).parent / "hybrid_retrieve.py"), "serve", "--background"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def end_resident(console: Console) -> ExitCode:
    """Ends this user's resident process after what it answers now; kills it when it hangs."""
    paths = ResidentPaths(os.environ)
    if not paths.is_private() or wait_until_gone(paths, 0):
        console.note("no resident process runs")
        return ExitCode.OK
    try:
        pid = int(Path(paths.pid).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise ServingError(f"a resident process begins or ends just now; try again ({error})") from error
    left = False
    with contextlib.suppress(NoResidentError, ConversationError):  # it hangs, or has just left
        talk(paths, {"kind": "stop"})
        left = wait_until_gone(paths, STOP_S)
    if not left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if not wait_until_gone(paths, STOP_S):
            raise ServingError(f"the resident process {pid} cannot be ended")
    console.note(f"the resident process {pid} has ended")
    return ExitCode.OK


def wait_until_gone(paths: ResidentPaths, seconds: float) -> bool:
    from filelock import FileLock, Timeout

    try:
        with FileLock(paths.lock, mode=0o600).acquire(timeout=seconds):
            return True
    except Timeout:
        return False


@dataclass(frozen=True, slots=True)
class ResidentState:
    pid: int
    since: str  # UTC, as ISO 8601
    questions: int  # how many it has answered
    bytes: int  # its memory


def read_resident_state() -> ResidentState | ServingError | None:
    """The state of this user's resident process; None when there is none, the error when it hangs."""
    try:
        reply = talk(ResidentPaths(os.environ), {"kind": "status"})
        since = datetime.fromtimestamp(float(reply["since"]), UTC).isoformat(timespec="seconds")
        return ResidentState(int(reply["pid"]), since, int(reply["questions"]), int(reply["bytes"]))
    except NoResidentError:
        return None
    except (ConversationError, LookupError, ValueError, TypeError) as error:
        return ServingError(f"the resident process does not answer ({error}); run: serve --stop")


def describe_resident(state: ResidentState | ServingError | None) -> str:
    if state is None:
        return "not running"
    if isinstance(state, ServingError):
        return str(state)
    asked = pluralize(state.questions, "question")
    return f"process {state.pid} since {state.since}, {asked}, {format_size(state.bytes)}"


def dump_resident(state: ResidentState | ServingError | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {"trouble": str(state)} if isinstance(state, ServingError) else asdict(state)
