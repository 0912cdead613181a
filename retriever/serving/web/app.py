"""The application: its addresses, how errors look, and the headers of every answer."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from retriever.display.json import add_version
from retriever.errors import (
    NotReadyError,
    ParametersError,
    QuestionError,
    RetrieverError,
    ScopeError,
    UnknownReferenceError,
    UsageError,
)
from retriever.serving.web.json_api import list_endpoints
from retriever.serving.web.pages import Pages
from retriever.serving.web.pictures import POLICY as PICTURE_POLICY
from retriever.serving.web.site import STATIC, Site, read_query

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from retriever.serving.pool import ServedIndex

Result = TypeVar("Result")

# Threads that wait for a retriever, or work for one; further requests wait without a thread, and what needs no index is
# answered beside them at once.
SEARCHES_AT_ONCE = 4
PICTURE_SECONDS = 60  # a document and its pictures are edited together

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
NO_SUCH_PAGE = "there is no such page; / asks a question"


def make_web_app(library: "ServedIndex") -> Starlette:
    """Return the application of one index: its pages, its JSON API, and the pictures of its documents."""
    site = Site(library)
    pages, searches = Pages(site), CapacityLimiter(SEARCHES_AT_ONCE)

    async def run(work: Callable[..., Result], *arguments: object) -> Result:
        return await to_thread.run_sync(work, *arguments, limiter=searches)

    def route_page(path: str, make: Callable[[bytes], str]) -> Route:
        async def answer(request: Request) -> Response:
            return HTMLResponse(await run(make, request.scope["query_string"]))

        return Route(path, answer)

    def route_json(path: str, model: type[Any], find: Callable[[Any], dict[str, Any]]) -> Route:
        async def answer(request: Request) -> Response:
            return AsciiJson(add_version(await run(find, read_query(request.scope["query_string"], model))))

        return Route(path, answer)

    async def answer_in_pieces(request: Request) -> Response:
        pieces = await run(pages.answer, request.scope["query_string"])
        return StreamingResponse(pieces, media_type="text/html", headers={"X-Accel-Buffering": "no"})

    async def answer_picture(request: Request) -> Response:
        content, media_type = await run(pages.picture, request.scope["query_string"])
        headers = {"Cache-Control": f"private, max-age={PICTURE_SECONDS}", "Content-Security-Policy": PICTURE_POLICY}
        return Response(content, media_type=media_type, headers=headers)

    async def answer_failure(request: Request, error: Exception) -> Response:
        return await run(describe_failure, pages, request, error)

    failures: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
        RetrieverError: answer_failure,
        HTTPException: answer_failure,
    }
    routes = [
        route_page("/", pages.ask),
        route_page("/read", pages.read),
        Route("/answer", answer_in_pieces),
        *(route_json(*endpoint) for endpoint in list_endpoints(site)),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/picture", answer_picture),
    ]
    return Starlette(routes=routes, exception_handlers=failures, middleware=[Middleware(_WithHeaders)])


class AsciiJson(JSONResponse):
    """JSON in ASCII: a file name that is not UTF-8 holds lone surrogates, which only an escape can carry."""

    def render(self, content: object) -> bytes:
        return json.dumps(content, allow_nan=False).encode("ascii")


def describe_failure(pages: Pages, request: Request, error: Exception) -> Response:
    """Return what went wrong, as JSON below /api and as a page elsewhere."""
    message, near = str(error), tuple[str, ...]()
    headers: Mapping[str, str] | None = None
    if isinstance(error, HTTPException):  # of Starlette: its messages do not say what to do
        status, headers = error.status_code, error.headers
        message = NO_SUCH_PAGE if status == 404 else error.detail.lower()
    elif isinstance(error, ParametersError | QuestionError) and not isinstance(error, ScopeError):
        status = 422
    else:
        status = 404 if isinstance(error, UsageError) else 503
    if request.url.path.startswith("/api/"):
        return AsciiJson({"error": message}, status, headers)
    query = request.scope["query_string"]
    if isinstance(error, NotReadyError):
        return HTMLResponse(pages.waiting(query), status)
    if isinstance(error, UnknownReferenceError) and error.near:
        message, near = f"{error.message}; did you mean:", error.near
    return HTMLResponse(pages.failure(message, status, near, query), status, headers)


class _WithHeaders:
    def __init__(self, app: "ASGIApp") -> None:
        self.app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        async def with_headers(message: "Message") -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)  # a picture has a stricter policy of its own
                # A browser keeps what only a new version changes, and asks whether there is one.
                headers.setdefault("Cache-Control", "no-cache" if "etag" in headers else "no-store")
            await send(message)

        await self.app(scope, receive, with_headers)
