"""The application: its addresses, the JSON API beside the pages, and how errors look.

The API gives the objects that the command line prints with --json.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from retriever.display import add_version, dump, dump_answer, dump_short_answer
from retriever.errors import RetrieverError
from retriever.serving.pool import Arguments, ServedIndex
from retriever.serving.web.pages import Pages, explain_error
from retriever.serving.web.site import AskArguments, read_query
from retriever.trace import Spent


def make_web_app(library: ServedIndex) -> Starlette:
    """Return the application of one index: its pages, its JSON API, and the pictures of its documents.

    Nothing here is a coroutine, so that Starlette answers each request in a thread.
    """
    pages = Pages(library)

    def answer_call(request: Request) -> Response:
        call = API.get(request.path_params["name"])
        if call is None:
            raise HTTPException(404)
        return JSONResponse(add_version(read_query(request, call).answer(library)))

    def answer_failure(request: Request, error: Exception) -> Response:
        """Return what went wrong, as JSON below /api and as a page elsewhere."""
        message, status = explain_error(error)
        headers = error.headers if isinstance(error, HTTPException) else None
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": message}, status, headers)
        return HTMLResponse(pages.failure(request, error), status, headers)

    routes = [
        Route("/", pages.ask),
        Route("/typed", pages.list_typed),
        Route("/answer", pages.answer),
        Route("/read", pages.read),
        Route("/picture", pages.picture),
        Route("/api/{name}", answer_call),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={RetrieverError: answer_failure, HTTPException: answer_failure},
    )


# The JSON API: the arguments of a call at each address, which answer it in a thread, or raise RetrieverError.


class SearchCall(AskArguments):
    """The sections that answer a question."""

    full: bool = False
    """Whether each hit has its section's text."""
    explain: bool = False
    """Whether the answer has its trace, and the texts that a language model made up to search with."""

    def answer(self, library: ServedIndex) -> dict[str, Any]:
        begun = time.perf_counter()
        answer = library.open(self.profile).search(self.request)
        spent = Spent.since(begun, answer.trace.stages)
        return dump_answer(answer, spent, full=self.full, explain=self.explain)


class AnswerCall(AskArguments):
    """A few sentences, and the sections."""

    def answer(self, library: ServedIndex) -> dict[str, Any]:
        begun = time.perf_counter()
        short = library.open(self.profile).answer(self.request)
        return dump_short_answer(short, Spent.since(begun, short.answer.trace.stages))


class NodeCall(Arguments):
    """The text of a section, a file or lines of one."""

    reference: str

    def answer(self, library: ServedIndex) -> dict[str, Any]:
        return dict(dump(library.open().read(self.reference)))


API: Mapping[str, type[Any]] = {"search": SearchCall, "answer": AnswerCall, "node": NodeCall}
