"""The application: its addresses, the JSON API beside the pages, how errors look, and the headers of every answer.

The API gives the objects that the command line prints with --json.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import Field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from retriever.display.json import add_version, dump, dump_answer, dump_node, dump_short_answer
from retriever.errors import RetrieverError
from retriever.serving.pool import Arguments, ServedIndex
from retriever.serving.web.pages import Pages, explain_error
from retriever.serving.web.site import AskArguments, Text, read_query
from retriever.trace import Spent

PICTURE_SECONDS = 60  # a document and its pictures are edited together

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: browsers then call the origin of this page's own forms null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
AT_ONCE = {"X-Accel-Buffering": "no"}  # of a page that is sent in pieces: proxies pass each on as it comes


def make_web_app(library: ServedIndex) -> Starlette:
    """Return the application of one index: its pages, its JSON API, and the pictures of its documents.

    Nothing here is a coroutine, so that Starlette answers each request in a thread.
    """
    pages = Pages(library)

    def route_json(path: str, model: type[Any], find: Callable[[Any], dict[str, Any]]) -> Route:
        def answer(request: Request) -> Response:
            return AsciiJson(add_version(find(read_query(request.scope["query_string"], model))))

        return Route(path, answer)

    def route_pieces(path: str, make: Callable[[bytes], Iterator[str]]) -> Route:
        def answer(request: Request) -> Response:
            return StreamingResponse(make(request.scope["query_string"]), media_type="text/html", headers=AT_ONCE)

        return Route(path, answer)

    def answer_reading(request: Request) -> Response:
        return HTMLResponse(pages.read(request.scope["query_string"]))

    def answer_picture(request: Request) -> Response:
        content, media_type = pages.picture(request.scope["query_string"])
        headers = {"Cache-Control": f"private, max-age={PICTURE_SECONDS}", "Content-Security-Policy": PICTURE_POLICY}
        return Response(content, media_type=media_type, headers=headers)

    def answer_failure(request: Request, error: Exception) -> Response:
        """Return what went wrong, as JSON below /api and as a page elsewhere."""
        message, status, near = explain_error(error)
        headers = error.headers if isinstance(error, HTTPException) else None
        if request.url.path.startswith("/api/"):
            return AsciiJson({"error": str(error) if near else message}, status, headers)
        return HTMLResponse(pages.failure(error, request.scope["query_string"]), status, headers)

    routes = [
        route_pieces("/", pages.ask),
        route_pieces("/answer", pages.answer),
        Route("/read", answer_reading),
        *(route_json(*endpoint) for endpoint in list_endpoints(library)),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
        Route("/picture", answer_picture),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={RetrieverError: answer_failure, HTTPException: answer_failure},
        middleware=[Middleware(BaseHTTPMiddleware, add_headers)],
    )


class AsciiJson(JSONResponse):
    """JSON in ASCII: a file name that is not UTF-8 holds lone surrogates, which only an escape can carry."""

    def render(self, content: object) -> bytes:
        return json.dumps(content, allow_nan=False).encode("ascii")


async def add_headers(request: Request, call_next: RequestResponseEndpoint) -> Response:
    """Give an answer the headers that it has not set itself: a picture has a stricter policy of its own."""
    response = await call_next(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    # A browser keeps what only a new version changes, and asks whether there is one.
    response.headers.setdefault("Cache-Control", "no-cache" if "etag" in response.headers else "no-store")
    return response


# The JSON API

MAX_SIMILAR = 1_000


class SearchArguments(AskArguments):
    """Of /api/search."""

    full: bool = False
    """Whether each hit has its section's text."""
    explain: bool = False
    """Whether the answer has its trace, and the texts that a language model made up to search with."""


class TreeArguments(Arguments):
    """Of /api/tree."""

    reference: Text = ""
    depth: int | None = Field(None, ge=0)


class NodeArguments(Arguments):
    """Of /api/node."""

    reference: Text


class SimilarArguments(Arguments):
    """Of /api/similar."""

    reference: Text
    count: int = Field(10, ge=1, le=MAX_SIMILAR)
    same_file: bool = False


Endpoint = tuple[str, type[Any], Callable[[Any], dict[str, Any]]]


def list_endpoints(library: ServedIndex) -> list[Endpoint]:
    """Return each address, the arguments that it takes, and what answers it: called in a thread, or RetrieverError."""

    def search(given: SearchArguments) -> dict[str, Any]:
        begun = time.perf_counter()
        answer = library.open(given.profile).search(given.request)
        spent = Spent.since(begun, answer.trace.stages)
        return dump_answer(answer, spent, full=given.full, explain=given.explain)

    def answer(given: AskArguments) -> dict[str, Any]:
        begun = time.perf_counter()
        short = library.open(given.profile).answer(given.request)
        return dump_short_answer(short, Spent.since(begun, short.answer.trace.stages))

    def tree(given: TreeArguments) -> dict[str, Any]:
        retriever = library.open()
        counts = retriever.count_folders()
        return {"nodes": [dump_node(node, counts) for node in retriever.nodes(given.reference, given.depth)]}

    def node(given: NodeArguments) -> dict[str, Any]:
        return dict(dump(library.open().read(given.reference)))

    def similar(given: SimilarArguments) -> dict[str, Any]:
        return dict(dump(library.open().similar(given.reference, given.count, same_file=given.same_file)))

    return [
        ("/api/search", SearchArguments, search),
        ("/api/answer", AskArguments, answer),
        ("/api/tree", TreeArguments, tree),
        ("/api/node", NodeArguments, node),
        ("/api/similar", SimilarArguments, similar),
    ]
