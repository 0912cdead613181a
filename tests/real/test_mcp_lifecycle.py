"""The MCP server on standard streams as a process: what it prints, what it survives, when it ends."""

import os
import signal
from pathlib import Path

import pytest

from tests.program import command
from tests.real.mcp_messages import call, nest, request, stdio

HEAVY = {"networkx", "chromadb", "onnxruntime", "tokenizers", "ollama", "rank_bm25", "torch"}


CHATTY = """
import builtins, os, runpy, subprocess, sys
real = builtins.__import__
def noisy(name, *rest, **named):
    if name in ("onnxruntime", "tokenizers", "chromadb"):
        print("loading", name)
        os.write(1, b"native chatter\\n")
        subprocess.run([sys.executable, "-c", "print('a child speaks')"])
    return real(name, *rest, **named)
builtins.__import__ = noisy
sys.argv[0] = sys.argv.pop(1)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_standard_output_holds_the_protocol_alone(index: Path) -> None:
    program, script, *arguments = command("mcp", "--index", index)
    with stdio(index, program=[program, "-c", CHATTY, script, *arguments]) as server:
        server.begin()
        server.send(call(1, "search", question="what pays for a letter?"))
        assert "`mail.md:5-9`" in server.answer()["result"]["content"][0]["text"]
        server.stdin.close()
        assert server.stdout.read() == b""
        assert server.process.stderr is not None
        said = server.process.stderr.read()
        assert server.process.wait(5) == 0
        assert b"native chatter" in said
        assert b"a child speaks" in said


def test_nothing_heavy_is_loaded_before_the_first_search(index: Path) -> None:
    watched = "import atexit, os, runpy, sys\nend = os._exit\n" + (
        "def told(code):\n"
        "    os.write(2, ' '.join({name.partition('.')[0] for name in sys.modules}).encode())\n"
        "    end(code)\n"
        "os._exit = told\n"
        "sys.argv[0] = sys.argv.pop(1)\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    program, script, *arguments = command("mcp", "--index", index)
    with stdio(index, program=[program, "-c", watched, script, *arguments]) as server:
        assert server.begin()["result"]["serverInfo"]["name"] == "hybrid-retrieve"
        server.send(request(1, "tools/list"))
        assert len(server.answer()["result"]["tools"]) == 5
        server.stdin.close()
        assert server.process.stderr is not None
        loaded = set(server.process.stderr.read().decode().split())
        assert "mcp" in loaded
        assert loaded & HEAVY == set()


def test_what_is_no_message_is_survived(index: Path) -> None:
    """The SDK passes over what is no JSON-RPC, and answers what is wrong in a request."""
    nonsense = b'{"jsonrpc":"2.0","method":"notifications/nonsense","id":{"a":1}}'
    long = b'{"jsonrpc":"2.0","id":8,"method":"ping","params":{"x":"' + b"y" * 1_100_000 + b'"}'
    requests: list[tuple[bytes, int, object]] = [
        (b'{"jsonrpc":"2.0","id":9,"method":"no/such/method"}', -32601, 9),
        (b'{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":3}}', -32602, 10),
        (b'{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"read","arguments":[]}}', -32602, 11),
    ]
    with stdio(index) as server:
        server.begin()
        server.send(b"{", b"hello", b'"\xff\xfe"', nest(100_000), b"[1,2]", b"null", b"{}", long, b"", nonsense)
        for frame, code, number in requests:
            server.send(frame)
            answer = server.answer()
            assert (answer["error"]["code"], answer["id"]) == (code, number), frame[:80]
            assert "Traceback" not in answer["error"]["message"]
        server.send(request(99, "ping"))
        assert server.answer() == {"jsonrpc": "2.0", "id": 99, "result": {}}


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_it_ends_when_told(index: Path, number: signal.Signals, code: int) -> None:
    with stdio(index) as server:
        server.begin()
        server.process.send_signal(number)
        assert server.process.wait(20) == code


@pytest.mark.parametrize("is_read", [False, True])
def test_it_ends_with_its_input(index: Path, is_read: bool) -> None:
    """More is answered than a pipe holds: nobody reads it, or the client is gone."""
    with stdio(index) as server:
        server.begin()
        server.send(*[call(number, "read", place="long.md", max_tokens=10_000) for number in range(1, 12)])
        server.stdin.close()
        if is_read:
            server.stdout.read(1)
            server.stdout.close()
        assert server.process.wait(60) == 0
