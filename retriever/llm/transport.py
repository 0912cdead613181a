"""HTTP to a model server: never through a proxy, never to another host, never for longer or more than was agreed."""

import ipaddress
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

MAX_ANSWER_BYTES = 64 * 2**20
"""Some fifty times the vectors of a batch."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how much is waited for, and how often a request is tried again."""

    connect_s: float
    """Until the server accepts the connection."""
    total_s: float
    """Until the answer is complete, for each try."""
    pauses_s: tuple[float, ...] = ()
    """Before the second try, the third ..."""
    idle_s: float | None = None
    """The longest silence in the middle of an answer; None: any that `total_s` allows."""
    max_bytes: int = MAX_ANSWER_BYTES
    """Of an answer."""
    max_line_bytes: int = MAX_ANSWER_BYTES
    """Of a line of it."""


class OverdueError(httpx.ReadTimeout):
    """The answer was not complete in time."""


class AnswerTooLargeError(httpx.TransportError):
    """The answer, or a line of it, is larger than any that is useful."""


class DeadlineTransport(httpx.BaseTransport):
    """Ends what trickles in, which httpx does not: its time limits are for each read.

    All requests of a client share the time, which runs from now on.

    Raises:
        OverdueError: while a request is sent or its answer is read: the time is over.
        AnswerTooLargeError: while the answer is read.
    """

    def __init__(self, patience: Patience, *, is_secure: bool) -> None:
        self._patience = patience
        self._deadline = time.monotonic() + patience.total_s
        # The certificates take 10 ms to load. No connection is kept: each request has its own guard.
        self._transport = httpx.HTTPTransport(
            verify=is_secure, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request; what comes back is bounded."""
        guard = _Guard(self._deadline, str(request.url))
        remaining = max(self._deadline - time.monotonic(), 0.001)
        waits = {**request.extensions.get("timeout", {}), "read": remaining}
        request.extensions = {**request.extensions, "timeout": waits, "trace": guard.watch}
        try:
            with guard:
                response = self._transport.handle_request(request)
        except BaseException:
            guard.stop()
            raise
        # Read anew when the body is: silence before an answer is a model that loads or reads, in the middle it is not.
        waits["read"] = min(remaining, self._patience.idle_s or remaining)
        if not isinstance(response.stream, httpx.SyncByteStream):
            raise TypeError("not the answer of a synchronous request")
        response.stream = _Bounded(response.stream, guard, self._patience)
        return response

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


class _Guard:
    """Shuts the connection of one request at a point in time, whatever its reader waits for."""

    def __init__(self, deadline: float, url: str) -> None:
        self._deadline = deadline
        self._url = url
        self._connection: socket.socket | None = None
        self._timer = threading.Timer(max(deadline - time.monotonic(), 0), self._shut)
        self._timer.daemon = True

    def watch(self, event: str, info: Mapping[str, Any]) -> None:
        """What httpcore calls at each of its steps: from the connection on, there is something to shut."""
        if event in {"connection.connect_tcp.complete", "connection.start_tls.complete"}:
            self._connection = info["return_value"].get_extra_info("socket")
            if not self._timer.is_alive():
                self._timer.start()

    def stop(self) -> None:
        """The request is over."""
        self._timer.cancel()

    def _shut(self) -> None:
        with suppress(OSError):  # it is closed already
            if self._connection:
                self._connection.shutdown(socket.SHUT_RDWR)

    def check(self) -> None:
        """Raises OverdueError when the time is over."""
        if time.monotonic() >= self._deadline:
            raise OverdueError(f"{self._url} did not complete its answer in time")

    def __enter__(self) -> None:
        self.check()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """A connection that was shut looks broken: its real reason is raised instead."""
        if isinstance(error, httpx.TransportError) and not isinstance(error, AnswerTooLargeError):
            self.check()


class _Bounded(httpx.SyncByteStream):
    """The body of an answer, up to a point in time and a size."""

    def __init__(self, stream: httpx.SyncByteStream, guard: _Guard, patience: Patience) -> None:
        self._stream = stream
        self._guard = guard
        self._patience = patience

    def __iter__(self) -> Iterator[bytes]:
        size = line = 0
        with self._guard:
            for part in self._stream:
                size += len(part)
                first, *others = part.split(b"\n")
                longest = max(line + len(first), *map(len, others), 0)
                line = len(others[-1]) if others else line + len(first)
                if size > self._patience.max_bytes or longest > self._patience.max_line_bytes:
                    raise AnswerTooLargeError(f"an answer of {size} bytes with a line of {longest}")
                self._guard.check()
                yield part
        self._guard.check()

    def close(self) -> None:
        self._guard.stop()
        self._stream.close()


def client_options(patience: Patience, url: str) -> dict[str, Any]:
    """For an httpx client, or one built on it, that is to ask this server and no other."""
    return {
        "transport": DeadlineTransport(patience, is_secure=url.startswith("https:")),
        "timeout": httpx.Timeout(patience.total_s, connect=min(patience.connect_s, patience.total_s)),
        "trust_env": False,
        "follow_redirects": False,
    }


def server_url(url: str) -> str:
    """The URL without a closing slash.

    Raises:
        ValueError: it is no http URL with a host, or holds a password, which would end up in logs.
    """
    if "@" in url:
        raise ValueError("a name or password in the address would end up in logs: leave it out")
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port of 99999
        is_server = False
    if not is_server or any(map(str.isspace, url)):
        raise ValueError(f"{url!r} is no address such as http://127.0.0.1:11434")
    return url.rstrip("/")


def is_this_machine(url: str) -> bool:
    """Whether a server's address (as `server_url` gives it) leads to this machine and to no other."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def one_line(message: str) -> str:
    """What a server says, fit for a message of ours: on one line, printable, not endless."""
    return "".join(filter(str.isprintable, " ".join(message.split())))[:200]
