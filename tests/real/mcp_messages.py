"""Messages of MCP as raw JSON, and a server on standard streams that is spoken to in them."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.program import command, environment

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def request(number: int, method: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return request(number, "tools/call", name=name, arguments=arguments)


def nest(levels: int) -> bytes:
    """A message whose parameters are nested that deep."""
    return b'{"jsonrpc":"2.0","id":5,"method":"ping","params":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


class Stdio:
    """A server on standard streams, spoken to in raw lines."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout

    def send(self, *messages: object) -> None:
        for message in messages:
            self.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode())
            self.stdin.write(b"\n")
        self.stdin.flush()

    def answer(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.stdout.readline())
        assert content["jsonrpc"] == "2.0"
        return content

    def begin(self) -> dict[str, Any]:
        self.send(INITIALIZE)
        answer = self.answer()
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer


@contextmanager
def stdio(index: Path, *, program: list[str] | None = None) -> Iterator[Stdio]:
    process = subprocess.Popen(
        program or command("mcp", "--index", index), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    try:
        yield Stdio(process)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):  # what the server did not read
                stream.close()
