"""The request guard: who may ask what listens here.

A page in a browser can send requests to this machine, and with DNS rebinding under a name of its own. So the Host
header must name this server (Starlette's TrustedHostMiddleware), and no page of another place may ask: the rules are
those of Go's `http.CrossOriginProtection`, for reading as well. Elsewhere than on loopback, or when one is set, a
bearer token is needed too.
"""

import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse

from retriever.served.address import is_this_machine

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
# Asked by what starts and watches servers, under any name and without a token; they say nothing of the documents.
PROBES = frozenset({"/healthz", "/readyz"})


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server listens, and the token that it asks for."""

    host: str  # the address or name that it is bound to
    port: int
    token: str = ""  # the bearer token that every request must carry; empty: none is needed

    @property
    def names(self) -> list[str]:
        """Return every host that means this server, in lower case, without a port."""
        own = bracket(self.host.lower())
        return [own, *LOOPBACK_NAMES] if is_this_machine(self.url) else [own]

    @property
    def url(self) -> str:
        """Return where a client on this machine finds it."""
        return f"http://{bracket(self.host)}:{self.port}"


class RequestGuard:
    """An ASGI application that lets in what may come in; the application behind it never sees what is refused."""

    def __init__(self, app: "ASGIApp", address: ServerAddress) -> None:
        self._app = app
        self._token = address.token
        self._named = TrustedHostMiddleware(self._check, address.names, www_redirect=False)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer a request, or refuse it."""
        is_free = scope["type"] == "lifespan" or scope["path"] in PROBES
        await (self._app if is_free else self._named)(scope, receive, send)

    async def _check(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        headers, app = Headers(scope=scope), self._app
        if is_from_elsewhere(scope["method"], headers):
            app = JSONResponse({"error": "requests from pages of other places are not answered"}, 403)
        elif self._token and not has_token(headers, self._token):
            message = "a bearer token is needed: Authorization: Bearer TOKEN"
            app = JSONResponse({"error": message}, 401, {"WWW-Authenticate": "Bearer"})
        await app(scope, receive, send)


def is_from_elsewhere(method: str, headers: Headers) -> bool:
    """Return whether a page of another place sends this, unless it is a link that somebody follows to here."""
    if site := headers.get("sec-fetch-site"):
        how = method, headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
        return site not in ("same-origin", "none") and how != ("GET", "navigate", "document")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")


def has_token(headers: Headers, token: str) -> bool:
    """Return whether a request carries the bearer token."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.encode(), token.encode())


def bracket(host: str) -> str:
    """Return the host as it is written in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host
