"""The application: its addresses, how errors look, and the headers of every answer.

Searches run in threads of their own, few at a time; what needs no index is answered beside them at once.
"""

import json
from collections.abc import Awaitable, Callable
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
from retriever.serving.web.json_api import Endpoint, Parameters, describe_api, list_endpoints, read_parameters
from retriever.serving.web.pages import Pages
from retriever.serving.web.pictures import SVG_POLICY, SVG_TYPE
from retriever.serving.web.site import STATIC, Site

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from retriever.serving.pool import ServedIndex

Result = TypeVar("Result")

# Threads that wait for a retriever, or work for one; further requests wait without a thread.
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
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
NO_SUCH_PAGE = "there is no such page; / asks a question, /openapi.json describes the API"


def make_web_app(library: "ServedIndex") -> Starlette:
    handlers = Handlers(Site(library))
    pages = handlers.pages
    routes = [
        handlers.route_page("/", pages.ask),
        handlers.route_page("/read", pages.read),
        Route("/answer", handlers.answer_in_pieces),
        *map(handlers.route_endpoint, handlers.endpoints),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/picture", handlers.answer_picture),
        Route("/api/progress", handlers.answer_progress),
        Route("/openapi.json", handlers.answer_description),
    ]
    failures: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
        RetrieverError: handlers.answer_failure,
        HTTPException: handlers.answer_failure,
    }
    return Starlette(routes=routes, exception_handlers=failures, middleware=[Middleware(_WithHeaders)])


class AsciiJson(JSONResponse):
    """JSON in ASCII: a file name that is not UTF-8 holds lone surrogates, which only an escape can carry."""

    def render(self, content: object) -> bytes:
        return json.dumps(content, allow_nan=False).encode("ascii")


class Handlers:
    def __init__(self, site: Site) -> None:
        self._site = site
        self.pages = Pages(site)
        self.endpoints = list_endpoints(site)
        self._description = describe_api(self.endpoints, site.profiles)
        # Threads of their own for searches: what needs no index is answered beside them.
        self._searches = CapacityLimiter(SEARCHES_AT_ONCE)

    async def _run(self, work: Callable[..., Result], *arguments: object) -> Result:
        return await to_thread.run_sync(work, *arguments, limiter=self._searches)

    def route_page(self, path: str, make: Callable[[bytes], str]) -> Route:
        async def answer(request: Request) -> Response:
            return HTMLResponse(await self._run(make, request.scope["query_string"]))

        return Route(path, answer)

    async def answer_in_pieces(self, request: Request) -> Response:
        pieces = await self._run(self.pages.answer, request.scope["query_string"])
        return StreamingResponse(pieces, media_type="text/html", headers={"X-Accel-Buffering": "no"})

    def route_endpoint(self, endpoint: Endpoint[Any]) -> Route:
        async def answer(request: Request) -> Response:
            given = read_parameters(request.scope["query_string"], endpoint.parameters, self._site.profiles)
            return AsciiJson(add_version(await self._run(endpoint.answer, given)))

        return Route(endpoint.path, answer)

    async def answer_picture(self, request: Request) -> Response:
        picture = await self._run(self.pages.picture, request.scope["query_string"])
        headers = {"Cache-Control": f"private, max-age={PICTURE_SECONDS}", "Content-Disposition": "inline"}
        if picture.media_type == SVG_TYPE:
            headers["Content-Security-Policy"] = SVG_POLICY
        return Response(picture.content, media_type=picture.media_type, headers=headers)

    async def answer_progress(self, request: Request) -> Response:
        read_parameters(request.scope["query_string"], Parameters)
        progress, last = self._site.library.progress, self._site.library.progress.last
        counts = {"done": last.done, "total": last.total, "unit": last.unit}
        return AsciiJson({"is_indexing": progress.is_indexing, "stage": last.stage, **counts})

    async def answer_description(self, request: Request) -> Response:
        return AsciiJson(self._description)

    async def answer_failure(self, request: Request, error: Exception) -> Response:
        """What went wrong, as JSON below /api and as a page elsewhere."""
        if isinstance(error, HTTPException):
            status = error.status_code
        elif isinstance(error, ParametersError | QuestionError) and not isinstance(error, ScopeError):
            status = 422
        else:
            status = 404 if isinstance(error, UsageError) else 503
        message, headers = str(error), dict[str, str]()
        if isinstance(error, HTTPException):  # of Starlette: its messages do not say what to do
            headers = dict(error.headers or {})
            message = NO_SUCH_PAGE if status == 404 else error.detail.lower()
        response: Response
        if request.url.path.startswith("/api/") or request.url.path == "/openapi.json":
            given = {"parameters": error.mistakes} if isinstance(error, ParametersError) else {}
            response = AsciiJson({"error": message, **given}, status)
        else:
            query = request.scope["query_string"]
            if isinstance(error, NotReadyError):
                page = self.pages.waiting(query)
            else:
                near = error.near if isinstance(error, UnknownReferenceError) else ()
                message = message.partition("; did you mean")[0] + "; did you mean:" if near else message
                page = self.pages.failure(message, status, near, query)
            response = HTMLResponse(page, status)
        if isinstance(error, NotReadyError):
            headers["Retry-After"] = "1"
        response.headers.update(headers)
        return response


class _WithHeaders:
    def __init__(self, app: "ASGIApp") -> None:
        self.app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        async def with_headers(message: "Message") -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    if name not in headers:  # an SVG has a stricter policy of its own
                        headers[name] = value
                # A browser keeps what only a new version changes, and asks whether there is one.
                headers.setdefault("Cache-Control", "no-cache" if "etag" in headers else "no-store")
            await send(message)

        await self.app(scope, receive, with_headers)
