"""MCP over standard input and output: one message a line, nothing else on standard output, an end when the client ends.

Whatever a library prints goes to standard error: the two streams are moved away before anything heavy is imported.
"""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from anyio import CancelScope
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    from retriever.serving.pool import ServedIndex

MAX_LINE_BYTES = 1_000_000
LAST_ANSWERS_S = 1.0
"""For calls that are still at work when standard input ends."""
PARENT_CHECK_S = 0.5
INTERRUPTED = 130
PARSE_ERROR, INVALID_REQUEST = -32700, -32600


def serve_stdio(library: "ServedIndex") -> None:
    """Serves until standard input ends or the parent process does; then ends the process, whatever is still at work."""
    incoming, outgoing = private_streams()
    code = 1
    try:
        asyncio.run(_serve(library, incoming, outgoing))
        code = 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        sys.stderr.flush()
        os._exit(code)  # a search in another thread, or a read that blocks, would keep the process


def private_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Standard input and output for us alone: for all others the first is empty and the second is standard error."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return incoming, outgoing


def bounded_lines(stream: IO[bytes]) -> Iterator[bytes | None]:
    """The lines of a stream; None in place of one that is too long."""
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) <= MAX_LINE_BYTES or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE_BYTES)
        yield None


class _Wire:
    """Messages in and out, and which requests wait for their answer."""

    def __init__(self, outgoing: IO[bytes]) -> None:
        self._outgoing = outgoing
        self._waiting: set[str | int] = set()
        self._changed = threading.Condition()

    def sent(self, message: "SessionMessage") -> None:
        """Writes a message of the server."""
        self._write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        with self._changed:
            self._waiting.discard(getattr(message.message, "id", ""))
            self._changed.notify_all()

    def received(self, line: bytes | None) -> "SessionMessage | None":
        """The message of a line; None when it is none, which is answered at once."""
        import mcp_types
        from mcp.shared.message import SessionMessage

        if line is None:
            self._refuse(INVALID_REQUEST, f"a message has at most {MAX_LINE_BYTES:,} bytes", None)
        elif line.strip():
            try:
                message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                if isinstance(message, mcp_types.JSONRPCNotification) and "id" in json.loads(line):
                    raise ValueError("an id that is none")
            except ValueError:
                self._refuse(*_fault(line))
                return None
            if isinstance(message, mcp_types.JSONRPCRequest):
                with self._changed:
                    self._waiting.add(message.id)
            return SessionMessage(message)
        return None

    def finish(self, seconds: float) -> None:
        """Waits until every request has its answer, for so long at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, seconds)

    def _refuse(self, code: int, reason: str, request_id: object) -> None:
        error = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": reason}}
        self._write(json.dumps(error).encode())

    def _write(self, content: bytes) -> None:
        with self._changed:
            self._outgoing.write(content + b"\n")
            self._outgoing.flush()


def _fault(line: bytes) -> tuple[int, str, object]:
    """What is wrong with a line that is no message: the code, the reason, the id if it has one."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return PARSE_ERROR, "this is not JSON, or it is nested too deeply", None
    request_id = content.get("id") if isinstance(content, dict) else None
    known = request_id if isinstance(request_id, str | int) and not isinstance(request_id, bool) else None
    return INVALID_REQUEST, "this is no JSON-RPC 2.0 message", known


async def _serve(library: "ServedIndex", incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    import anyio
    from mcp.shared.message import SessionMessage

    from retriever.serving.mcp_server import mcp_server

    wire = _Wire(outgoing)
    to_server, server_reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    server_writes, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    server = mcp_server(library)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_write, from_server, wire)
        tasks.start_soon(_end_with_parent, tasks.cancel_scope)
        loop = asyncio.get_running_loop()
        threading.Thread(target=_read, args=(incoming, to_server, wire, loop), daemon=True).start()
        await server.run(server_reads, server_writes, server.create_initialization_options())
        tasks.cancel_scope.cancel()


def _read(
    incoming: IO[bytes],
    to_server: "MemoryObjectSendStream[SessionMessage | Exception]",
    wire: _Wire,
    loop: asyncio.AbstractEventLoop,
) -> None:
    """In a thread of its own, which may stay in a read for ever."""
    for line in bounded_lines(incoming):
        message = wire.received(line)
        if message is not None:
            asyncio.run_coroutine_threadsafe(to_server.send(message), loop).result()
    wire.finish(LAST_ANSWERS_S)
    loop.call_soon_threadsafe(to_server.close)


async def _write(from_server: "MemoryObjectReceiveStream[SessionMessage]", wire: _Wire) -> None:
    import anyio.to_thread

    async for message in from_server:  # a client that does not read must not stop the loop
        await anyio.to_thread.run_sync(wire.sent, message, abandon_on_cancel=True)


async def _end_with_parent(scope: "CancelScope") -> None:
    """Ends all when the process that started this one is gone; some leave the pipe open to others."""
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(PARENT_CHECK_S)
    scope.cancel()
