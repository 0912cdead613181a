"""The MCP server: our tools and documents behind the official SDK, the same over every transport."""

import logging
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread
from mcp import types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from retriever import errors
from retriever.errors import NotReadyError, RetrieverError, UsageError
from retriever.serving.mcp_answers import Answers
from retriever.serving.mcp_arguments import input_schema
from retriever.serving.mcp_resources import Resources
from retriever.serving.mcp_text import Reply
from retriever.serving.mcp_tools import INSTRUCTIONS, TOOLS, call_tool

if TYPE_CHECKING:
    from retriever.serving.pool import ServedIndex

log = logging.getLogger(__name__)
Result = TypeVar("Result")

AT_ONCE = 3
"""Calls that work at the same time. A retriever lets them take turns, but for what a language model writes, and each
thread that searches keeps freed memory of its own."""
PAGE = "hybrid-retrieve/page"
"""The key of `Reply.page` in a result's `_meta`."""


def mcp_server(library: "ServedIndex") -> Server:
    """A server over that library; nothing of it is opened before the first call."""
    answers, resources = Answers(library), Resources(library)
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def in_thread(work: Callable[[], Result]) -> Result:
        """Work that blocks; a client that cancels its call does not wait for the end of it."""
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)

    async def list_tools(_: Any, __: object) -> types.ListToolsResult:  # noqa: ANN401 - the SDK's context
        return types.ListToolsResult(tools=tools())

    async def call(_: Any, given: types.CallToolRequestParams) -> types.CallToolResult:  # noqa: ANN401 - as above
        return await in_thread(partial(called, answers, given.name, given.arguments or {}))

    async def list_resources(_: Any, given: types.PaginatedRequestParams | None) -> types.ListResourcesResult:  # noqa: ANN401 - as above
        return await in_thread(partial(told, resources.page, (given and given.cursor) or ""))

    async def read_resource(_: Any, given: types.ReadResourceRequestParams) -> types.ReadResourceResult:  # noqa: ANN401 - as above
        return await in_thread(partial(told, resources.read, given.uri))

    return Server(
        "hybrid-retrieve",
        version=version("hybrid-retrieve"),
        title="Hybrid Retrieve",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def tools() -> list[types.Tool]:
    """What the agent is told of the tools: none of them changes anything, nor looks outside the documents."""
    hints = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return [
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=input_schema(tool.parameters),
            annotations=hints,
        )
        for tool in TOOLS
    ]


def called(answers: Answers, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
    """The result of a call; what goes wrong is said to the agent, with the next step."""
    try:
        return _result(call_tool(answers, name, arguments))
    except Exception as error:  # whatever it is, the server goes on
        text = types.TextContent(type="text", text=said(error))
        return types.CallToolResult(content=[text], is_error=True)


def _result(reply: Reply) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=sendable(reply.text))]
    result = types.CallToolResult(content=content, structured_content=sendable(reply.values))
    return result.model_copy(update={"meta": {PAGE: reply.page}}) if reply.page else result


def sendable(content: Any) -> Any:  # noqa: ANN401 - JSON
    """JSON without the lone surrogates of file names that are not UTF-8, which it cannot carry."""
    if isinstance(content, str):
        return content.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(content, dict):
        return {key: sendable(value) for key, value in content.items()}
    return [sendable(value) for value in content] if isinstance(content, list) else content


def told(work: Callable[[str], Result], argument: str) -> Result:
    """A resource's answer.

    Raises:
        MCPError: it cannot be given; for the client.
    """
    try:
        return work(argument)
    except Exception as error:  # as in `called`
        raise MCPError(code=types.INVALID_PARAMS, message=said(error)) from None


def said(error: Exception) -> str:
    """What an agent is told of an error: what it asked wrongly, in full; else no path and no detail of this machine."""
    if isinstance(error, errors.UnknownReferenceError):
        return str(sendable(f"{error.message}; outline() shows what is"))
    if isinstance(error, UsageError | NotReadyError):
        return str(sendable(str(error)))
    log.error("%s", error, exc_info=not isinstance(error, RetrieverError))
    return next(step for kind, step in NEXT_STEPS.items() if isinstance(error, kind))


NEXT_STEPS: dict[type[Exception], str] = {
    errors.NoIndexError: "nothing is indexed; ask the user to run: hybrid_retrieve.py index FOLDER",
    errors.IndexVersionError: "the index is of a newer version; ask the user to update hybrid-retrieve",
    errors.IndexLockedError: "another process is writing to the index; call again in a moment",
    errors.IndexUnusableError: "the index cannot be read; ask the user to run: hybrid_retrieve.py status",
    errors.DocumentsError: "the documents cannot be read; ask the user to look at the server's standard error",
    RetrieverError: "the search failed; ask the user to look at the server's standard error",
    Exception: "this is a bug of the server; ask the user to look at its standard error. Other tools may still work",
}
"""By the kind of error; the first one that fits counts."""
