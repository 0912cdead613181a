"""The MCP server on standard streams as a process: when it ends."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.program import command, environment
from tests.real.mcp_messages import INITIALIZE, request


@pytest.fixture
def server(index: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """One that has begun a session."""
    with subprocess.Popen(
        command("mcp", "--index", index), env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            send(process, INITIALIZE)
            assert process.stdout
            assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "hybrid-retrieve"
            send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
            yield process
        finally:
            process.kill()


def send(process: "subprocess.Popen[bytes]", *messages: object) -> None:
    assert process.stdin
    process.stdin.writelines(json.dumps(message).encode() + b"\n" for message in messages)
    process.stdin.flush()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_it_ends_when_told(server: "subprocess.Popen[bytes]", number: signal.Signals, code: int) -> None:
    server.send_signal(number)
    assert server.wait(20) == code


@pytest.mark.parametrize("is_read", [False, True])
def test_it_ends_with_its_input(server: "subprocess.Popen[bytes]", is_read: bool) -> None:
    """More is answered than a pipe holds: nobody reads it, or the client is gone."""
    assert server.stdin
    assert server.stdout
    wanted = {"name": "read", "arguments": {"place": "long.md", "max_tokens": 10_000}}
    send(server, *[request(number, "tools/call", **wanted) for number in range(1, 12)])
    server.stdin.close()
    if is_read:
        server.stdout.read(1)
        server.stdout.close()
    assert server.wait(60) == 0
