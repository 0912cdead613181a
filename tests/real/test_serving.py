"""The server of HTTP before an application of a few lines: failures, and too many clients."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from retriever.retriever import Retriever
from retriever.serving.guard import ServerAddress
from retriever.serving.http import MAX_CONNECTIONS, listen, make_server
from retriever.serving.pool import ServedIndex
from tests.real.served import indexed
from tests.shelf import WORDS_ALONE


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        for kind in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{kind}"
            await send({"type": f"lifespan.{kind}.complete"})
        return
    if scope["path"] == "/broken":
        raise ValueError("/home/me/secret.md")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"small"})


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


def test_one_of_the_same_settings_stays_open_until_the_end(library: ServedIndex, closed: list[Retriever]) -> None:
    first, other = opened(library, 1), opened(library, 2)
    assert opened(library, 1) is first is not other
    assert first.search("stamp").hits
    assert closed == []
    library.close()
    assert closed == [first, other]
