"""HTTP to a model server: never through a proxy, never to another host, never for longer or more than was agreed.

The clients of Ollama and of OpenAI are used here and nowhere else. What they would take from the environment by
themselves (OLLAMA_API_KEY, OPENAI_BASE_URL, proxies) is never used, and no redirect is followed.
"""

import ipaddress
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import httpcore
import httpx

if TYPE_CHECKING:
    from ollama import Client
    from openai import OpenAI

DEFAULT_URL = "http://127.0.0.1:11434"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long and how much a client waits for, and how often a request is tried again."""

    connect_s: float  # until the server accepts the connection
    total_s: float  # until the answer is complete, for each try
    pauses_s: tuple[float, ...] = ()  # before the second try, the third ..
    idle_s: float | None = None  # the longest silence after the answer has begun; None: only `total_s` counts
    max_bytes: int = 64 * 2**20  # of an answer; by default some fifty times the vectors of a batch


class OverdueError(httpx.ReadTimeout):
    """The answer was not complete in time."""


class AnswerTooLargeError(httpx.TransportError):
    """The answer is larger than any that is useful."""


class RefusedError(Exception):
    """The server says no; `status` is of HTTP, -1 when it said so in the middle of an answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class StrangeAnswerError(Exception):
    """The server's answer is not one of Ollama's."""


class _LimitedStream(httpcore.NetworkStream):
    """A connection whose reads and writes end at the deadline; httpx's own time limits are for each read."""

    def __init__(self, stream: httpcore.NetworkStream, timeouts: Timeouts, deadline: float) -> None:
        self._stream = stream
        self._timeouts = timeouts
        self._deadline = deadline
        self._received = 0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        left = self._left()
        # Before the first byte, a model loads and reads: that silence may be as long as the whole time.
        idle = (self._timeouts.idle_s if self._received else None) or left
        try:
            part = self._stream.read(max_bytes, min(left, idle))
        except httpcore.ReadTimeout as error:
            if left <= idle:
                raise OverdueError("the answer was not complete in time") from error
            raise
        self._received += len(part)
        if self._received > self._timeouts.max_bytes:
            raise AnswerTooLargeError(f"an answer of more than {self._timeouts.max_bytes} bytes")
        return part

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, self._left())
        return _LimitedStream(stream, self._timeouts, self._deadline)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - as httpcore declares it
        return self._stream.get_extra_info(info)

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise OverdueError("the answer was not complete in time")
        return left


class _LimitedBackend(httpcore.NetworkBackend):
    """Opens connections that share one deadline, which runs from now on."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._backend = httpcore.SyncBackend()
        self._timeouts = timeouts
        self._deadline = time.monotonic() + timeouts.total_s

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        stream = self._backend.connect_tcp(host, port, timeout, local_address, socket_options)
        return _LimitedStream(stream, self._timeouts, self._deadline)


class _LimitedTransport(httpx.HTTPTransport):
    """httpx's transport over such connections."""

    def __init__(self, timeouts: Timeouts, *, is_secure: bool) -> None:
        super().__init__(verify=False, trust_env=False)
        # The certificates take 10 ms to load. No connection is kept, so that each answer is counted for itself.
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(verify=is_secure, trust_env=False),
            max_keepalive_connections=0,
            network_backend=_LimitedBackend(timeouts),
        )


def client_options(timeouts: Timeouts, url: str) -> dict[str, Any]:
    """For an httpx client, or one built on it, that asks this server and no other."""
    return {
        "transport": _LimitedTransport(timeouts, is_secure=url.startswith("https:")),
        "timeout": httpx.Timeout(timeouts.total_s, connect=min(timeouts.connect_s, timeouts.total_s)),
        "trust_env": False,
        "follow_redirects": False,
    }


@contextmanager
def ollama_client(url: str, timeouts: Timeouts) -> "Iterator[Client]":
    """A client for one try; its connections are closed at the end, also by an interrupt."""
    import ollama  # 335 ms

    def drop_key(request: httpx.Request) -> None:  # the client sends the environment's OLLAMA_API_KEY to any host
        request.headers.pop("authorization", None)

    try:
        with ollama.Client(url, event_hooks={"request": [drop_key]}, **client_options(timeouts, url)) as client:
            yield client
    except ConnectionError as error:  # the client's own, which hides the reason
        raise httpx.ConnectError(f"no connection to {url}") from error
    except ollama.ResponseError as error:
        raise RefusedError(error.status_code, str(error.error)) from error
    # Lists where objects belong make the client look for attributes, and deep ones exhaust its JSON parser.
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StrangeAnswerError(str(error)) from error


# The headers of OpenAI's client that are sent: not those of the environment, nor what it tells of this machine.
_SENT_HEADERS = frozenset(
    {"host", "user-agent", "accept", "accept-encoding", "connection", "content-type", "content-length"}
)


@contextmanager
def openai_client(url: str, timeouts: Timeouts, key: str) -> "Iterator[OpenAI]":
    """As `ollama_client`, for a server that speaks OpenAI's API; the key is sent to it alone, empty: none."""
    import openai  # 1 s

    def settle_headers(request: httpx.Request) -> None:
        for name in request.headers.keys() - _SENT_HEADERS:
            del request.headers[name]
        if key:
            request.headers["authorization"] = f"Bearer {key}"

    def hide_key(message: object) -> str:  # some servers repeat it
        return str(message).replace(key, "(the key)") if key else str(message)

    try:
        with (
            httpx.Client(event_hooks={"request": [settle_headers]}, **client_options(timeouts, url)) as http,
            openai.OpenAI(base_url=url, api_key="none", max_retries=0, http_client=cast("Any", http)) as client,
        ):
            yield client
    except openai.APIStatusError as error:
        body = error.body.get("message", error.body) if isinstance(error.body, dict) else error.body
        raise RefusedError(error.status_code, hide_key(body)) from None
    except openai.APIConnectionError as error:
        cause = error.__cause__
        raise cause if isinstance(cause, httpx.HTTPError) else httpx.ConnectError(str(error)) from None
    except openai.APIError as error:
        raise RefusedError(-1, hide_key(error.message)) from None
    # It does not check what it gives: anything may stand where a text or an object belongs.
    except (openai.OpenAIError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise StrangeAnswerError(hide_key(error)) from None


KEYRING = "hybrid-retrieve"  # under which the system's keyring has our keys


def find_key(name: str, url: str) -> str:
    """The key for a server: of the variable of that name, else of that entry in the system's keyring; may be empty.

    Raises:
        ValueError: it cannot be sent, or would travel to another machine unencrypted. No message has the key.
    """
    key = os.environ.get(name, "").strip() if name else ""
    if name and not key and find_spec("keyring"):
        import keyring
        from keyring.errors import KeyringError

        with suppress(KeyringError):  # there is none on this machine, or it stays locked
            key = (keyring.get_password(KEYRING, name) or "").strip()
    if not key.isascii() or any(letter.isspace() or not letter.isprintable() for letter in key):
        raise ValueError(f"{name} holds no key: it has blanks, or letters that none has")
    if key and url.startswith("http:") and not is_this_machine(url):
        how = "name an address with https, make a tunnel (ssh -L), or set api_key_env to the name of an empty variable"
        raise ValueError(f"the key {name} would travel to {url} unencrypted: {how}")
    return key


def keyring_command(name: str) -> str:
    """What puts a key into the system's keyring; it asks for the key, which then stands in no history of commands."""
    return f"uv run --extra openai keyring set {KEYRING} {name}"


def ollama_url(setting: str, *, allow_remote: bool) -> str:
    """The server to ask: the one of the setting, else of OLLAMA_HOST, else the usual one on this machine."""
    url = _complete_url(setting or os.environ.get("OLLAMA_HOST", "")) or DEFAULT_URL
    return allowed_url(url, allow_remote=allow_remote, section="llm")


def allowed_url(url: str, *, allow_remote: bool, section: str) -> str:
    """As `server_url`; ValueError also where the settings of that section do not allow another machine."""
    url = server_url(url)
    if not allow_remote and not is_this_machine(url):
        what = "is another machine, which would read questions and documents"
        raise ValueError(f"{url} {what}: set {section}.allow_remote")
    return url


def _complete_url(address: str) -> str:
    """OLLAMA_HOST as Ollama reads it: scheme, host and port may be missing, and 0.0.0.0 means this machine."""
    address = address.strip().strip("\"'").strip()
    scheme, _, rest = address.rpartition("://")
    with suppress(ValueError):  # it is a name, an IPv4 address, or has a port or a path
        rest = f"[{ipaddress.IPv6Address(rest)}]"
    try:
        parts = urlsplit(f"{scheme or 'http'}://{rest}")
        port = parts.port
    except ValueError:
        return address
    if not address or parts.username is not None:
        return address
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(parts.hostname or "", parts.hostname)
    host = f"[{host}]" if ":" in f"{host}" else host
    number = port if port is not None else {"http": 80, "https": 443}.get(scheme, 11434)
    return f"{parts.scheme}://{host}:{number}{parts.path}"


def server_url(url: str) -> str:
    """The URL without a closing slash; ValueError without a host or with a password, which would end up in logs."""
    if "@" in url or "?" in url:
        raise ValueError("a key, name or password in the address would end up in logs: leave it out")
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
    """A server's message as one printable line of at most 200 characters."""
    return "".join(filter(str.isprintable, " ".join(message.split())))[:200]
