"""HTTP to a server: never through a proxy, never to another host, never for longer or more than was agreed.

It uses the standard library's client: the read timeout of httpx is of each read alone, which a byte a second never
exceeds, and the import of httpx takes ten times as long.

Whatever goes wrong is a ServedError:

    ServedError
    ├── UnreachableError    no connection
    ├── BrokenError         the connection broke before the answer was complete
    ├── OverdueError        the answer was not complete in time
    ├── RefusedError        the server says no
    └── StrangeAnswerError  what came is no answer of this API
"""

import json
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import socket
from urllib.parse import urlsplit

BUSY = frozenset({429, 502, 503, 504})  # statuses that may pass by themselves
MAX_BYTES = 64 * 2**20  # of an answer: some fifty times the vectors of a batch
PART_BYTES = 2**16
CONNECT_S = 5.0  # until a server accepts the connection; one that needs longer is not healthy


class ServedError(Exception):
    """Something went wrong between this program and a server."""

    may_pass = False  # whether a second try may help


class UnreachableError(ServedError):
    """There is no connection to the server."""

    may_pass = True


class BrokenError(ServedError):
    """The connection broke before the answer was complete."""

    may_pass = True


class OverdueError(ServedError):
    """The answer was not complete in time."""


class RefusedError(ServedError):
    """The server says no; `status` is of HTTP, -1 when it said so in the middle of an answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.may_pass = status in BUSY


class StrangeAnswerError(ServedError):
    """The answer is not one of the API that was asked."""


@dataclass(frozen=True)
class Limits:
    """How long is waited for an answer, in all tries together."""

    end: float  # when the answer must be complete, by time.monotonic()

    def left(self) -> float:
        """Return the seconds until the answer must be complete, above 0; OverdueError."""
        seconds = self.end - time.monotonic()
        if seconds <= 0:
            raise OverdueError("not complete in time")
        return seconds


@contextmanager
def open_reply(
    url: str, limits: Limits, body: Mapping[str, object] | None = None, key: str = ""
) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Yield the status of the reply to one request, a POST where it has a body, and the parts of its own body.

    The key is sent to this URL alone; empty: none is sent. What fails is a ServedError, also while the parts are read.
    """
    parts = urlsplit(url)
    connect_s = min(CONNECT_S, limits.left())
    connection = HTTPConnection(parts.netloc, timeout=connect_s)
    if parts.scheme == "https":
        import certifi  # 13 ms; some systems have no authorities where this Python looks

        context = ssl.create_default_context()
        context.load_verify_locations(certifi.where())
        connection = HTTPSConnection(parts.netloc, timeout=connect_s, context=context)
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    with closing(connection):
        try:
            connection.connect()
        except OSError as error:
            raise UnreachableError(str(error)) from error
        sock: socket = connection.sock
        with _translate_errors(limits):
            sock.settimeout(limits.left())
            if body is None:
                connection.request("GET", parts.path, headers=headers)
            else:
                connection.request("POST", parts.path, json.dumps(body).encode(), headers)
            response = connection.getresponse()
        with response:
            yield response.status, _read_parts(response, sock, limits)


@contextmanager
def _translate_errors(limits: Limits) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise OverdueError("not complete in time") from error
    except (OSError, HTTPException, ValueError) as error:
        limits.left()
        raise BrokenError(str(error)) from error


def _read_parts(response: HTTPResponse, sock: socket, limits: Limits) -> Iterator[bytes]:
    received = 0
    with _translate_errors(limits):
        # `read` would take all that comes after a chunk of the length -1.
        while part := response.read1(PART_BYTES):
            received += len(part)
            if received > MAX_BYTES:
                raise StrangeAnswerError(f"more than {MAX_BYTES:,} bytes")
            yield part
            sock.settimeout(limits.left())
        limits.left()  # what the deadline cut off may look complete
        if response.length:
            raise BrokenError(f"{response.length} bytes are missing")


def read_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a body, as they come, without their ends."""
    rest = b""
    for part in parts:
        # Lines end at a line feed alone: other characters that end lines may stand inside JSON.
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
    yield rest


def find_message(body: bytes) -> str:
    """Return what a server says of an error, wherever its JSON has it; else the whole text."""
    text = body.decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        content = json.loads(text)
        for name in ("error", "message"):
            content = content.get(name) or content if isinstance(content, dict) else content
        if isinstance(content, str):
            return content
    return text


def one_line(message: object) -> str:
    """Return a server's message, or what it sent, as one printable line of at most 200 characters."""
    if isinstance(message, bytes):
        message = message[:1000].decode("utf-8", "replace")
    return "".join(filter(str.isprintable, " ".join(str(message).split())))[:200]
