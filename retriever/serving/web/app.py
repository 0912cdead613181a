"""The application: its addresses, how errors look, and the headers of every answer.

Searches run in threads of their own, few at a time; what needs no index is answered beside them at once.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, quote

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from retriever.display.editors import EDITOR_TEMPLATES
from retriever.errors import ParametersError, QuestionError, RetrieverError, UsageError
from retriever.serving.web.api import Endpoint, Parameters, describe_api, endpoints, read_parameters
from retriever.serving.web.pages import Pages
from retriever.serving.web.site import STATIC, THEMES, Preferences, Site

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from retriever.serving.pool import ServedIndex

SEARCHES_AT_ONCE = 4  # threads that wait for a retriever, or work for one; further requests wait without a thread
YEAR_SECONDS = 31_536_000

POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: browsers then call the origin of this page's own forms null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
STATIC_TYPES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}

Result = TypeVar("Result")


def web_app(library: "ServedIndex") -> Starlette:
    """The page at `/` and the API at `/api`, of one library; whoever mounts it closes the library."""
    site = Site(library)
    pages = Pages(site)
    limiter = CapacityLimiter(SEARCHES_AT_ONCE)
    routes = [*_page_routes(pages, limiter), *_api_routes(endpoints(site), limiter)]
    routes.append(Route("/preferences", _preferences, methods=["POST"]))
    routes += [Route(f"/static/{name}", _static(name)) for name in STATIC_TYPES]
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
        RetrieverError: _failure(pages),
        HTTPException: _failure(pages),
    }
    return Starlette(routes=routes, exception_handlers=handlers, middleware=[Middleware(_WithHeaders)])


def _page_routes(pages: Pages, limiter: CapacityLimiter) -> list[Route]:
    def route(path: str, make: Callable[[bytes, Preferences], str]) -> Route:
        async def answer(request: Request) -> Response:
            return HTMLResponse(
                await to_thread.run_sync(
                    make, request.scope["query_string"], read_preferences(request), limiter=limiter
                )
            )

        return Route(path, answer)

    return [route("/", pages.ask), route("/read", pages.read), route("/tree", pages.tree)]


def _api_routes(all_endpoints: Sequence[Endpoint[Any]], limiter: CapacityLimiter) -> list[Route]:
    described_api = describe_api(all_endpoints)

    def route(endpoint: Endpoint[Any]) -> Route:
        async def answer(request: Request) -> Response:
            values = read_parameters(request.scope["query_string"], endpoint.parameters)
            return _json(await to_thread.run_sync(endpoint.answer, values, limiter=limiter))

        return Route(endpoint.path, answer)

    async def health(request: Request) -> Response:
        read_parameters(request.scope["query_string"], Parameters)
        return _json({"status": "ok"})

    async def description(request: Request) -> Response:
        return _json(described_api)

    return [*map(route, all_endpoints), Route("/health", health), Route("/openapi.json", description)]


def _json(content: dict[str, Any], status: int = 200) -> Response:
    """ASCII: a file name that is not UTF-8 holds lone surrogates, which only an escape can carry."""
    return Response(json.dumps(content, allow_nan=False), status, media_type="application/json")


def _static(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = (STATIC / name).read_bytes()
    headers = {"Cache-Control": f"public, max-age={YEAR_SECONDS}, immutable"}

    async def answer(request: Request) -> Response:
        return Response(content, media_type=STATIC_TYPES[name], headers=headers)

    return answer


def read_preferences(request: Request) -> Preferences:
    """What the cookies say, where they name a theme or an editor that there is."""
    theme, editor = (request.cookies.get(name, "") for name in ("theme", "editor"))
    known = Preferences()
    return Preferences(
        theme if theme in THEMES else known.theme, editor if editor in EDITOR_TEMPLATES else known.editor
    )


async def _preferences(request: Request) -> Response:
    """Keeps what was chosen, and goes back to where it was chosen."""
    given = parse_qs((await request.body()).decode("latin-1"))
    back = given.get("back", ["/"])[0]
    is_here = back.startswith("/") and not back.startswith(("//", "/\\"))
    response = RedirectResponse(quote(back, safe="/?&=%") if is_here else "/", 303)
    for name, known in (("theme", THEMES), ("editor", EDITOR_TEMPLATES)):
        chosen = given.get(name, [""])[0]
        if chosen in known:
            response.set_cookie(name, chosen, max_age=YEAR_SECONDS, httponly=True, samesite="lax")
    return response


def _failure(pages: Pages) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        status, message = find_status(error), _message(error)
        headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
        if request.url.path.startswith("/api/") or request.url.path in ("/health", "/openapi.json"):
            given = {"parameters": error.mistakes} if isinstance(error, ParametersError) else {}
            response = _json({"error": message, **given}, status)
        else:
            response = HTMLResponse(pages.failure(message, read_preferences(request)), status)
        response.headers.update(headers)
        return response

    return answer


def find_status(error: Exception) -> int:
    """The HTTP status that an error is answered with."""
    if isinstance(error, HTTPException):
        return error.status_code
    if isinstance(error, ParametersError | QuestionError):
        return 422
    return 404 if isinstance(error, UsageError) else 503


def _message(error: Exception) -> str:
    if not isinstance(error, HTTPException):
        return str(error)
    known = {404: "there is no such page; / asks a question, /openapi.json describes the API"}
    return known.get(error.status_code, error.detail.lower())


class _WithHeaders:
    """Puts the headers on every answer."""

    def __init__(self, app: "ASGIApp") -> None:
        self.app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        async def with_headers(message: "Message") -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self.app(scope, receive, with_headers)
