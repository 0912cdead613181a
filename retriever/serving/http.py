"""Listen: a socket, the application behind the request guard, and a server that ends when it is told to."""

import contextlib
import errno
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvicorn
from anyio import move_on_after, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from retriever.errors import (
    EncoderError,
    IndexVersionError,
    NoIndexError,
    NotReadyError,
    RetrieverError,
    ServingError,
    StorageError,
    UsageError,
)
from retriever.serving.client import read_token
from retriever.serving.guard import RequestGuard, ServerAddress, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from retriever.serving.pool import ServedIndex

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8470
MAX_CONNECTIONS = 256  # further ones are answered with 503; systems let a process open 1,024 files
MAX_HEADER_BYTES = 16_384
KEEP_ALIVE_SECONDS = 5  # for a connection that has sent nothing of its next request
SHUTDOWN_SECONDS = 8  # for what is in flight when the process is told to end; containers are given 10 s
READY_SECONDS = 3.0  # for the database to answer a probe
# Each means every address of the machine, and no request names one of them.
EVERYWHERE = frozenset({"", "0.0.0.0", "::", "[::]", "*"})
NO_STORE = {"Cache-Control": "no-store"}
# What a probe is told, which anybody may ask: nothing of where the database is. The log has the whole sentence.
REASONS: dict[type[Exception], str] = {
    IndexVersionError: "the tables are of another version than this program: run postgres init, or update the program",
    NoIndexError: "there is no index yet: run postgres init and index, or index FOLDER",
    StorageError: "the database or the disk of the index does not answer as it should",
    EncoderError: "the embedding model cannot be loaded",
    NotReadyError: "the index and the embedding model are being opened",
    RetrieverError: "the index cannot be opened",
}

log = logging.getLogger(__name__)


def check_host(host: str, token: str) -> None:
    """Raise UsageError where the host is every address, or other machines can reach it and there is no token."""
    if host in EVERYWHERE:
        raise UsageError(f"--host {host!r} is every address of this machine; name the one that clients will use")
    if not is_loopback(host) and not token:
        raise UsageError(
            f"--host {host} can be reached from other machines, so a token is needed: add --token-file FILE "
            "(it is written when it does not exist)"
        )


def open_token(path: Path) -> str:
    """Return the bearer token in a file; write a new one, readable by its owner alone, where there is no such file."""
    if not path.exists():
        # Written whole before it has its name: of two servers that begin at once, one makes it, and both read it.
        draft = path.with_name(f".{path.name}.{token_urlsafe(8)}")
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(f"{token_urlsafe(32)}\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise UsageError(f"others can read {path}; run: chmod 600 {path}")
    return read_token(path)


def read_public_url(given: str) -> str:
    """The address of a proxy, as browsers write it in an Origin; UsageError where it says more than that, or less."""
    try:
        parts = urlsplit(given.lower())
        is_whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise UsageError(f"--public-url {given!r} is no address such as https://notes.example.org, without a path")
    return f"{parts.scheme}://{parts.netloc}"


def listen(host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> socket.socket:
    """A socket that listens; port 0 is any free one. ServingError when that is not possible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((str(address[0]), port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ServingError(
                f"port {port} of {host} is taken, perhaps by this program; stop what listens there, or choose another "
                "with --port (0: any free one)"
            ) from error
        raise ServingError(f"cannot listen at {host}, port {port}: {error.strerror}; see --host and --port") from error


def list_probes(index: "ServedIndex") -> list[Route]:
    """Return what those who run servers ask: whether the process lives, and whether it can answer questions now."""

    async def answer_health(_: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=NO_STORE)

    async def answer_readiness(request: Request) -> Response:
        trouble: RetrieverError = StorageError(f"the database did not answer within {READY_SECONDS:g} s")
        with move_on_after(READY_SECONDS):
            try:
                await to_thread.run_sync(index.check_ready, abandon_on_cancel=True)
                return await answer_health(request)
            except RetrieverError as error:
                trouble = error
        log.info("not ready: %s", trouble)
        reason = next(sentence for kind, sentence in REASONS.items() if isinstance(trouble, kind))
        return JSONResponse({"error": reason}, 503, NO_STORE | {"Retry-After": "1"})

    return [Route("/healthz", answer_health), Route("/readyz", answer_readiness)]


def make_application(index: "ServedIndex", address: ServerAddress, *, mcp: bool, web: bool) -> Starlette:
    """Return the application to put behind the guard: MCP at /mcp, the web page (of one index) at everything else."""
    routes: list[BaseRoute] = [*list_probes(index)]
    parts: list[Starlette] = []
    if mcp:
        from retriever.serving.mcp_server import make_mcp_app

        parts.append(make_mcp_app(index, address))
        routes.extend(parts[-1].routes)
    if web:
        from retriever.serving.web import make_web_app

        parts.append(make_web_app(index.choose()))
        routes.append(Mount("/", parts[-1]))

    return Starlette(routes=routes, lifespan=lambda _: run_together(parts))


@asynccontextmanager
async def run_together(apps: Iterable[Starlette]) -> AsyncIterator[None]:
    """Keep several applications between their startup and their shutdown."""
    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app.router.lifespan_context(app))
        yield


def run(app: "ASGIApp", listener: socket.socket, address: ServerAddress) -> None:
    """Serve the application behind the guard until SIGINT or SIGTERM; what is in flight is answered first."""
    # uvicorn raises the signal again when all is answered, or SHUTDOWN_SECONDS are over: then a thread may still wait
    # for a database, and would keep the process. SIGTERM is how a server is ended, and no failure.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    make_server(app, address).run(sockets=[listener])


def make_server(app: "ASGIApp", address: ServerAddress) -> uvicorn.Server:
    """Return a server of the application behind the guard, within the limits above."""
    config = uvicorn.Config(
        RequestGuard(app, address),
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # no proxy may say where a request comes from
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )
    return uvicorn.Server(config)
