"""Listen: who may ask, a socket, the application, and a server that ends on a signal.

A page in a browser can send requests to this machine, and with DNS rebinding under a name of its own. So the Host
header must name this server (Starlette's TrustedHostMiddleware), and no page of another place may ask: the rules are
those of Go's `http.CrossOriginProtection`, for reading as well. Elsewhere than on loopback, or when one is set, a
bearer token is needed too.
"""

import hmac
import logging
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retriever.errors import RetrieverError, ServingError, UsageError
from retriever.served.transport import is_this_machine
from retriever.serving import ServedIndex

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
# Asked by what starts and watches servers, under any name and without a token; it says nothing of the documents.
PROBE = "/readyz"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: browsers then call the origin of this page's own forms null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class ServerAddress:
    """Where a server listens, and the token that it asks for.

    >>> ServerAddress("::1", 8470).url, ServerAddress("::1", 8470).names
    ('http://[::1]:8470', ['[::1]', '127.0.0.1', 'localhost', '[::1]'])
    >>> ServerAddress("Docs.example", 80).names
    ['docs.example']
    """

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
    """An ASGI application that lets in what may come in; the application behind it never sees what is refused.

    It gives every answer the headers that this has not set itself: a picture has a stricter policy of its own.

    >>> from starlette.responses import PlainTextResponse
    >>> from starlette.testclient import TestClient
    >>> def ask(headers={}):
    ...     guard = RequestGuard(PlainTextResponse("Hello", headers=headers), ServerAddress("127.0.0.1", 8470))
    ...     return TestClient(guard).get("http://localhost:8470/").headers
    >>> ask()["cache-control"], ask({"ETag": "1"})["cache-control"], ask({"Cache-Control": "private"})["cache-control"]
    ('no-store', 'no-cache', 'private')
    >>> ask()["x-frame-options"], ask({"X-Frame-Options": "SAMEORIGIN"})["x-frame-options"]
    ('DENY', 'SAMEORIGIN')
    """

    def __init__(self, app: ASGIApp, address: ServerAddress) -> None:
        self._app = app
        self._token = address.token.encode()
        self._named = TrustedHostMiddleware(self._check, address.names, www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                # A browser keeps what only a new version changes, and asks whether there is one.
                headers.setdefault("Cache-Control", "no-cache" if "etag" in headers else "no-store")
            await send(message)

        is_free = scope["type"] == "lifespan" or scope["path"] == PROBE
        await (self._app if is_free else self._named)(scope, receive, send_with_headers)

    async def _check(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, app = Headers(scope=scope), self._app
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if is_from_elsewhere(scope["method"], headers):
            app = JSONResponse({"error": "requests from pages of other places are not answered"}, 403)
        elif self._token and not (scheme.lower() == "bearer" and hmac.compare_digest(given.encode(), self._token)):
            message = "a bearer token is needed: Authorization: Bearer TOKEN"
            app = JSONResponse({"error": message}, 401, {"WWW-Authenticate": "Bearer"})
        await app(scope, receive, send)


def is_from_elsewhere(method: str, headers: Headers) -> bool:
    """Return whether a page of another site sends this, unless it is a link that a person follows to here.

    >>> link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    >>> is_from_elsewhere("GET", Headers(link)), is_from_elsewhere("POST", Headers(link))
    (False, True)
    >>> is_from_elsewhere("GET", Headers({**link, "sec-fetch-dest": "iframe"}))
    True
    >>> is_from_elsewhere("GET", Headers({"origin": "http://localhost:1", "host": "localhost:2"}))
    True
    >>> is_from_elsewhere("GET", Headers({"host": "localhost:2"}))
    False
    """
    if site := headers.get("sec-fetch-site"):
        how = method, headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
        return site not in ("same-origin", "none") and how != ("GET", "navigate", "document")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")


def bracket(host: str) -> str:
    """Return the host as it is written in a URL: an IPv6 address in brackets.

    >>> bracket("::1"), bracket("localhost")
    ('[::1]', 'localhost')
    """
    return f"[{host}]" if ":" in host else host


MIN_TOKEN_LENGTH = 16
MAX_CONNECTIONS = 256  # further ones are answered with 503; systems let a process open 1,024 files
SHUTDOWN_SECONDS = 8  # for what is in flight when the process has to end; containers are given 10 s
EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # every address of the machine: no request names one of them

log = logging.getLogger(__name__)


def check_host(host: str, token: str) -> None:
    """Raise UsageError where the host is every address, or other machines can reach it and there is no token."""
    if host in EVERYWHERE:
        raise UsageError(f"--host {host!r} is every address of this machine; name the one that clients will use")
    if not (token or is_this_machine(f"http://{bracket(host)}")):
        raise UsageError(
            f"--host {host} can be reached from other machines, so a token is needed: add --token-file FILE "
            "(it is written when it does not exist)"
        )


def open_token(path: Path) -> str:
    """Return the bearer token in a file; write a new one, readable by its owner alone, where there is no such file.

    Raises:
        UsageError: it cannot be read or written, others can read it, or it holds no token.
    """
    try:
        if not path.exists():
            with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
                file.write(f"{token_urlsafe(32)}\n")
        is_shared = os.name == "posix" and path.stat().st_mode & 0o077
        token = path.read_text("utf-8", "replace").strip()
    except OSError as error:
        raise UsageError(f"--token-file {path} cannot be read: {error.strerror or error}") from error
    if is_shared:
        raise UsageError(f"others can read {path}; run: chmod 600 {path}")
    if len(token) < MIN_TOKEN_LENGTH or not (token.isascii() and token.isprintable()) or " " in token:
        raise UsageError(f"{path} holds no token: one line of at least {MIN_TOKEN_LENGTH} ASCII characters, no spaces")
    return token


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any free one. ServingError when that is not possible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((str(address[0]), port), family=family)
    except OSError as error:
        why = f"cannot listen at {host}, port {port}: {error.strerror}"
        raise ServingError(f"{why}; choose another --host or --port (0: any free one)") from error


def make_probe(index: ServedIndex) -> Route:
    """Return the probe for monitoring: whether questions can be answered now."""

    def answer(_: Request) -> Response:
        try:
            index.check_ready()
        except RetrieverError as error:
            log.info("not ready: %s", error)
            return JSONResponse({"error": "it cannot answer now; its log says why"}, 503)
        return JSONResponse({"status": "ok"})

    return Route(PROBE, answer)


def make_application(index: ServedIndex, *, mcp: bool, web: bool) -> Starlette:
    """Return the application to put behind the guard: MCP at /mcp, the web page at everything else."""
    app = Starlette()
    if mcp:
        from retriever.serving.mcp_server import make_mcp_app

        app = make_mcp_app(index)
    app.router.routes.append(make_probe(index))
    if web:
        from retriever.serving.web import make_web_app

        app.router.routes.append(Mount("/", make_web_app(index)))
    return app


def run_server(app: ASGIApp, listener: socket.socket, address: ServerAddress) -> None:
    """Serve the application behind the guard until SIGINT or SIGTERM; what is in flight is answered first."""
    # uvicorn raises the signal again when all is answered, or SHUTDOWN_SECONDS are over: then a thread may still wait
    # for a database, and would keep the process. SIGTERM is how a server is ended, and no failure.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    config = uvicorn.Config(
        RequestGuard(app, address),
        http="h11",  # the stricter parser: ChromaDB brings another one along
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])
