"""Listen: a socket, the application behind the request guard, and a server that ends when it is told to."""

import logging
import os
import signal
import socket
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING

import uvicorn
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from retriever.errors import RetrieverError, ServingError, UsageError
from retriever.served.address import is_this_machine
from retriever.serving.client import read_token
from retriever.serving.guard import RequestGuard, ServerAddress, bracket

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from retriever.serving.pool import ServedIndex

MAX_CONNECTIONS = 256  # further ones are answered with 503; systems let a process open 1,024 files
SHUTDOWN_SECONDS = 8  # for what is in flight when the process is told to end; containers are given 10 s
EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # every address of the machine: no request names one of them

log = logging.getLogger(__name__)


def check_host(host: str, token: str) -> None:
    """Raise UsageError where the host is every address, or other machines can reach it and there is no token."""
    if host in EVERYWHERE:
        raise UsageError(f"--host {host!r} is every address of this machine; name the one that clients will use")
    if not (token or is_this_machine(f"http://{bracket(host)}")):
        raise UsageError(
            f"--host {host} can be reached from other machines, so a token is needed: add --token-file FILE "
            "(it is written when it does not exist)"
        )


def open_token(path: Path) -> str:
    """Return the bearer token in a file; write a new one, readable by its owner alone, where there is no such file."""
    if not path.exists():
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(f"{token_urlsafe(32)}\n")
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise UsageError(f"others can read {path}; run: chmod 600 {path}")
    return read_token(path)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any free one. ServingError when that is not possible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((str(address[0]), port), family=family)
    except OSError as error:
        why = f"cannot listen at {host}, port {port}: {error.strerror}"
        raise ServingError(f"{why}; choose another --host or --port (0: any free one)") from error


def list_probes(index: "ServedIndex") -> list[Route]:
    """Return what those who run servers ask: whether the process lives, and whether it can answer questions now."""

    async def answer_health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def answer_readiness(request: Request) -> Response:
        try:
            await to_thread.run_sync(index.check_ready)
        except RetrieverError as error:
            log.info("not ready: %s", error)
            return JSONResponse({"error": "it cannot answer now; its log says why"}, 503)
        return await answer_health(request)

    return [Route("/healthz", answer_health), Route("/readyz", answer_readiness)]


def make_application(index: "ServedIndex", *, mcp: bool, web: bool) -> Starlette:
    """Return the application to put behind the guard: MCP at /mcp, the web page (of one index) at everything else."""
    app = Starlette()
    if mcp:
        from retriever.serving.mcp_server import make_mcp_app

        app = make_mcp_app(index)
    app.router.routes += list_probes(index)
    if web:
        from retriever.serving.web import make_web_app

        app.router.routes.append(Mount("/", make_web_app(index.choose())))
    return app


def run(app: "ASGIApp", listener: socket.socket, address: ServerAddress) -> None:
    """Serve the application behind the guard until SIGINT or SIGTERM; what is in flight is answered first."""
    # uvicorn raises the signal again when all is answered, or SHUTDOWN_SECONDS are over: then a thread may still wait
    # for a database, and would keep the process. SIGTERM is how a server is ended, and no failure.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    make_server(app, address).run(sockets=[listener])


def make_server(app: "ASGIApp", address: ServerAddress) -> uvicorn.Server:
    """Return a server of the application behind the guard, within the limits above."""
    config = uvicorn.Config(
        RequestGuard(app, address),
        http="h11",  # the stricter parser; ChromaDB brings another one along
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)
