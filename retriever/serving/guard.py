"""The request guard: what stands before everything that listens, decides who may ask, and bounds what that costs.

A page in a browser can send requests to this machine, and with DNS rebinding under a name of its own. So the Host
header must be one of our own names with our own port, to the letter, and an Origin must be that same place: no prefix,
no pattern, no answer to a preflight. Elsewhere than on loopback, or when one is set, a bearer token is needed as well.
Behind a proxy, the address at which clients reach that is one of our own.
"""

import asyncio
import hmac
import ipaddress
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

# As ASGI gives them: the names in lower case.
Headers = Iterable[tuple[bytes, bytes]]

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
# OPTIONS is not among them: only pages of other origins ask for a preflight.
METHODS = frozenset({"GET", "HEAD", "POST", "DELETE"})
# Asked by what starts and watches servers, under any name and without a token; they say nothing of the documents.
PROBES = frozenset({b"/healthz", b"/readyz"})
# Browsers leave this port out of Host and Origin.
HTTP_PORT = 80
# Added where the application has not set them.
ON_EVERY_ANSWER = {
    b"x-content-type-options": b"nosniff",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"DENY",
}


@dataclass(frozen=True, slots=True)
class ServerAddress:
    host: str  # the address or name that it is bound to
    port: int
    token: str = ""  # the bearer token that every request must carry; empty: none is needed
    public_url: str = ""  # where clients reach the proxy before it: scheme, host and port in lower case; empty: none

    @property
    def authorities(self) -> frozenset[str]:
        """Every Host header that means this server, in lower case."""
        own = bracket(self.host.lower())
        names = {*LOOPBACK_NAMES, own} if is_loopback(self.host) else {own}
        public = {self.public_url.partition("://")[2]} - {""}
        named = {f"{name}:{self.port}" for name in names} | (names if self.port == HTTP_PORT else set())
        return frozenset(named | public)

    def origin(self, host: str) -> str:
        """The Origin of our own pages, where the Host header is this one."""
        is_public = host.lower() == self.public_url.partition("://")[2]
        return self.public_url if is_public else f"http://{host}".lower()

    @property
    def url(self) -> str:
        """Where a client on this machine finds it."""
        return f"http://{bracket(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class Limits:
    header_bytes: int = 16_384  # all names and values together
    headers: int = 64
    body_bytes: int = 1_000_000
    stall_seconds: float = 2.0  # without a byte of a request that has begun
    body_seconds: float = 10.0  # for the whole body to arrive
    answer_bytes: int = 4_000_000
    seconds: float = 150.0  # for the whole answer: a language model that is loaded first may take 90
    at_once: int = 64  # whole requests that are being answered at the same time; for others it is told to come again


DEFAULT_LIMITS = Limits()
UNBUFFERED = (b"x-accel-buffering", b"no")  # of an answer that comes in pieces, as servers before this one know it too


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    reason: str  # for the client: nothing in it comes from this machine
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def send(self, send: "Send") -> None:
        body = json.dumps({"error": self.reason}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),  # what follows may be the body that was not read
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": _add_defaults(headers)})
        await send({"type": "http.response.body", "body": body})


WRONG_HOST = Refusal(421, "the Host header must name this server and its port exactly")
NO_HOST = Refusal(400, "exactly one Host header is needed")
WRONG_TARGET = Refusal(400, "the request target must be a path")
WRONG_METHOD = Refusal(405, "this method is not served", ((b"allow", ", ".join(sorted(METHODS)).encode()),))
WRONG_ORIGIN = Refusal(403, "requests from pages of other places are not answered")
NO_TOKEN = Refusal(401, "a bearer token is needed: Authorization: Bearer TOKEN", ((b"www-authenticate", b"Bearer"),))
LARGE_HEADERS = Refusal(431, "the headers are too large")
TWO_LENGTHS = Refusal(400, "either Content-Length or Transfer-Encoding is needed, not both")
LARGE_BODY = Refusal(413, "the request body is too large")
LATE_BODY = Refusal(408, "the request body did not arrive in time")
BUSY = Refusal(503, "too many requests are being answered; ask again in a moment", ((b"retry-after", b"1"),))
LARGE_ANSWER = Refusal(500, "the answer is too large; ask for less")
LATE_ANSWER = Refusal(504, "the answer took too long")
FAILED = Refusal(500, "this is a bug; the server's standard error says more")


class RequestGuard:
    """An ASGI application that lets in what may come in, and bounds what it costs."""

    # A request takes one of the `at_once` places only from the end of its body to the end of the application's work: a
    # client that is slow to send or to read keeps no other one out.

    def __init__(self, app: "ASGIApp", address: ServerAddress, limits: Limits = DEFAULT_LIMITS) -> None:
        self.app = app
        self.address = address
        self.limits = limits
        self._at_work = 0

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answers a request, or refuses it; the application never sees what is refused."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":
            return
        target = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogateescape")
        refusal = find_refusal(scope["method"], target, scope["headers"], self.address, self.limits)
        if refusal is not None:
            await refusal.send(send)
            return
        body = await read_body(receive, self.limits)
        if body is None:
            return
        answer = body if isinstance(body, Refusal) else await self._answer(scope, body, receive, send)
        if isinstance(answer, Refusal):
            await answer.send(send)
            return
        for message in answer:
            await send(message)

    async def _answer(self, scope: "Scope", body: bytes, receive: "Receive", send: "Send") -> "list[Message] | Refusal":
        """What the application sends, whole, so that it can still be refused.

        What the application marks to come in pieces is sent at once, and cut off where it would be refused.
        """
        if self._at_work >= self.limits.at_once:
            return BUSY
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        answer: list[Message] = []
        size, is_streamed = 0, False

        async def replay() -> "Message":
            return pending.pop() if pending else await receive()

        async def collect(message: "Message") -> None:
            nonlocal size, is_streamed
            if message["type"] == "http.response.start":
                is_streamed = UNBUFFERED in message.get("headers", ())
                message = {**message, "headers": _add_defaults(message.get("headers", ()))}
            size += len(message.get("body", b""))
            if size > self.limits.answer_bytes:
                raise _LargeAnswerError
            if is_streamed:
                await send(message)
            else:
                answer.append(message)

        self._at_work += 1
        deadline = asyncio.timeout(self.limits.seconds)
        try:
            async with deadline:
                await self.app(scope, replay, collect)
                return answer
        except _LargeAnswerError:
            refusal = LARGE_ANSWER
        except Exception as error:
            refusal = LATE_ANSWER if isinstance(error, TimeoutError) and deadline.expired() else FAILED
            if refusal is FAILED:
                log.exception("a request failed")
        finally:
            self._at_work -= 1
        return [] if is_streamed else refusal


class _LargeAnswerError(Exception):
    """The application says more than may be said."""


async def read_body(receive: "Receive", limits: Limits) -> bytes | Refusal | None:
    """The whole body; None when the client has gone."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            while True:
                async with asyncio.timeout(limits.stall_seconds):
                    message = await receive()
                if message["type"] != "http.request":
                    return None
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body_bytes:
                    return LARGE_BODY
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        return LATE_BODY


def _add_defaults(headers: Headers) -> list[tuple[bytes, bytes]]:
    given = [(name.lower(), value) for name, value in headers]
    names = {name for name, _ in given}
    return given + [(name, value) for name, value in ON_EVERY_ANSWER.items() if name not in names]


def is_loopback(host: str) -> bool:
    """Whether a host to bind to can be reached from this machine alone."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bracket(host: str) -> str:
    """The host as it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def find_refusal(
    method: str, target: bytes, headers: Headers, address: ServerAddress, limits: Limits
) -> Refusal | None:
    """Why a request is not let in, by its first lines alone; None when it is. `target` has no query."""
    given = list(headers)
    if len(given) > limits.headers or sum(len(name) + len(value) for name, value in given) > limits.header_bytes:
        return LARGE_HEADERS
    if not target.startswith(b"/"):  # an absolute URI would name another host than the header does
        return WRONG_TARGET
    is_probe = method in {"GET", "HEAD"} and target in PROBES
    return (
        (None if is_probe else refuse_host(read_header(given, b"host"), address))
        or (None if method in METHODS else WRONG_METHOD)
        or refuse_origin(given, method, address)
        or (None if is_probe else refuse_token(read_header(given, b"authorization"), address.token))
        or refuse_length(
            read_header(given, b"content-length"), read_header(given, b"transfer-encoding"), limits.body_bytes
        )
    )


def read_header(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def refuse_host(hosts: list[str], address: ServerAddress) -> Refusal | None:
    """The Host header must be one of ours to the letter; case alone does not matter."""
    if len(hosts) != 1:
        return NO_HOST
    return None if hosts[0].lower() in address.authorities else WRONG_HOST


def refuse_origin(headers: Headers, method: str, address: ServerAddress) -> Refusal | None:
    """An Origin must be the place that Host names; programs send none."""
    # A browser sends no Origin with what a page merely embeds; there Sec-Fetch-Site says it. A link that somebody
    # follows from another page is let in: the page that it stands on does not see the answer.
    origins = read_header(headers, b"origin")
    if origins:
        own = [address.origin(host) for host in read_header(headers, b"host")]
        return None if [origin.lower() for origin in origins] == own else WRONG_ORIGIN
    if not set(read_header(headers, b"sec-fetch-site")) & {"cross-site", "same-site"}:
        return None
    follows_link = read_header(headers, b"sec-fetch-mode") == ["navigate"] and read_header(
        headers, b"sec-fetch-dest"
    ) == ["document"]
    return None if follows_link and method == "GET" else WRONG_ORIGIN


def refuse_token(authorizations: list[str], token: str) -> Refusal | None:
    """The token must be the one that was set, compared in constant time."""
    if not token:
        return None
    scheme, _, given = authorizations[0].partition(" ") if len(authorizations) == 1 else ("", "", "")
    same = hmac.compare_digest(given.encode("latin-1"), token.encode("latin-1"))
    return None if same and scheme.lower() == "bearer" else NO_TOKEN


def refuse_length(lengths: list[str], encodings: list[str], most: int) -> Refusal | None:
    """A body that is announced as too large is not read; one that is not announced is counted as it comes."""
    if lengths and encodings:  # where programs differ in which of the two they believe, one request passes for two
        return TWO_LENGTHS
    return LARGE_BODY if any(not length.isdigit() or int(length[:20]) > most for length in lengths) else None
