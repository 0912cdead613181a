"""HTTP to a model server: never through a proxy, never to another host, never for longer or more than was agreed.

Whatever goes wrong is a ServedError, so that no error of httpx leaves this module:

    ServedError
    ├── UnreachableError    no connection
    ├── BrokenError         the connection broke before the answer was complete
    ├── OverdueError        the answer was not complete in time, or nothing came for too long
    ├── RefusedError        the server says no
    └── StrangeAnswerError  what came is no answer of this API
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, TypeVar

import httpcore
import httpx

BUSY = frozenset({429, 502, 503, 504})  # statuses that may pass by themselves
MAX_BYTES = 64 * 2**20  # of an answer: some fifty times the vectors of a batch

T = TypeVar("T")


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
    """The answer was not complete in time, or nothing came for longer than agreed."""


class RefusedError(ServedError):
    """The server says no; `status` is of HTTP, -1 when it said so in the middle of an answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.may_pass = status in BUSY


class StrangeAnswerError(ServedError):
    """The answer is not one of the API that was asked."""


@dataclass(slots=True)
class Limits:
    """How long is waited for an answer, in all tries together."""

    connect_s: float  # until the server accepts the connection
    end: float  # when the answer must be complete, by time.monotonic()
    idle_s: float  # the longest silence after the first data
    # Whether the first data has come. Not the first bytes: llama.cpp sends its headers before it reads the prompt.
    has_begun: bool = False

    @property
    def left_s(self) -> float:
        """The seconds until the answer must be complete, above 0; OverdueError."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise OverdueError("not complete in time")
        return left


def retry(ask: Callable[[], T], pauses: Sequence[float]) -> T:
    """Return what a request gives, which is tried again after each pause where that may help; ServedError."""
    for pause in pauses:
        try:
            return ask()
        except ServedError as error:
            if not error.may_pass:
                raise
        time.sleep(pause)
    return ask()


class _MeteredStream(httpcore.NetworkStream):
    """A connection that counts time, silence and bytes; httpx's own limits are for each read alone."""

    def __init__(self, stream: httpcore.NetworkStream, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._received = 0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        left = self._limits.left_s
        # Before the first data, a model loads and reads: that silence may be as long as the whole time.
        idle = self._limits.idle_s if self._limits.has_begun else left
        try:
            part = self._stream.read(max_bytes, min(left, idle))
        except httpcore.ReadTimeout as error:
            said = "not complete in time" if left <= idle else f"nothing came for {idle:.3g} s"
            raise OverdueError(said) from error
        self._received += len(part)
        if self._received > MAX_BYTES:
            raise StrangeAnswerError(f"more than {MAX_BYTES} bytes")
        return part

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._limits.left_s)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        self._stream = self._stream.start_tls(ssl_context, server_hostname, self._limits.left_s)
        return self

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - as httpcore declares it
        return self._stream.get_extra_info(info)


class _MeteredBackend(httpcore.SyncBackend):
    """Opens such connections."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def connect_tcp(self, *arguments: Any, **named: Any) -> httpcore.NetworkStream:  # noqa: ANN401 - as httpcore has it
        return _MeteredStream(super().connect_tcp(*arguments, **named), self._limits)


def client_options(limits: Limits, url: str) -> dict[str, Any]:
    """Return the options of an httpx client, or one built on it, that asks this server and no other; OverdueError."""
    # Certificates take 10 ms to load. No connection is kept, so that each answer is counted for itself.
    context = httpx.create_ssl_context(verify=url.startswith("https:"), trust_env=False)
    transport = httpx.HTTPTransport(verify=context)
    transport._pool = httpcore.ConnectionPool(
        ssl_context=context, max_keepalive_connections=0, network_backend=_MeteredBackend(limits)
    )
    return {
        "transport": transport,
        "timeout": httpx.Timeout(limits.left_s, connect=min(limits.connect_s, limits.left_s)),
        "trust_env": False,
        "follow_redirects": False,
    }


@contextmanager
def translate_http_errors(key: str = "") -> Iterator[None]:
    """Turn the errors of httpx into ServedErrors; a key that a message repeats is left out of it."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise UnreachableError(str(error)) from error
    except httpx.TimeoutException as error:
        raise OverdueError(str(error)) from error
    except httpx.HTTPError as error:
        raise BrokenError(str(error)) from error
    except ServedError as error:
        if key and key in str(error):
            error.args = (str(error).replace(key, "(the key)"),)
        raise


@contextmanager
def open_response(
    url: str, limits: Limits, body: Mapping[str, object] | None = None, key: str = ""
) -> Iterator[httpx.Response]:
    """Yield the answer to one request, a POST where it has a body, not read yet; RefusedError unless it is a good one.

    The key is sent to this URL alone; empty: none is sent.
    """
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with (
        translate_http_errors(key),
        httpx.Client(**client_options(limits, url)) as client,
        client.stream("GET" if body is None else "POST", url, json=body, headers=headers) as response,
    ):
        if not response.is_success:
            response.read()
            raise RefusedError(response.status_code, find_message(response.text))
        yield response


def request_json(
    url: str, limits: Limits, body: Mapping[str, object] | None = None, key: str = ""
) -> Mapping[str, Any]:
    """Return the JSON object that answers one request, as `open_response` asks it."""
    with open_response(url, limits, body, key) as response:
        response.read()
        try:
            content = json.loads(response.content)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise StrangeAnswerError(f"{url}: {one_line(response.text)}")
        return content


def read_events(response: httpx.Response) -> Iterator[bytes]:
    """Yield the data of each server-sent event, up to `[DONE]`; comments only show that the server is alive."""
    rest = b""
    for part in response.iter_bytes():
        # Lines end at a line feed alone: other characters that end lines may stand inside JSON.
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            data = line.removeprefix(b"data:").strip()
            if data == b"[DONE]":
                return
            if line.startswith(b"data:"):
                yield data


def find_message(text: str) -> str:
    """Return what a server says of an error, wherever its JSON has it; else the whole text."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for name in ("error", "message"):
        content = content.get(name) or content if isinstance(content, dict) else content
    return content if isinstance(content, str) else text


def one_line(message: object) -> str:
    """Return a server's message as one printable line of at most 200 characters."""
    return "".join(filter(str.isprintable, " ".join(str(message).split())))[:200]
