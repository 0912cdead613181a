"""The request guard: who may ask what listens here.

A page in a browser can send requests to this machine, and with DNS rebinding under a name of its own. So the Host
header must name this server (Starlette's TrustedHostMiddleware), and an Origin must be that same place: no pattern,
and no answer to a preflight. Elsewhere than on loopback, or when one is set, a bearer token is needed as well. Behind a
proxy, the address at which clients reach that is one of our own.
"""

import hmac
import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.middleware.trustedhost import TrustedHostMiddleware

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

# As ASGI gives them: the names in lower case.
Headers = Iterable[tuple[bytes, bytes]]

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
# Asked by what starts and watches servers, under any name and without a token; they say nothing of the documents.
PROBES = frozenset({b"/healthz", b"/readyz"})
HTTP_PORT = 80  # browsers leave it out of Host and Origin
MAX_BODY_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server listens, under which names clients may ask it, and by which token."""

    host: str  # the address or name that it is bound to
    port: int
    token: str = ""  # the bearer token that every request must carry; empty: none is needed
    public_url: str = ""  # where clients reach the proxy before it: scheme, host and port in lower case; empty: none

    @property
    def names(self) -> list[str]:
        """Every host that means this server, in lower case, without a port."""
        public = urlsplit(self.public_url).hostname
        return sorted(self._own_names | ({public} if public else set()))

    @property
    def origins(self) -> dict[str, str]:
        """The Origin of our own pages by the Host header that they are asked with, in lower case."""
        names = self._own_names
        hosts = {f"{name}:{self.port}" for name in names} | (names if self.port == HTTP_PORT else set())
        public = {urlsplit(self.public_url).netloc: self.public_url} if self.public_url else {}
        return {host: f"http://{host}" for host in hosts} | public

    @property
    def _own_names(self) -> set[str]:
        own = bracket(self.host.lower())
        return {*LOOPBACK_NAMES, own} if is_loopback(self.host) else {own}

    @property
    def url(self) -> str:
        """Where a client on this machine finds it."""
        return f"http://{bracket(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not let in, as its sender is told: nothing in it comes from this machine."""

    status: int
    reason: str
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def send(self, send: "Send") -> None:
        """Answer with it, and close the connection: what follows may be a body that was not read."""
        headers = [(b"content-type", b"application/json"), (b"connection", b"close"), *self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps({"error": self.reason}).encode()})


WRONG_ORIGIN = Refusal(403, "requests from pages of other places are not answered")
NO_TOKEN = Refusal(401, "a bearer token is needed: Authorization: Bearer TOKEN", ((b"www-authenticate", b"Bearer"),))
LARGE_BODY = Refusal(413, f"a request body needs a Content-Length of at most {MAX_BODY_BYTES:,} bytes")


class RequestGuard:
    """An ASGI application that lets in what may come in."""

    def __init__(self, app: "ASGIApp", address: ServerAddress) -> None:
        self._app = app
        self._address = address
        self._named = TrustedHostMiddleware(self._check, address.names, www_redirect=False)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer a request, or refuse it; the application never sees what is refused."""
        is_probe = scope["type"] == "http" and scope["path"].encode() in PROBES and scope["method"] in ("GET", "HEAD")
        await (self._check if is_probe or scope["type"] == "lifespan" else self._named)(scope, receive, send)

    async def _check(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        refusal = None
        if scope["type"] != "lifespan":
            token = "" if scope["path"].encode() in PROBES else self._address.token
            refusal = find_refusal(scope["method"], list(scope["headers"]), self._address.origins, token)
        await (refusal.send(send) if refusal else self._app(scope, receive, send))


def find_refusal(method: str, headers: Headers, own_origins: dict[str, str], token: str) -> Refusal | None:
    """Return why a request is not let in, by its Origin, its token and the length of its body; None when it is."""
    # A browser sends no Origin with what a page merely embeds; there Sec-Fetch-Site says it. A link that somebody
    # follows from another page is let in: the page that it is on does not see the answer.
    if origins := read_header(headers, b"origin"):
        own = [own_origins.get(host.lower()) for host in read_header(headers, b"host")]
        if [origin.lower() for origin in origins] != own:
            return WRONG_ORIGIN
    elif {"cross-site", "same-site"} & set(read_header(headers, b"sec-fetch-site")):
        how = read_header(headers, b"sec-fetch-mode") + read_header(headers, b"sec-fetch-dest")
        if method != "GET" or how != ["navigate", "document"]:
            return WRONG_ORIGIN
    if token:
        given = [value.partition(" ") for value in read_header(headers, b"authorization")]
        if not (
            len(given) == 1
            and given[0][0].lower() == "bearer"
            and hmac.compare_digest(given[0][2].encode("latin-1"), token.encode("latin-1"))
        ):
            return NO_TOKEN
    lengths = read_header(headers, b"content-length")
    is_large = any(not length.isdigit() or int(length[:20]) > MAX_BODY_BYTES for length in lengths)
    return LARGE_BODY if is_large or read_header(headers, b"transfer-encoding") else None


def read_header(headers: Headers, name: bytes) -> list[str]:
    """Return every value of a header."""
    return [value.decode("latin-1") for key, value in headers if key == name]


def is_loopback(host: str) -> bool:
    """Return whether a host to bind to can be reached from this machine alone."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bracket(host: str) -> str:
    """Return the host as it is written in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host
