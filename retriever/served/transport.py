"""Which servers may be asked, with which key, and HTTP to them.

Never through a proxy, never to another host, never for longer or more than was agreed.

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

import ipaddress
import json
import os
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import socket
from urllib.parse import urlsplit

from retriever.errors import UsageError
from retriever.settings import KEYS

OLLAMA_URL = "http://127.0.0.1:11434"


def ollama_url(setting: str, *, allow_remote: bool) -> str:
    """Return the server to ask: the one of the setting, else of OLLAMA_HOST, else the usual one on this machine.

    Scheme and port may be missing, and 0.0.0.0 means this machine. The rest is as in `server_url`.
    """
    url = (setting or os.environ.get("OLLAMA_HOST", "")).replace("0.0.0.0", "127.0.0.1", 1) or OLLAMA_URL
    if "://" not in url:
        has_port = ":" in url.rpartition("]")[2]
        url = f"http://{url}" if has_port else f"http://{url}:11434"
    return server_url(url, allow_remote=allow_remote)


def server_url(url: str, *, allow_remote: bool) -> str:
    """Return the URL without a closing slash.

    Raises:
        UsageError: it has no host, or a password, which would be logged; or it leads to another machine, and
            `allow_remote` is false.

    >>> server_url("https://example.com/v1/", allow_remote=True)
    'https://example.com/v1'
    >>> server_url("http://example.com/v1?key=secret", allow_remote=True)
    Traceback (most recent call last):
        ...
    retriever.errors.UsageError: a key, name or password in the address would end up in logs: leave it out
    >>> server_url("http://127.0.0.1:0", allow_remote=True)
    Traceback (most recent call last):
        ...
    retriever.errors.UsageError: 'http://127.0.0.1:0' is no address of a server: write it as http://HOST:PORT
    """
    if "@" in url or "?" in url:
        raise UsageError("a key, name or password in the address would end up in logs: leave it out")
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port of 99999
        is_server = False
    if not is_server or any(map(str.isspace, url)):
        raise UsageError(f"{url!r} is no address of a server: write it as http://HOST:PORT")
    if not (allow_remote or is_this_machine(url)):
        what = "is another machine, which would read questions and documents"
        raise UsageError(f"{url} {what}: set allow_remote")
    return url.rstrip("/")


def is_this_machine(url: str) -> bool:
    """Return whether a server's address (as `server_url` gives it) leads to this machine and to no other.

    >>> [is_this_machine(f"http://{host}:80") for host in ("127.0.0.2", "[::1]", "localhost", "10.0.0.1", "a.local")]
    [True, True, True, False, False]
    """
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_key(section: str, url: str) -> str:
    """Return the key for the server of a section, from its variable in KEYS, else OPENAI_API_KEY; empty without one.

    Raises:
        UsageError: it cannot be sent, or would travel to another machine unencrypted. No message has the key.
    """
    own = KEYS[section]
    name = own if own in os.environ else "OPENAI_API_KEY"
    key = os.environ.get(name, "").strip()
    if " " in key or not (key.isascii() and key.isprintable()):
        raise UsageError(f"{name} holds no key: it has blanks, or letters that no key has")
    if key and url.startswith("http:") and not is_this_machine(url):
        how = f"name an address with https, make a tunnel (ssh -L), or send none ({own}=)"
        raise UsageError(f"the key {name} would travel to {url} unencrypted: {how}")
    return key


# HTTP.

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


def seconds_until(end: float) -> float:
    """Return the seconds, above 0, until an answer must be complete, at a moment of time.monotonic(); OverdueError."""
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise OverdueError
    return seconds


@contextmanager
def open_reply(
    url: str, end: float, body: Mapping[str, object] | None = None, key: str = ""
) -> Iterator[tuple[int, Iterator[bytes]]]:
    """Yield the status of the reply to one request, a POST where it has a body, and the parts of its own body.

    All of it must have come by `end`. The key is sent to this URL alone; empty: none is sent. What fails is a
    ServedError, also while the parts are read.
    """
    parts = urlsplit(url)
    connect_s = min(CONNECT_S, seconds_until(end))
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
        with _translate_errors(end):
            sock.settimeout(seconds_until(end))
            content = None if body is None else json.dumps(body).encode()
            connection.request("POST" if content else "GET", parts.path, content, headers)
            response = connection.getresponse()
        with response:
            yield response.status, _read_parts(response, sock, end)


@contextmanager
def _translate_errors(end: float) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise OverdueError from error
    except (OSError, HTTPException, ValueError) as error:
        seconds_until(end)
        raise BrokenError(str(error)) from error


def _read_parts(response: HTTPResponse, sock: socket, end: float) -> Iterator[bytes]:
    received = 0
    with _translate_errors(end):
        # `read` would take all that comes after a chunk of the length -1.
        while part := response.read1(PART_BYTES):
            received += len(part)
            if received > MAX_BYTES:
                raise StrangeAnswerError(f"more than {MAX_BYTES:,} bytes")
            yield part
            sock.settimeout(seconds_until(end))
        seconds_until(end)  # what the deadline cut off may look complete
        if response.length:
            raise BrokenError(f"{response.length} bytes are missing")


def read_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    r"""Yield the lines of a body, as they come, without their ends.

    >>> list(read_lines([b"a\nb", b"c\r", b"d\n"]))
    [b'a', b'bc\rd', b'']
    """
    rest = b""
    for part in parts:
        # Lines end at a line feed alone: other characters that end lines may stand inside JSON.
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
    yield rest


def find_message(body: bytes) -> str:
    """Return what a server says of an error, wherever its JSON has it; else the whole text.

    >>> find_message(b'{"error": {"code": 5, "message": "no memory"}}'), find_message(b'{"message": "busy"}')
    ('no memory', 'busy')
    >>> find_message(b"Bad Gateway"), find_message(b'{"error": 5}'), find_message(b"[" * 99_999)[:2]
    ('Bad Gateway', '{"error": 5}', '[[')
    """
    text = body.decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        content = json.loads(text)
        for name in ("error", "message"):
            content = content.get(name) or content if isinstance(content, dict) else content
        if isinstance(content, str):
            return content
    return text


def one_line(message: object) -> str:
    r"""Return a server's message, or what it sent, as one printable line of at most 200 characters.

    >>> one_line(b"no\n\x07 memory"), len(one_line("x" * 201))
    ('no  memory', 200)
    """
    if isinstance(message, bytes):
        message = message[:1000].decode("utf-8", "replace")
    return "".join(filter(str.isprintable, " ".join(str(message).split())))[:200]
