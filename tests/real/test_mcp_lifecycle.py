"""The two servers as processes: what they print, what they survive, when they end."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.program import command, environment
from tests.real.served import Served, indexed, served

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
HEAVY = {"networkx", "chromadb", "onnxruntime", "tokenizers", "ollama", "rank_bm25", "torch"}


def request(number: int, method: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return request(number, "tools/call", name=name, arguments=arguments)


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
def stdio(index: Path, *, program: list[str] | None = None, **variables: str) -> Iterator[Stdio]:
    process = subprocess.Popen(
        program or command("mcp", "--index", index), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment() | variables,
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


CHATTY = """
import builtins, os, runpy, subprocess, sys
real = builtins.__import__
def noisy(name, *rest, **named):
    if name in ("onnxruntime", "chromadb", "numpy"):
        print("loading", name)
        os.write(1, b"native chatter\\n")
        subprocess.run([sys.executable, "-c", "print('a child speaks')"])
        sys.__stdout__.write("more\\n"); sys.__stdout__.flush()
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
        answer = server.answer()
        assert answer["id"] == 1
        assert "`mail.md:5-9`" in answer["result"]["content"][0]["text"]
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
        assert len(server.answer()["result"]["tools"]) == 6
        server.stdin.close()
        assert server.process.stderr is not None
        loaded = set(server.process.stderr.read().decode().split())
        assert "mcp" in loaded
        assert loaded & HEAVY == set()


def deep(levels: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":5,"method":"ping","params":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


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
        server.send(b"{", b"hello", b'"\xff\xfe"', deep(100_000), b"[1,2]", b"null", b"{}", long, b"", nonsense)
        for frame, code, number in requests:
            server.send(frame)
            answer = server.answer()
            assert (answer["error"]["code"], answer["id"]) == (code, number), frame[:80]
            assert "Traceback" not in answer["error"]["message"]
        server.send(request(99, "ping"))
        assert server.answer() == {"jsonrpc": "2.0", "id": 99, "result": {}}


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_it_ends_when_told(index: Path) -> None:
    for number, code in ((signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)):
        with stdio(index) as server:
            server.begin()
            server.process.send_signal(number)
            assert server.process.wait(20) == code


def post(server: Served, content: bytes, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=40)
    named = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    named |= {name.replace("_", "-"): text for name, text in headers.items()}
    with contextlib.closing(connection):
        connection.request("POST", "/mcp", content, named)
        answer = connection.getresponse()
        body = answer.read()
    assert b"Traceback" not in body
    assert b"/home" not in body
    assert b"site-packages" not in body
    return answer.status, body


@pytest.fixture(scope="module")
def server(index: Path) -> Iterator[Served]:
    with served(index, "--mcp") as running:
        yield running


def is_alive(server: Served) -> bool:
    status, body = post(server, json.dumps(request(1, "tools/list")).encode(), mcp_protocol_version="2025-06-18")
    return status == 200 and len(json.loads(body)["result"]["tools"]) == 6


def raw(server: Served, content: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(content)
        return connection.recv(65_536)


def test_what_http_refuses(server: Served) -> None:
    host = f"localhost:{server.port}".encode()
    cases: list[tuple[bytes, bytes]] = [
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nHost: evil.example\r\n\r\n", b"400"),
        (b"OPTIONS /mcp HTTP/1.1\r\nHost: " + host + b"\r\nOrigin: http://" + host + b"\r\n\r\n", b"405"),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", b"404"),
        (b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nX: " + b"y" * 40_000 + b"\r\n\r\n", b"4"),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", b"400"),
        (b"POST /mcp HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 5000000\r\n\r\n", b"413"),
        (
            b"POST /mcp HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"413",
        ),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
    ]
    for content, status in cases:
        answer = raw(server, content)
        assert answer.split(b" ")[1].startswith(status), (content[:80], answer[:80])
        assert b"access-control" not in answer.lower()
        assert b"uvicorn" not in answer.lower()
    assert is_alive(server)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", deep(100_000), b"\xff", json.dumps([INITIALIZE] * 50).encode()]
)
def test_bodies_that_are_no_message(server: Served, content: bytes) -> None:
    status, _ = post(server, content)
    assert status == 400
    assert is_alive(server)


def list_tools(server: Served) -> bytes:
    message = json.dumps(request(1, "tools/list")).encode()
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost:%d\r\nContent-Type: application/json\r\n" % server.port
    return head + b"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(message) + message


@pytest.mark.parametrize("stop_in", ["nothing", "head", "body"])
def test_stalled_clients_keep_no_other_one_waiting(server: Served, stop_in: str) -> None:
    """Sixty-four of them stop in the middle; a request of another client is answered meanwhile."""
    part = list_tools(server)[: {"nothing": 0, "head": 50, "body": -20}[stop_in]]
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20)).sendall(part)
        assert is_alive(server)


@pytest.mark.slow
@pytest.mark.timeout(180)  # thirteen seconds alone; others may be at work on the machine
def test_memory_and_files_stay_as_they_are_while_the_documents_change(tmp_path: Path) -> None:
    index = indexed(tmp_path)
    searches = [
        json.dumps(call(1, "search", question="zeppelin", profile=name)).encode() for name in ("balanced", "recall")
    ]

    def change(server: Served, number: int) -> tuple[int, int]:
        text = f"Zeppelin {number} brings the letters"
        (tmp_path / "docs" / "mail.md").write_text(f"# Mail\n\n{text}.\n", encoding="utf-8")
        for search in searches:
            while text.encode() not in post(server, search)[1]:
                pass
        return resources(server)

    with served(index, "--mcp", "--docs", str(tmp_path / "docs")) as server:
        changes = [change(server, number) for number in range(6)]
        snapshots = len(list(index.glob("snapshot-*")))
    assert changes[-1][0] <= changes[1][0] * 1.2, "kilobytes"
    assert changes[-1][1] <= changes[1][1] + 2, "open files: a connection more"
    assert snapshots <= 2, "those that nobody reads are gone"


def resources(server: Served) -> tuple[int, int]:
    """Resident kilobytes and open files, where /proc tells."""
    process = Path(f"/proc/{server.process.pid}")
    if not process.is_dir():
        pytest.skip("no /proc to look into")
    rows = dict(row.split(":", 1) for row in (process / "status").read_text().splitlines())
    return int(rows["VmRSS"].split()[0]), len(list((process / "fd").iterdir()))


def test_only_loopback_is_bound(server: Served) -> None:
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((own_address(), server.port), timeout=2)


def own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no other address")
        return str(probe.getsockname()[0])


def test_both_at_one_address(index: Path) -> None:
    """The page beside it changes nothing of what MCP answers."""
    with served(index, "--mcp", "--web") as server:
        assert is_alive(server)
        host = b" HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % server.port
        for method, status in ((b"GET /mcp", b"405"), (b"DELETE /mcp", b"405"), (b"GET /healthz", b"200")):
            assert raw(server, method + host).split(b" ")[1] == status, method


def test_a_token_is_made_and_asked_for(index: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    with served(index, "--mcp", "--token-file", str(file)) as server:
        token = file.read_text(encoding="ascii").strip()
        assert os.name != "posix" or file.stat().st_mode & 0o777 == 0o600
        message = json.dumps(request(1, "tools/list")).encode()
        assert post(server, message)[0] == 401
        assert post(server, message, authorization="Bearer wrong")[0] == 401
        assert post(server, message, authorization=f"Bearer {token}")[0] == 200


def test_it_ends_with_its_input_even_where_no_answer_is_read(index: Path) -> None:
    with stdio(index) as server:
        server.begin()
        server.send(call(0, "status"))
        assert server.answer()["id"] == 0
        server.send(*[call(number, "read", place="long.md", max_tokens=10_000) for number in range(1, 12)])
        server.stdin.close()
        assert server.process.wait(20) == 0


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a process without its parent")
def test_it_ends_with_its_parent_even_where_the_pipe_stays_open(index: Path) -> None:
    """The parent is killed; its end of the pipe lives on in this process."""
    reads, writes = os.pipe()
    answers, server_writes = os.pipe()
    spawn = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
    with subprocess.Popen(
        [sys.executable, "-c", spawn, *command("mcp", "--index", index)],
        stdin=reads,
        stdout=server_writes,
        stderr=subprocess.DEVNULL,
        env=environment(),
    ) as parent:
        os.close(reads)
        os.close(server_writes)
        os.write(writes, json.dumps(INITIALIZE).encode() + b"\n")
        with os.fdopen(answers, "rb") as stream:
            assert json.loads(stream.readline())["id"] == 0
            parent.kill()
            assert stream.read() == b"", "the end of the stream is the end of the server"
        os.close(writes)
