"""The MCP server: the tools, and the SDK's two transports, standard streams and HTTP."""

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from anyio import CapacityLimiter, to_thread
from mcp import types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retriever.errors import CommandHint, RetrieverError, UnknownReferenceError
from retriever.serving.mcp_tools import INSTRUCTIONS, TOOLS, make_tool_schema, read_call

if TYPE_CHECKING:
    from retriever.serving.pool import ServedIndex

log = logging.getLogger(__name__)

HTTP_PATH = "/mcp"
MAX_BODY_BYTES = 1_000_000
MAX_CALLS = 3  # that work at the same time; a retriever lets them take turns, but for what a language model writes
BUG = "this is a bug of the server; ask the user to look at its standard error. Other tools may still work"


class DocumentServer(MCPServer[Any]):
    """The tools of one index, or of several."""

    def __init__(self, index: "ServedIndex") -> None:
        super().__init__(
            "hybrid-retrieve",
            title="Hybrid Retrieve",
            version=version("hybrid-retrieve"),
            instructions=make_sendable(f"{INSTRUCTIONS}\n{index.describe()}".strip()),
            subscriptions=False,
        )
        self._index = index
        self._limiter = CapacityLimiter(MAX_CALLS)

    async def list_tools(self) -> list[types.Tool]:
        """Return the tools, as `list_tools`."""
        return list_tools(self._index.names)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], _: Context[Any, Any] | None = None
    ) -> types.CallToolResult:
        """Return the result of a call, as `call_tool`."""
        # A client that cancels its call does not wait for the end of it.
        work = partial(call_tool, self._index, name, arguments)
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)


def list_tools(indexes: Sequence[str] = ()) -> list[types.Tool]:
    """Describe the tools to an agent: none of them changes anything, nor looks outside the documents.

    `indexes` is as in `make_tool_schema`.
    """
    hints = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return [
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=" ".join((tool.__doc__ or "").split()),
            input_schema=make_tool_schema(tool, indexes),
            annotations=hints,
        )
        for tool in TOOLS.values()
    ]


def call_tool(index: "ServedIndex", name: str, arguments: dict[str, Any]) -> types.CallToolResult:
    """Return the result of a call; an error is a result as well, which says what to do."""
    try:
        text, is_error = read_call(name, arguments).answer(index), False
    except Exception as error:  # the server goes on, whatever it is
        text, is_error = describe_error(error), True
    return types.CallToolResult(content=[types.TextContent(type="text", text=make_sendable(text))], is_error=is_error)


def describe_error(error: Exception) -> str:
    """Describe an error to an agent."""
    if isinstance(error, UnknownReferenceError) and isinstance(error.hint, CommandHint):
        return f"{error.message}; outline() shows what is"
    if isinstance(error, RetrieverError):
        return str(error)
    log.error("%s", error, exc_info=True)
    return BUG


def make_sendable(text: str) -> str:
    """Return text without lone surrogates, which UTF-8 cannot carry: of file names that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def make_mcp_app(index: "ServedIndex") -> Starlette:
    """Return the application of a server: one POST for each message, no sessions to keep."""
    app = DocumentServer(index).streamable_http_app(
        streamable_http_path=HTTP_PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MAX_BODY_BYTES,
        # The request guard has checked Host and Origin, of the pages as well.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    endpoint = next(route.endpoint for route in app.routes if isinstance(route, Route))

    async def refuse(_: Request) -> Response:
        # Without a session there is no stream to open with GET, and nothing to DELETE: 405, as the specification says.
        return Response(status_code=405, headers={"Allow": "POST"})

    app.router.routes[:] = [
        Route(HTTP_PATH, endpoint=endpoint, methods=["POST"]),
        Route(HTTP_PATH, endpoint=refuse, methods=["GET", "DELETE"]),
    ]
    return app


def serve_stdio(server: DocumentServer) -> None:
    """Serve until standard input ends; then end the process, even while a call is at work."""
    # A search in another thread, or a read that blocks, would keep a process that ends in any other way.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    asyncio.run(server.run_stdio_async())
    os._exit(0)
