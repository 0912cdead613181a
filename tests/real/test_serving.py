"""HTTP as a process and before an application of a few lines: limits, failures, refusals."""

import http.client
import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from retriever.serving import http as serving
from tests.real.served import Served, mcp_request, served
from tests.tables import read_table


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


def raw(server: Served, content: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(content)
        return connection.recv(65_536)


LONG = [
    pytest.param("GET / HTTP/1.1\r\nHost: localhost:%d\r\nX: " + "y" * 200_000 + "\r\n\r\n", 400, id="a header"),
    pytest.param("GET /" + "a" * 200_000 + " HTTP/1.1\r\nHost: localhost:%d\r\n\r\n", 400, id="a path"),
]


@pytest.mark.parametrize(("content", "status"), [*read_table("requests", "What is no request of ours"), *LONG])
def test_what_is_no_request_of_ours_is_refused(server: Served, content: str, status: int) -> None:
    answer = raw(server, content.replace("%d", str(server.port)).encode("latin-1"))
    assert int(answer.split(b" ")[1]) == status
    assert b"access-control" not in answer.lower()


def test_a_token_is_made_and_asked_for(index: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    with served(index, "--mcp", "--token-file", str(file)) as server:
        token = file.read_text(encoding="ascii").strip()
        assert os.name != "posix" or file.stat().st_mode & 0o777 == 0o600
        message = json.dumps(mcp_request(1, "tools/list")).encode()
        assert post(server, message)[0] == 401
        assert post(server, message, authorization="Bearer wrong")[0] == 401
        assert post(server, message, authorization=f"Bearer {token}")[0] == 200


def test_a_browser_opens_where_it_is_asked_for(index: Path, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    for flag in ("--web", "--open"):
        with served(index, flag, BROWSER=f"sh -c 'echo $0 $1 >> {shown}' {flag} %s") as server:
            server.wait_until_ready()
    assert shown.read_text() == f"--open {server.url}/\n"


@pytest.mark.parametrize("origin", ["", "https://evil.example"])
@pytest.mark.parametrize("path", ["/", "/mcp", "/readyz", "/?%ff%fe=1", "/api/search?%ff%fe=1", "/api/node?depth=%ff"])
def test_every_answer_has_the_strict_headers(server: Served, path: str, origin: str) -> None:
    response = httpx.get(f"{server.url}{path}", headers={"Origin": origin} if origin else {})
    assert response.status_code < 500
    assert serving.HEADERS.items() <= {name.title(): value for name, value in response.headers.items()}.items()
    assert response.headers["content-security-policy"].startswith("default-src 'none'; ")
    assert not any(word in serving.POLICY for word in ("unsafe", "data:"))
