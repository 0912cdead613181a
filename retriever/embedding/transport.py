"""HTTP to a model server: never through a proxy, never to another host, never for longer or more than was agreed."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from retriever.errors import EncoderError

MAX_ANSWER_BYTES = 64 * 2**20
"""Some fifty times the vectors of a batch."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request may take, and how often it is tried again."""

    connect_s: float
    """Until the server accepts the connection."""
    total_s: float
    """Until the answer is complete, for each try."""
    pauses_s: tuple[float, ...] = ()
    """Before the second try, the third ..."""


class DeadlineTransport(httpx.BaseTransport):
    """Ends an answer that trickles in, which httpx does not: its timeouts are for each read.

    Raises:
        EncoderError: while the answer is read: it took too long, or is too large.
    """

    def __init__(self, patience: Patience, *, is_secure: bool) -> None:
        self._patience = patience
        # The certificates take 10 ms to load.
        self._transport = httpx.HTTPTransport(verify=is_secure, trust_env=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request; the answer's body is bounded."""
        deadline = time.monotonic() + self._patience.total_s
        response = self._transport.handle_request(request)
        if not isinstance(response.stream, httpx.SyncByteStream):
            raise TypeError("not the answer of a synchronous request")
        response.stream = _Bounded(response.stream, deadline, str(request.url))
        return response

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


class _Bounded(httpx.SyncByteStream):
    """The body of an answer, up to a point in time and a size."""

    def __init__(self, stream: httpx.SyncByteStream, deadline: float, url: str) -> None:
        self._stream = stream
        self._deadline = deadline
        self._url = url

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._stream:
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise EncoderError(f"{self._url} answered with more than {MAX_ANSWER_BYTES >> 20} MB")
            if time.monotonic() > self._deadline:
                raise EncoderError(f"{self._url} did not complete its answer in time")
            yield part

    def close(self) -> None:
        self._stream.close()


def timeout(patience: Patience) -> httpx.Timeout:
    """For httpx: the longest wait for a connection, and for any one read or write."""
    return httpx.Timeout(patience.total_s, connect=patience.connect_s)


def server_url(url: str) -> str:
    """The URL without a closing slash.

    Raises:
        EncoderError: it is no http URL with a host, or holds a password, which would end up in logs.
    """
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port of 99999
        is_server = False
    if not is_server or parts.username is not None:
        raise EncoderError(f"encoder.url: {url!r} is no address such as http://127.0.0.1:11434")
    return url.rstrip("/")
