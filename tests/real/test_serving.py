"""What is served over HTTP, as a process and before an application of a few lines: limits, failures, refusals."""

import contextlib
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from retriever.retriever import Retriever
from retriever.serving.http import MAX_CONNECTIONS, ServerAddress, listen, make_server
from retriever.serving.pool import ServedIndex
from tests.real.mcp_messages import INITIALIZE, call, nest, request
from tests.real.served import Served, indexed, served
from tests.shelf import WORDS_ALONE


def post(server: Served, content: bytes, **headers: str) -> tuple[int, bytes]:
    """The status and the body of an answer to an MCP message, which says nothing of this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=40)
    named = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    with closing(connection):
        connection.request("POST", "/mcp", content, named | headers)
        answer = connection.getresponse()
        body = answer.read()
    assert not any(secret in body for secret in (b"Traceback", b"/home", b"site-packages"))
    return answer.status, body


@pytest.fixture(scope="module")
def server(index: Path) -> Iterator[Served]:
    with served(index, "--mcp", "--web") as running:
        yield running


def is_alive(server: Served) -> bool:
    status, body = post(server, json.dumps(request(1, "tools/list")).encode(), **{"mcp-protocol-version": "2025-06-18"})
    return status == 200 and len(json.loads(body)["result"]["tools"]) == 5


def raw(server: Served, content: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(content)
        return connection.recv(65_536)


HOST = b"Host: localhost:%d\r\n"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Host: evil.example\r\n\r\n", b"400"),
        (b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", b"404"),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 200_000 + b"\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", b"400"),
        (b"GET /mcp HTTP/1.1\r\n" + HOST + b"\r\n", b"405"),
        (b"DELETE /mcp HTTP/1.1\r\n" + HOST + b"\r\n", b"405"),
        (b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
         b"Accept: application/json, text/event-stream\r\nContent-Length: 5000000\r\n\r\n", b"413"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n", b"200"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
    ],
    ids=lambda value: repr(value[:30]),
)  # fmt: skip
def test_what_is_no_request_of_ours_is_refused(server: Served, content: bytes, status: bytes) -> None:
    answer = raw(server, content.replace(b"%d", b"%d" % server.port))
    assert answer.split(b" ")[1] == status
    assert b"access-control" not in answer.lower()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", nest(100_000), b"\xff", json.dumps([INITIALIZE] * 50).encode()]
)
def test_bodies_that_are_no_message(server: Served, content: bytes) -> None:
    assert post(server, content)[0] == 400
    assert is_alive(server)


@pytest.mark.parametrize("stop_in", ["nothing", "head", "body"])
def test_stalled_clients_keep_no_other_one_waiting(server: Served, stop_in: str) -> None:
    """Sixty-four of them stop in the middle; a request of another client is answered meanwhile."""
    message = json.dumps(request(1, "tools/list")).encode()
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: %d\r\n\r\n" % (server.port, len(message))
    part = (head + message)[: {"nothing": 0, "head": 50, "body": -20}[stop_in]]
    with ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20)).sendall(part)
        assert is_alive(server)


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


def test_a_token_is_made_and_asked_for(index: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    with served(index, "--mcp", "--token-file", str(file)) as server:
        token = file.read_text(encoding="ascii").strip()
        assert os.name != "posix" or file.stat().st_mode & 0o777 == 0o600
        message = json.dumps(request(1, "tools/list")).encode()
        assert post(server, message)[0] == 401
        assert post(server, message, authorization="Bearer wrong")[0] == 401
        assert post(server, message, authorization=f"Bearer {token}")[0] == 200


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


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """An application of one small page, and one that is broken."""
    if scope["type"] == "lifespan":
        for kind in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{kind}"
            await send({"type": f"lifespan.{kind}.complete"})
        return
    if Request(scope).url.path == "/broken":
        raise ValueError("/home/me/secret.md")
    await PlainTextResponse("small")(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    listener = listen("127.0.0.1", 0)
    address = ServerAddress("127.0.0.1", listener.getsockname()[1])
    server = make_server(answer, address)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield address.port
    server.should_exit = True
    thread.join()
    listener.close()


def ask(port: int, path: str = "/") -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read()


def test_a_failure_says_nothing_of_this_machine(port: int) -> None:
    assert ask(port, "/broken") == (500, b"Internal Server Error")
    assert ask(port) == (200, b"small")


def test_more_connections_than_may_be_are_told_so(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        assert ask(port)[0] == 503
    while ask(port)[0] == 503:  # until all of them are seen to be gone
        time.sleep(0.05)


def test_one_of_the_same_settings_stays_open_until_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Retriever] = []
    close = Retriever.close

    def note(retriever: Retriever) -> None:
        closed.append(retriever)
        close(retriever)

    monkeypatch.setattr(Retriever, "close", note)
    indexed(tmp_path, {"mail.md": "# Mail\n\nA stamp pays for the journey.\n"}, WORDS_ALONE)
    with contextlib.closing(ServedIndex(index=str(tmp_path / "index"), settings=WORDS_ALONE)) as library:
        first, other = library.open(settings={"top_k": 1}), library.open(settings={"top_k": 2})
        assert library.open(settings={"top_k": 1}) is first is not other
        assert first.search("stamp").hits
        assert closed == []
    assert closed == [first, other]
