"""The server of HTTP before an application of a few lines: what clients cost that do not take their answers."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from retriever.retriever import Retriever
from retriever.serving.guard import ServerAddress
from retriever.serving.http import listen, make_server
from retriever.serving.pool import MAX_OPEN, ServedIndex
from tests.real.served import indexed
from tests.shelf import WORDS_ALONE

LARGE = b"x" * 3_900_000
"""An answer; some of them are more than the buffers of both sides hold."""


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        for kind in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{kind}"
            await send({"type": f"lifespan.{kind}.complete"})
        return
    body = LARGE if scope["path"] == "/large" else b"small"
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    listener = listen(port=0)
    address = ServerAddress("127.0.0.1", listener.getsockname()[1])
    server = make_server(answer, address)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield address.port
    server.should_exit = True
    thread.join()
    listener.close()


def ask(port: int) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", "/")
        reply = connection.getresponse()
        return reply.status, reply.read()


def test_clients_that_do_not_read_keep_no_other_one_waiting_and_are_let_go(port: int) -> None:
    """Seventy of them: more than the requests that may be at work at a time."""
    request = b"GET /large HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port
    with ExitStack() as stack:
        clients = []
        for _ in range(70):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", port))
            client.settimeout(20)
            client.sendall(3 * request)
            clients.append(client)
        for _ in range(5):
            assert ask(port) == (200, b"small")
        time.sleep(7)
        for client in clients[:3]:
            received = 0
            with suppress(ConnectionResetError):
                while part := client.recv(1_000_000):
                    received += len(part)
            assert received < 2 * len(LARGE)


def test_a_client_that_reads_slowly_gets_it_all(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % port)
        received = 0
        while part := client.recv(400_000):
            received += len(part)
            time.sleep(0.3)
    assert received > len(LARGE)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[ServedIndex]:
    indexed(tmp_path, {"mail.md": "# Mail\n\nA stamp pays for the journey.\n"}, WORDS_ALONE)
    with ServedIndex(index=str(tmp_path / "index"), settings=WORDS_ALONE) as library:
        yield library


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Retriever]:
    closed: list[Retriever] = []
    close = Retriever.close

    def noted(retriever: Retriever) -> None:
        closed.append(retriever)
        close(retriever)

    monkeypatch.setattr(Retriever, "close", noted)
    return closed


def opened(library: ServedIndex, top_k: int) -> Retriever:
    with library.retriever(settings={"top_k": top_k}) as retriever:
        return retriever


def test_the_one_asked_for_longest_ago_is_closed(library: ServedIndex, closed: list[Retriever]) -> None:
    first, *others = [opened(library, top_k) for top_k in range(1, MAX_OPEN + 1)]
    assert opened(library, 1) is first
    opened(library, MAX_OPEN + 1)
    assert closed == [others[0]]
    assert opened(library, 1) is first
    library.close()
    assert len(closed) == MAX_OPEN + 1


def test_one_that_is_used_is_not_closed_however_many_are(library: ServedIndex, closed: list[Retriever]) -> None:
    with library.retriever(settings={"top_k": 1}) as used:
        others = [opened(library, top_k) for top_k in range(2, MAX_OPEN + 3)]
        assert closed == others[:2]
        assert used.search("stamp").hits
    assert opened(library, 1) is used
    with ExitStack() as stack:
        taken = [stack.enter_context(library.retriever(settings={"top_k": top_k})) for top_k in range(1, MAX_OPEN + 3)]
        before = len(closed)
        assert all(retriever.search("stamp").hits for retriever in taken)
        assert len(closed) == before
    assert len(closed) == before + 2
