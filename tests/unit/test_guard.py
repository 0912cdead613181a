"""Who is let in by what listens: a table of requests, and where a server may listen."""

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from retriever.errors import UsageError
from retriever.serving.guard import RequestGuard, ServerAddress, is_loopback
from retriever.serving.http import check_host, read_public_url

HOME = ServerAddress("127.0.0.1", 8470)
PORT_80 = ServerAddress("127.0.0.1", 80)
IPV6 = ServerAddress("::1", 8470)
OTHER_LOOPBACK = ServerAddress("127.0.0.2", 8470)
SECRET = "correct-horse-battery-staple"
LAN = ServerAddress("192.168.1.5", 8470, SECRET)
NAMED = ServerAddress("Nas.example", 8470, SECRET)
PROXIED = ServerAddress("10.0.0.5", 8470, SECRET, "https://notes.example")
PUBLIC, TEN = ("host", "notes.example"), ("host", "10.0.0.5:8470")
OK = 200

OWN, NAS = ("host", "localhost:8470"), ("host", "192.168.1.5:8470")
ELSEWHERE, NAVIGATE = ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")
TOKEN = ("authorization", f"Bearer {SECRET}")
TABLE: list[tuple[str, ServerAddress, str, str, list[tuple[str, str]], int]] = [
    # name, address, method, target, headers, status
    ("own name", HOME, "GET", "/", [OWN], OK),
    ("own address", HOME, "POST", "/mcp", [("host", "127.0.0.1:8470")], OK),
    ("own IPv6 address", HOME, "POST", "/mcp", [("host", "[::1]:8470")], OK),
    ("case of a host", HOME, "GET", "/", [("host", "LocalHost:8470")], OK),
    ("own origin", HOME, "POST", "/mcp", [OWN, ("origin", "http://localhost:8470")], OK),
    ("no port where it is 80", PORT_80, "GET", "/", [("host", "localhost")], OK),
    ("bound to IPv6", IPV6, "GET", "/", [("host", "[::1]:8470")], OK),
    ("another loopback address", OTHER_LOOPBACK, "GET", "/", [("host", "127.0.0.2:8470")], OK),
    ("no host", HOME, "GET", "/", [], 400),
    ("two hosts in one", HOME, "GET", "/", [("host", "localhost:8470, evil.example")], 400),
    ("a foreign host", HOME, "GET", "/", [("host", "evil.example")], 400),
    ("another port", HOME, "GET", "/", [("host", "localhost:8471")], OK),
    ("no port", HOME, "GET", "/", [("host", "localhost")], OK),
    ("an empty port", HOME, "GET", "/", [("host", "localhost:")], 400),
    ("user info", HOME, "GET", "/", [("host", "localhost:1@evil.example")], 400),
    ("our name as prefix", HOME, "GET", "/", [("host", "localhost.evil.example:8470")], 400),
    ("our address as prefix", HOME, "GET", "/", [("host", "127.0.0.1.evil.example:8470")], 400),
    ("a trailing dot", HOME, "GET", "/", [("host", "localhost.:8470")], 400),
    ("an octal address", HOME, "GET", "/", [("host", "0177.0.0.1:8470")], 400),
    ("IPv6 without brackets", HOME, "GET", "/", [("host", "::1:8470")], 400),
    ("IPv4 in IPv6", HOME, "GET", "/", [("host", "[::ffff:127.0.0.1]:8470")], 400),
    ("NUL", HOME, "GET", "/", [("host", "localhost:8470\0")], 400),
    ("forwarded host", HOME, "GET", "/", [("host", "evil.example"), ("x-forwarded-host", "localhost:8470")], 400),
    ("null origin", HOME, "POST", "/mcp", [OWN, ("origin", "null")], 403),
    ("foreign origin", HOME, "POST", "/mcp", [OWN, ("origin", "https://evil.example")], 403),
    ("origin of another port", HOME, "POST", "/", [OWN, ("origin", "http://localhost:3000")], 403),
    ("origin without port", HOME, "POST", "/", [OWN, ("origin", "http://localhost")], 403),
    ("https origin", HOME, "POST", "/", [OWN, ("origin", "https://localhost:8470")], 403),
    ("origin of our other name", HOME, "POST", "/mcp", [OWN, ("origin", "http://127.0.0.1:8470")], 403),
    (
        "two origins",
        HOME,
        "POST",
        "/mcp",
        [OWN, ("origin", "http://localhost:8470"), ("origin", "http://evil.example")],
        403,
    ),
    ("an image elsewhere", HOME, "GET", "/", [OWN, ELSEWHERE], 403),
    ("our own image", HOME, "GET", "/", [OWN, ("sec-fetch-site", "same-origin")], OK),
    ("typed by hand", HOME, "GET", "/", [OWN, ("sec-fetch-site", "none")], OK),
    ("a link elsewhere", HOME, "GET", "/", [OWN, ELSEWHERE, NAVIGATE, ("sec-fetch-dest", "document")], OK),
    ("a frame elsewhere", HOME, "GET", "/", [OWN, ELSEWHERE, NAVIGATE, ("sec-fetch-dest", "iframe")], 403),
    ("a form elsewhere", HOME, "POST", "/", [OWN, ELSEWHERE, NAVIGATE, ("sec-fetch-dest", "document")], 403),
    ("token", LAN, "POST", "/mcp", [NAS, TOKEN], OK),
    ("token, any case", LAN, "POST", "/", [NAS, ("authorization", f"bearer {SECRET}")], OK),
    ("a name", NAMED, "POST", "/", [("host", "nas.example:8470"), TOKEN], OK),
    ("no token", LAN, "POST", "/mcp", [NAS], 401),
    ("token in another case", LAN, "POST", "/", [NAS, ("authorization", f"Bearer {SECRET.upper()}")], 401),
    ("basic", LAN, "POST", "/mcp", [NAS, ("authorization", f"Basic {SECRET}")], 401),
    ("not ASCII", LAN, "POST", "/mcp", [NAS, ("authorization", "Bearer \u00ff")], 401),
    ("two tokens", LAN, "POST", "/mcp", [NAS, TOKEN, ("authorization", "Bearer x")], 401),
    ("token, foreign host", LAN, "POST", "/", [("host", "evil.example:8470"), TOKEN], 400),
    ("through a proxy", PROXIED, "GET", "/", [PUBLIC, TOKEN], OK),
    ("the proxy's page", PROXIED, "POST", "/", [PUBLIC, TOKEN, ("origin", "https://notes.example")], OK),
    ("the proxy's page without TLS", PROXIED, "POST", "/", [PUBLIC, TOKEN, ("origin", "http://notes.example")], 403),
    ("the proxy's page, our Host", PROXIED, "POST", "/", [TEN, TOKEN, ("origin", "https://notes.example")], 403),
    ("through a proxy without the token", PROXIED, "GET", "/", [PUBLIC], 401),
    ("a probe", PROXIED, "GET", "/readyz", [("host", "pod-7")], OK),
    ("a probe from a page", PROXIED, "GET", "/healthz", [("host", "pod-7"), ("origin", "http://pod-7.example")], 403),
    ("the API without the token", PROXIED, "GET", "/api/search", [PUBLIC], 401),
    ("a body as large as may be", HOME, "POST", "/", [OWN, ("content-length", "1000000")], OK),
    ("a larger body", HOME, "POST", "/", [OWN, ("content-length", "1000001")], 413),
    ("an endless body", HOME, "POST", "/", [OWN, ("content-length", "9" * 5000)], 413),
    ("a negative body", HOME, "POST", "/", [OWN, ("content-length", "-1")], 413),
    ("a length and chunks", HOME, "POST", "/", [OWN, ("content-length", "5"), ("transfer-encoding", "chunked")], 413),
    ("chunks", HOME, "POST", "/", [OWN, ("transfer-encoding", "chunked")], 413),
]


@pytest.mark.parametrize(
    ("address", "method", "target", "headers", "status"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_who_is_let_in(
    address: ServerAddress, method: str, target: str, headers: list[tuple[str, str]], status: int
) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "method": method, "path": target, "headers": raw}
    statuses: list[int] = []

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": OK})

    async def receive() -> Message:
        raise AssertionError("no body is read")

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    asyncio.run(RequestGuard(answer, address)(scope, receive, send))
    assert statuses == [status]


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("LOCALHOST", True), ("0.0.0.0", False),
        ("::", False), ("192.168.1.5", False), ("localhost.evil.example", False), ("::ffff:192.168.1.5", False),
        ("", False),
    ],
)  # fmt: skip
def test_which_hosts_are_of_this_machine_alone(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone


def test_other_machines_need_a_token() -> None:
    check_host("127.0.0.1", "")
    check_host("192.168.1.5", SECRET)
    with pytest.raises(UsageError, match="--token-file"):
        check_host("192.168.1.5", "")
    for everywhere in ("0.0.0.0", "::", ""):
        with pytest.raises(UsageError, match="every address"):
            check_host(everywhere, SECRET)


def test_where_a_proxy_is() -> None:
    assert read_public_url("https://Notes.Example/") == "https://notes.example"
    assert read_public_url("http://localhost:8080") == "http://localhost:8080"
    for wrong in (
        "notes.example",
        "https://",
        "ftp://x",
        "https://x/notes",
        "https://me@x",
        "https://x:y",
        "http://x?y",
    ):
        with pytest.raises(UsageError, match="--public-url"):
            read_public_url(wrong)
