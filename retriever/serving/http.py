"""Listening: a socket, the application behind the request guard, and a server that ends when it is told to.

A client that connects and then says nothing, stops in the middle of a request, or does not read its answer costs a
connection for some seconds and keeps no other client waiting.
"""

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount
from uvicorn.protocols.http.h11_impl import H11Protocol

from pageindex.files import read_file
from retriever.errors import ServingError, UsageError
from retriever.serving.guard import DEFAULT_LIMITS, Limits, RequestGuard, ServerAddress, is_loopback
from retriever.serving.probes import Meter, list_probes

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from retriever.serving.pool import ServedIndex, ServedIndexes

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8470
# When there are more, some that wait for their clients are closed. Systems let a process open 1,024 files.
MAX_CONNECTIONS = 256
# How many connections are closed at once: looking for them takes a millisecond.
ROOM = 32
# How many connections the event loop accepts before it reads from any of them.
BACKLOG = 128
# The time between two looks at a connection.
WATCH_SECONDS = 0.5
# For a connection that has sent nothing of its next request.
KEEP_ALIVE_SECONDS = 5
# For all headers of a request to arrive.
HEAD_SECONDS = 10.0
# Without a byte that a client takes of its answer.
READ_SECONDS = 5.0
# For what is in flight when the process is told to end; those who start containers give them 10 s.
SHUTDOWN_SECONDS = 8
MIN_TOKEN_LENGTH = 16
MAX_TOKEN_BYTES = 10_000
# Each means every address of the machine, and no request names one of them.
EVERYWHERE = frozenset({"", "0.0.0.0", "::", "[::]", "*"})


def check_host(host: str, token: str) -> None:
    if host in EVERYWHERE:
        raise UsageError(f"--host {host!r} is every address of this machine; name the one that clients will use")
    if not is_loopback(host) and not token:
        raise UsageError(
            f"--host {host} can be reached from other machines, so a token is needed: add --token-file FILE "
            "(it is written when it does not exist)"
        )


def read_token(path: Path) -> str:
    """The bearer token in a file; a new one, readable by its owner alone, where there is no such file."""
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
    token = read_file(path, MAX_TOKEN_BYTES, follow_link=True).decode("utf-8", "replace").strip()
    if len(token) < MIN_TOKEN_LENGTH or not (token.isascii() and token.isprintable()) or " " in token:
        raise UsageError(f"{path} holds no token: one line of at least {MIN_TOKEN_LENGTH} ASCII characters, no spaces")
    return token


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


def make_application(index: "ServedIndex | ServedIndexes", *, mcp: bool, web: bool) -> "ASGIApp":
    """MCP at /mcp, the web page (of one index) at everything else; both or one of them, to be put behind the guard."""
    meter = Meter()
    routes: list[BaseRoute] = [*list_probes(index, meter)]
    parts: list[Starlette] = []
    if mcp:
        from retriever.serving.mcp_server import make_mcp_app

        parts.append(make_mcp_app(index))
        routes.extend(parts[-1].routes)
    if web:
        from retriever.serving.web import make_web_app

        parts.append(make_web_app(index.choose()))
        routes.append(Mount("/", parts[-1]))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for part in parts:
                await stack.enter_async_context(part.router.lifespan_context(part))
            yield

    return meter.measure(Starlette(routes=routes, lifespan=lifespan))


def run(app: "ASGIApp", listener: socket.socket, address: ServerAddress, limits: Limits = DEFAULT_LIMITS) -> None:
    """Serves the application behind the guard until SIGINT or SIGTERM; what is in flight is answered first."""
    # uvicorn raises the signal again when all is answered, or SHUTDOWN_SECONDS are over: then a thread may still wait
    # for a database, and would keep the process. SIGTERM is how a server is ended, and no failure.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    make_server(app, address, limits).run(sockets=[listener])


def make_server(app: "ASGIApp", address: ServerAddress, limits: Limits = DEFAULT_LIMITS) -> uvicorn.Server:
    config = uvicorn.Config(
        RequestGuard(app, address, limits),
        loop="asyncio",
        http=WatchedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # no proxy may say where a request comes from
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=limits.header_bytes,
    )
    return uvicorn.Server(config)


class WatchedProtocol(H11Protocol):
    """HTTP/1.1 by uvicorn and h11; closes a connection whose client keeps it waiting, which uvicorn does not."""

    # The body of a request is the guard's concern: it knows what is still to come, and answers 408.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        super().connection_made(transport)
        self._moved = self.loop.time()  # when the client last sent or took something
        self._head_begun: float | None = None
        self._unsent = 0
        self._watching = self.loop.call_later(WATCH_SECONDS, self._watch)
        if len(self.connections) <= MAX_CONNECTIONS:
            return
        # Those that have waited longest are closed, of the peer that keeps the most of them waiting.
        by_peer: dict[str, list[WatchedProtocol]] = {}
        for other in self.connections:
            if isinstance(other, WatchedProtocol) and other is not self and other._waits_for_client:
                by_peer.setdefault(other.client[0] if other.client else "", []).append(other)
        greediest = max(by_peer.values(), key=len, default=[])
        for other in sorted(greediest, key=lambda other: other._moved)[:ROOM]:
            other.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._moved = self.loop.time()
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._moved = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._watching.cancel()
        super().connection_lost(exc)

    @property
    def _waits_for_client(self) -> bool:
        """Whether a request or a part of it is to come, or an answer is out that the client has to take."""
        to_come = self.conn.their_state in {h11.IDLE, h11.SEND_BODY}
        return to_come or self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        """Closes the connection when its client has been silent for too long; looks again in a moment."""
        now = self.loop.time()
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._moved = unsent, now
        in_head = self.conn.their_state is h11.IDLE
        if not in_head or not self.conn.trailing_data[0]:
            self._head_begun = None
        elif self._head_begun is None:
            self._head_begun = now
        silent = now - self._moved
        if unsent:
            is_late = silent > READ_SECONDS
        elif self._head_begun is not None:
            is_late = silent > DEFAULT_LIMITS.stall_seconds or now - self._head_begun > HEAD_SECONDS
        else:
            is_late = in_head and silent > KEEP_ALIVE_SECONDS
        if is_late:
            self.transport.abort()
        else:
            self._watching = self.loop.call_later(WATCH_SECONDS, self._watch)
