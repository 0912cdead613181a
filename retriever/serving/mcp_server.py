"""The MCP server: the tools, the documents as resources, and the two transports, standard streams and HTTP."""

import asyncio
import io
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

import anyio
from anyio import CapacityLimiter, to_thread
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retriever import errors
from retriever.errors import NotReadyError, RetrieverError, UsageError
from retriever.serving.guard import ServerAddress
from retriever.serving.mcp_tools import INSTRUCTIONS, TOOLS, describe_tool, make_schema, read_call
from retriever.store import reading

if TYPE_CHECKING:
    from retriever.serving.pool import ServedIndex, ServedIndexes

log = logging.getLogger(__name__)
Result = TypeVar("Result")

HTTP_PATH = "/mcp"
# Calls that work at the same time. A retriever lets them take turns, but for what a language model writes, and each
# thread that searches keeps freed memory of its own.
MAX_CALLS = 3
PAGE_KEY = "hybrid-retrieve/page"  # of `Reply.page` in a result's `_meta`

TREE_URI = "hybrid-retrieve://tree"
DOCUMENT_URI = "hybrid-retrieve://document/"
RESOURCES_PER_PAGE = 200
# The tools read larger ones in parts.
MAX_RESOURCE_CHARS = 200_000

# Of a message on standard input, as of a request's body over HTTP.
MAX_LINE_CHARS = 1_000_000
# For calls that are still at work when standard input ends.
LAST_ANSWERS_S = 1.0
PARENT_CHECK_S = 0.5

# What an agent is told of an error that it cannot mend itself, by the kind of error; the first one that fits counts.
NEXT_STEPS: dict[type[Exception], str] = {
    errors.NotIndexedError: "the folder that the server was started in is not indexed; ask the user to run there: "
    "hybrid_retrieve.py index . (or to start it with --index NAME)",
    errors.NoIndexError: "nothing is indexed; ask the user to run: hybrid_retrieve.py index FOLDER",
    errors.IndexVersionError: "the index is of a newer version; ask the user to update hybrid-retrieve",
    errors.IndexLockedError: "another process is writing to the index; call again in a moment",
    errors.IndexUnusableError: "the index cannot be read; ask the user to run: hybrid_retrieve.py status",
    errors.DocumentsError: "the documents cannot be read; ask the user to look at the server's standard error",
    RetrieverError: "the search failed; ask the user to look at the server's standard error",
    Exception: "this is a bug of the server; ask the user to look at its standard error. Other tools may still work",
}


def make_mcp_server(index: "ServedIndex | ServedIndexes") -> Server:
    limiter = CapacityLimiter(MAX_CALLS)

    async def run_in_thread(work: Callable[[], Result]) -> Result:
        try:
            # A client that cancels its call does not wait for the end of it.
            return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
        except Exception as error:  # the server goes on, whatever it is
            raise MCPError(code=types.INVALID_PARAMS, message=describe_error(error)) from None

    async def on_list_tools(_: Any, __: object) -> types.ListToolsResult:  # noqa: ANN401 - the SDK's context
        return types.ListToolsResult(tools=list_tools(index.names))

    async def on_call_tool(_: Any, given: types.CallToolRequestParams) -> types.CallToolResult:  # noqa: ANN401 - as above
        return await run_in_thread(partial(call_tool, index, given.name, given.arguments or {}))

    async def on_list_resources(_: Any, given: types.PaginatedRequestParams | None) -> types.ListResourcesResult:  # noqa: ANN401 - as above
        return await run_in_thread(partial(list_resources, index, (given and given.cursor) or ""))

    async def on_read_resource(_: Any, given: types.ReadResourceRequestParams) -> types.ReadResourceResult:  # noqa: ANN401 - as above
        return await run_in_thread(partial(read_resource, index, given.uri))

    return _Server(
        index,
        version=version("hybrid-retrieve"),
        title="Hybrid Retrieve",
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
        on_list_resources=on_list_resources,
        on_read_resource=on_read_resource,
    )


class _Server(Server):
    """Its instructions name what is indexed when a client asks for them."""

    def __init__(self, index: "ServedIndex | ServedIndexes", **given: Any) -> None:  # noqa: ANN401 - as the SDK has them
        self._index = index
        super().__init__("hybrid-retrieve", **given)

    @property
    def instructions(self) -> str:
        """What every client is told, then what is indexed."""
        return str(make_sendable(f"{INSTRUCTIONS}\n{self._index.describe()}".strip()))

    @instructions.setter
    def instructions(self, _: str | None) -> None:
        """The SDK sets it once."""


def list_tools(indexes: Sequence[str] = ()) -> list[types.Tool]:
    """What an agent is told of the tools: none of them changes anything, nor looks outside the documents.

    `indexes` is as in `make_schema`.
    """
    hints = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return [
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=describe_tool(tool),
            input_schema=make_schema(tool, indexes),
            annotations=hints,
        )
        for tool in TOOLS.values()
    ]


def call_tool(index: "ServedIndex | ServedIndexes", name: str, arguments: dict[str, Any]) -> types.CallToolResult:
    """The result of a call; an error is a result as well, which says what to do."""
    try:
        reply = read_call(name, make_sendable(arguments)).answer(index)
        content = types.TextContent(type="text", text=make_sendable(reply.text))
        result = types.CallToolResult(content=[content], structured_content=make_sendable(reply.values))
        return result.model_copy(update={"meta": {PAGE_KEY: reply.page}}) if reply.page else result
    except Exception as error:  # the server goes on, whatever it is
        return types.CallToolResult(content=[types.TextContent(type="text", text=describe_error(error))], is_error=True)


def make_sendable(content: Any) -> Any:  # noqa: ANN401 - JSON
    """JSON without lone surrogates, which UTF-8 cannot carry: of file names that are not UTF-8, or of half an emoji."""
    if isinstance(content, str):
        return content.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(content, dict):
        return {key: make_sendable(value) for key, value in content.items()}
    return [make_sendable(value) for value in content] if isinstance(content, list) else content


def describe_error(error: Exception) -> str:
    """What an agent is told of an error: what it asked wrongly, in full; else no path and no detail of this machine."""
    if isinstance(error, errors.UnknownReferenceError):
        hint = "outline() shows what is" if isinstance(error.hint, errors.Command) else error.hint
        return str(make_sendable(f"{error.message}; {hint}"))
    if isinstance(error, UsageError | NotReadyError):
        return str(make_sendable(str(error)))
    log.error("%s", error, exc_info=not isinstance(error, RetrieverError))
    return next(step for kind, step in NEXT_STEPS.items() if isinstance(error, kind))


# Resources: the tree, and each document by its path.


def list_resources(index: "ServedIndex | ServedIndexes", cursor: str) -> types.ListResourcesResult:
    """Some of the resources, by path; the cursor, else UsageError, is the number of documents before."""
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise UsageError("this cursor is none of this server's; list the resources without it")
    first = int(cursor or 0)
    end = first + RESOURCES_PER_PAGE
    if index.names:  # their paths are those of one index: the tools read them
        return types.ListResourcesResult(resources=[])
    with index.choose().retriever() as retriever, retriever.view() as view:
        documents = [
            (folder.prefix + document.path, document.size)
            for folder in reading.folders(view.connection)
            for document in reading.documents(view.connection, folder.key).values()
        ]
    resources = [
        types.Resource(
            uri=DOCUMENT_URI + quote(node_id, errors="surrogateescape"),
            name=make_sendable(node_id),
            mime_type="text/markdown",
            size=size,
        )
        for node_id, size in documents[first:end]
    ]
    if not first:
        title = "The outline of all documents"
        resources.insert(0, types.Resource(uri=TREE_URI, name="tree", title=title, mime_type="text/plain"))
    return types.ListResourcesResult(resources=resources, next_cursor=str(end) if end < len(documents) else None)


def read_resource(index: "ServedIndex | ServedIndexes", uri: str) -> types.ReadResourceResult:
    """The text of a resource; UsageError when there is none, or it is too large to be sent whole."""
    from retriever.browse import load_tree, read_excerpt

    if uri != TREE_URI and not uri.startswith(DOCUMENT_URI):
        raise UsageError("there is no such resource; list them first")
    with index.choose().retriever() as retriever, retriever.view() as view:
        if uri == TREE_URI:
            kind, text = "text/plain", load_tree(view.connection).pretty()
        else:
            node_id = unquote(uri.removeprefix(DOCUMENT_URI), errors="surrogateescape")
            if reading.document_of_node(view.connection, node_id) is None:
                raise UsageError("there is no such document; list the resources, or call outline")
            kind = "text/markdown"
            text = read_excerpt(view.connection, node_id, retriever.access).text
    if len(text) > MAX_RESOURCE_CHARS:
        raise UsageError(f"this resource has {len(text):,} characters; use the tools outline and read, with cursor")
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=kind, text=make_sendable(text))]
    )


# HTTP: one POST for each message, one JSON answer, no sessions to keep.


def make_mcp_app(index: "ServedIndex | ServedIndexes", address: ServerAddress) -> Starlette:
    """Return the application of a server at that address."""
    origins = address.origins
    app = make_mcp_server(index).streamable_http_app(
        streamable_http_path=HTTP_PATH,
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(
            allowed_hosts=list(origins), allowed_origins=list(origins.values())
        ),
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


# Standard streams: one message a line, nothing else on standard output.


def serve_stdio(index: "ServedIndex | ServedIndexes") -> None:
    """Serves until standard input or the parent process ends; then ends the process, even while a call is at work."""
    # A search in another thread, or a read that blocks, would keep a process that ends in any other way.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

    def end_with_parent() -> None:
        # Some parents leave the pipe open to other processes, so that standard input does not end with them.
        parent = os.getppid()
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_S)
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    code = 1
    try:
        asyncio.run(_serve_stdio(make_mcp_server(index)))
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


async def _serve_stdio(server: Server) -> None:
    """The SDK's transport, with an answer to each line that is no message, and to each request before the end."""
    # The SDK passes over such lines, and cancels what is still at work. Both streams lead through here to change that.
    # While it serves, what others print goes to standard error, and their standard input is empty.
    waiting: set[object] = set()
    to_server, server_reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    server_writes, from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async with (
        stdio_server(anyio.wrap_file(BoundedLines.take_stdin())) as (incoming, outgoing),
        anyio.create_task_group() as tasks,
    ):

        async def receive() -> None:
            async with to_server:
                async for item in incoming:
                    if isinstance(item, Exception):
                        await outgoing.send(SessionMessage(_refuse_line(item)))
                        continue
                    if isinstance(item.message, types.JSONRPCRequest):
                        waiting.add(item.message.id)
                    await to_server.send(item)
                # A client that does not read its answers must not keep the process.
                asyncio.get_running_loop().call_later(2 * LAST_ANSWERS_S, os._exit, 0)
                with anyio.move_on_after(LAST_ANSWERS_S):
                    while waiting:
                        await anyio.sleep(0.01)

        async def send() -> None:
            async with outgoing:
                async for message in from_server:
                    await outgoing.send(message)
                    waiting.discard(getattr(message.message, "id", None))

        tasks.start_soon(receive)
        tasks.start_soon(send)
        await server.run(server_reads, server_writes, server.create_initialization_options())


class BoundedLines(io.TextIOWrapper):
    """Lines without the blank ones; a line that is too long is never in memory whole."""

    @classmethod
    def take_stdin(cls) -> "BoundedLines":
        """Standard input for the transport alone: for all others, child processes too, it is empty from now on."""
        lines = cls(os.fdopen(os.dup(0), "rb"), encoding="utf-8", errors="replace", newline="\n")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        return lines

    def readline(self, _: int = -1, /) -> str:  # type: ignore[override]  # the transport asks for whole lines alone
        while True:
            line = super().readline(MAX_LINE_CHARS + 1)
            if len(line) > MAX_LINE_CHARS and not line.endswith("\n"):
                while line and not line.endswith("\n"):
                    line = super().readline(MAX_LINE_CHARS)
                return "a line that is too long\n"  # which is no JSON, and is answered as such
            if line.strip() or not line:
                return line


def _refuse_line(error: Exception) -> types.JSONRPCError:
    mistakes = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    if any(mistake["type"] == "json_invalid" for mistake in mistakes):
        code, reason = types.PARSE_ERROR, f"no JSON of at most {MAX_LINE_CHARS:,} characters, or nested too deeply"
    else:
        code, reason = types.INVALID_REQUEST, "no JSON-RPC 2.0 message"
    # Where an object is no message, fields of a response are missing among others; then the input is the whole object.
    whole: object = next((mistake["input"] for mistake in mistakes if mistake["type"] == "missing"), {})
    request_id = whole.get("id") if isinstance(whole, dict) else None
    known = request_id if isinstance(request_id, str | int) and not isinstance(request_id, bool) else None
    return types.JSONRPCError(jsonrpc="2.0", id=known, error=types.ErrorData(code=code, message=reason))
