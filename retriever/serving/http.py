"""Listening: a socket, a guarded application, and a server that ends when it is told to."""

import contextlib
import errno
import os
import socket
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from pageindex.regular_file import read_file
from retriever.errors import ServingError, UsageError
from retriever.serving.admission import DEFAULT_LIMITS, Door, Limits, is_loopback
from retriever.serving.guard import Guard

if TYPE_CHECKING:
    from starlette.types import ASGIApp

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8470
MAX_CONNECTIONS = 64
"""Further clients are told to come again (503)."""
KEEP_ALIVE_SECONDS = 5
SHUTDOWN_SECONDS = 2
MIN_TOKEN_LENGTH = 16
MAX_TOKEN_BYTES = 10_000
EVERYWHERE = frozenset({"", "0.0.0.0", "::", "[::]", "*"})
"""Addresses that stand for all of a machine's, and that no request names."""


def check_host(host: str, token: str) -> None:
    """Refuses an address that would be open to others.

    Raises:
        UsageError: with what to give instead.
    """
    if host in EVERYWHERE:
        raise UsageError(f"--host {host!r} is every address of this machine; name the one that clients will use")
    if not is_loopback(host) and not token:
        raise UsageError(
            f"--host {host} can be reached from other machines, so a token is needed: add --token-file FILE "
            "(it is written when it does not exist)"
        )


def read_token(path: Path) -> str:
    """The bearer token in a file; a new one, readable by its owner alone, where there is no such file.

    Raises:
        UsageError: others can read the file, or what it holds is no token.
    """
    with contextlib.suppress(FileExistsError):
        number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(number, "w", encoding="ascii") as file:
            file.write(f"{token_urlsafe(32)}\n")
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise UsageError(f"others can read {path}; run: chmod 600 {path}")
    token = read_file(path, MAX_TOKEN_BYTES, follow_link=True).decode("utf-8", "replace").strip()
    if len(token) < MIN_TOKEN_LENGTH or not (token.isascii() and token.isprintable()) or " " in token:
        raise UsageError(f"{path} holds no token: one line of at least {MIN_TOKEN_LENGTH} ASCII characters, no spaces")
    return token


def listen(host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> socket.socket:
    """A socket that listens; port 0 is any free one.

    Raises:
        ServingError: the port is taken, or the address is not this machine's.
    """
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


def door_of(listener: socket.socket, host: str, token: str = "") -> Door:
    """What a listening socket is called by its clients."""
    return Door(host, listener.getsockname()[1], token)


def run(app: "ASGIApp", listener: socket.socket, door: Door, limits: Limits = DEFAULT_LIMITS) -> None:
    """Serves the application behind the guard until SIGINT or SIGTERM, which then end the process as they do."""
    import uvicorn

    from retriever.serving.protocol import BoundedProtocol

    config = uvicorn.Config(
        Guard(app, door, limits),
        loop="asyncio",
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # nobody in between may say where a request comes from
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=limits.header_bytes,
    )
    uvicorn.Server(config).run(sockets=[listener])
