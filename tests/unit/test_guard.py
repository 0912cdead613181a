"""Who is let in by what listens: a table of requests, and what the guard does with bodies, answers and failures."""

import asyncio
import json
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from retriever.errors import BusyError, UsageError
from retriever.serving.guard import UNBUFFERED, Limits, RequestGuard, ServerAddress, find_refusal, is_loopback
from retriever.serving.http import check_host, read_public_url
from retriever.serving.turns import Turns

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
    ("case of an origin", HOME, "POST", "/", [OWN, ("origin", "HTTP://LOCALHOST:8470")], OK),
    ("no port where it is 80", PORT_80, "GET", "/", [("host", "localhost")], OK),
    ("port 80 in full", PORT_80, "GET", "/", [("host", "localhost:80")], OK),
    ("bound to IPv6", IPV6, "GET", "/", [("host", "[::1]:8470")], OK),
    ("another loopback address", OTHER_LOOPBACK, "GET", "/", [("host", "127.0.0.2:8470")], OK),
    ("HEAD", HOME, "HEAD", "/", [OWN], OK),
    ("no host", HOME, "GET", "/", [], 400),
    ("an empty host", HOME, "GET", "/", [("host", "")], 421),
    ("two hosts", HOME, "GET", "/", [OWN, ("host", "evil.example")], 400),
    ("the same host twice", HOME, "GET", "/", [OWN, OWN], 400),
    ("two hosts in one", HOME, "GET", "/", [("host", "localhost:8470, evil.example")], 421),
    ("a foreign host", HOME, "GET", "/", [("host", "evil.example")], 421),
    ("a foreign host, our port", HOME, "GET", "/", [("host", "evil.example:8470")], 421),
    ("another port", HOME, "GET", "/", [("host", "localhost:8471")], 421),
    ("no port", HOME, "GET", "/", [("host", "localhost")], 421),
    ("an empty port", HOME, "GET", "/", [("host", "localhost:")], 421),
    ("a port with a zero", HOME, "GET", "/", [("host", "localhost:08470")], 421),
    ("a port that begins like ours", HOME, "GET", "/", [("host", "localhost:84700")], 421),
    ("user info", HOME, "GET", "/", [("host", "localhost:1@evil.example")], 421),
    ("user info, our port", HOME, "GET", "/", [("host", "localhost:8470@evil.example")], 421),
    ("our name as user", HOME, "GET", "/", [("host", "evil.example@localhost:8470")], 421),
    ("our name as prefix", HOME, "GET", "/", [("host", "localhost.evil.example:8470")], 421),
    ("our address as prefix", HOME, "GET", "/", [("host", "127.0.0.1.evil.example:8470")], 421),
    ("our name as suffix", HOME, "GET", "/", [("host", "evil.localhost:8470")], 421),
    ("a trailing dot", HOME, "GET", "/", [("host", "localhost.:8470")], 421),
    ("every address", HOME, "GET", "/", [("host", "0.0.0.0:8470")], 421),
    ("a short address", HOME, "GET", "/", [("host", "127.1:8470")], 421),
    ("a decimal address", HOME, "GET", "/", [("host", "2130706433:8470")], 421),
    ("an octal address", HOME, "GET", "/", [("host", "0177.0.0.1:8470")], 421),
    ("IPv6 without brackets", HOME, "GET", "/", [("host", "::1:8470")], 421),
    ("IPv6 in full", HOME, "GET", "/", [("host", "[0:0:0:0:0:0:0:1]:8470")], 421),
    ("IPv4 in IPv6", HOME, "GET", "/", [("host", "[::ffff:127.0.0.1]:8470")], 421),
    ("IPv6 with a zone", HOME, "GET", "/", [("host", "[::1%25lo]:8470")], 421),
    ("a space before", HOME, "GET", "/", [("host", " localhost:8470")], 421),
    ("a tab after", HOME, "GET", "/", [("host", "localhost:8470\t")], 421),
    ("NUL", HOME, "GET", "/", [("host", "localhost:8470\0")], 421),
    ("other letters", HOME, "GET", "/", [("host", "loc\u00e4lhost:8470")], 421),
    ("a path in the host", HOME, "GET", "/", [("host", "localhost:8470/")], 421),
    ("forwarded host", HOME, "GET", "/", [("host", "evil.example"), ("x-forwarded-host", "localhost:8470")], 421),
    ("an absolute target", HOME, "GET", "http://evil.example/", [OWN], 400),
    ("our own absolute target", HOME, "GET", "http://localhost:8470/", [OWN], 400),
    ("target *", HOME, "GET", "*", [OWN], 400),
    ("a preflight", HOME, "OPTIONS", "/mcp", [OWN, ("origin", "http://localhost:8470")], 405),
    ("CONNECT", HOME, "CONNECT", "/", [OWN], 405),
    ("TRACE", HOME, "TRACE", "/", [OWN], 405),
    ("a method in small letters", HOME, "get", "/", [OWN], 405),
    ("null origin", HOME, "POST", "/mcp", [OWN, ("origin", "null")], 403),
    ("empty origin", HOME, "POST", "/mcp", [OWN, ("origin", "")], 403),
    ("foreign origin", HOME, "POST", "/mcp", [OWN, ("origin", "https://evil.example")], 403),
    ("origin of another port", HOME, "POST", "/", [OWN, ("origin", "http://localhost:3000")], 403),
    ("origin without port", HOME, "POST", "/", [OWN, ("origin", "http://localhost")], 403),
    ("our origin as prefix", HOME, "POST", "/mcp", [OWN, ("origin", "http://localhost:8470.evil.example")], 403),
    ("https origin", HOME, "POST", "/", [OWN, ("origin", "https://localhost:8470")], 403),
    ("origin with a slash", HOME, "POST", "/", [OWN, ("origin", "http://localhost:8470/")], 403),
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
    ("an image next address", HOME, "GET", "/", [OWN, ("sec-fetch-site", "same-site")], 403),
    ("our own image", HOME, "GET", "/", [OWN, ("sec-fetch-site", "same-origin")], OK),
    ("typed by hand", HOME, "GET", "/", [OWN, ("sec-fetch-site", "none")], OK),
    ("a link elsewhere", HOME, "GET", "/", [OWN, ELSEWHERE, NAVIGATE, ("sec-fetch-dest", "document")], OK),
    ("a frame elsewhere", HOME, "GET", "/", [OWN, ELSEWHERE, NAVIGATE, ("sec-fetch-dest", "iframe")], 403),
    ("a form elsewhere", HOME, "POST", "/", [OWN, ELSEWHERE, NAVIGATE, ("sec-fetch-dest", "document")], 403),
    ("token", LAN, "POST", "/mcp", [NAS, TOKEN], OK),
    ("token, any case", LAN, "POST", "/", [NAS, ("authorization", f"bearer {SECRET}")], OK),
    ("a name", NAMED, "POST", "/", [("host", "nas.example:8470"), TOKEN], OK),
    ("no token", LAN, "POST", "/mcp", [NAS], 401),
    ("empty token", LAN, "POST", "/mcp", [NAS, ("authorization", "Bearer ")], 401),
    ("half a token", LAN, "POST", "/", [NAS, ("authorization", f"Bearer {SECRET[:9]}")], 401),
    ("more than a token", LAN, "POST", "/", [NAS, ("authorization", f"Bearer {SECRET} ")], 401),
    ("token in another case", LAN, "POST", "/", [NAS, ("authorization", f"Bearer {SECRET.upper()}")], 401),
    ("basic", LAN, "POST", "/mcp", [NAS, ("authorization", f"Basic {SECRET}")], 401),
    ("not ASCII", LAN, "POST", "/mcp", [NAS, ("authorization", "Bearer \u00ff")], 401),
    ("two tokens", LAN, "POST", "/mcp", [NAS, TOKEN, ("authorization", "Bearer x")], 401),
    ("token, foreign host", LAN, "POST", "/", [("host", "evil.example:8470"), TOKEN], 421),
    ("loopback name elsewhere", LAN, "GET", "/", [OWN, TOKEN], 421),
    ("through a proxy", PROXIED, "GET", "/", [PUBLIC, TOKEN], OK),
    ("the proxy's page", PROXIED, "POST", "/", [PUBLIC, TOKEN, ("origin", "https://notes.example")], OK),
    ("the proxy's page without TLS", PROXIED, "POST", "/", [PUBLIC, TOKEN, ("origin", "http://notes.example")], 403),
    ("the proxy's page, our Host", PROXIED, "POST", "/", [TEN, TOKEN, ("origin", "https://notes.example")], 403),
    ("through a proxy without the token", PROXIED, "GET", "/", [PUBLIC], 401),
    ("another name of the proxy", PROXIED, "GET", "/", [("host", "notes.example:8470"), TOKEN], 421),
    ("a probe", PROXIED, "GET", "/readyz", [("host", "pod-7")], OK),
    ("a probe from a page", PROXIED, "GET", "/healthz", [("host", "pod-7"), ("origin", "http://pod-7.example")], 403),
    ("metrics without the token", PROXIED, "GET", "/metrics", [PUBLIC], 401),
    ("a body as large as may be", HOME, "POST", "/", [OWN, ("content-length", "1000000")], OK),
    ("a larger body", HOME, "POST", "/", [OWN, ("content-length", "1000001")], 413),
    ("an endless body", HOME, "POST", "/", [OWN, ("content-length", "9" * 5000)], 413),
    ("a negative body", HOME, "POST", "/", [OWN, ("content-length", "-1")], 413),
    ("two lengths", HOME, "POST", "/", [OWN, ("content-length", "1"), ("content-length", "9999999")], 413),
    ("a length and chunks", HOME, "POST", "/", [OWN, ("content-length", "5"), ("transfer-encoding", "chunked")], 400),
    ("chunks", HOME, "POST", "/", [OWN, ("transfer-encoding", "chunked")], OK),
    ("many headers", HOME, "GET", "/", [OWN, *[("x", "y")] * 64], 431),
    ("large headers", HOME, "GET", "/", [OWN, ("cookie", "x" * 16_384)], 431),
]


@pytest.mark.parametrize(
    ("address", "method", "target", "headers", "status"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_who_is_let_in(
    address: ServerAddress, method: str, target: str, headers: list[tuple[str, str]], status: int
) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    refused = find_refusal(method, target.encode(), raw, address, Limits())
    assert (refused.status if refused else OK) == status


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


class Client:
    def __init__(self, *body: bytes, headers: Iterable[tuple[bytes, bytes]] = (), leaves: bool = False) -> None:
        self.headers = [(b"host", b"localhost:8470"), *headers]
        self.pending: list[Message] = [{"type": "http.request", "body": part, "more_body": True} for part in body]
        self.pending.append({"type": "http.disconnect"} if leaves else {"type": "http.request", "body": b""})
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        if not self.pending:
            await asyncio.Event().wait()
        return self.pending.pop(0)

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def ask(self, app: Any, **limits: Any) -> int | None:  # noqa: ANN401 - any ASGI application
        asyncio.run(self.send_to(RequestGuard(app, HOME, Limits(**limits))))
        return self.status

    async def send_to(self, guard: RequestGuard) -> None:
        scope = {"type": "http", "method": "POST", "path": "/", "raw_path": b"/", "headers": self.headers}
        await guard(scope, self.receive, self.send)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    @property
    def answer(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


async def never(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    assert not message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"X-Frame-Options", b"SAMEORIGIN")]})
    await send({"type": "http.response.body", "body": message["body"]})


def test_a_body_comes_in_one_piece() -> None:
    client = Client(b"one ", b"two")
    assert client.ask(echo) == 200
    assert client.answer == b"one two"
    headers = dict(client.sent[0]["headers"])
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"x-frame-options"] == b"SAMEORIGIN", "what the application says stays"
    assert not any(name.startswith(b"access-control-") for name in headers)


def test_a_body_is_counted_waited_for_and_needed_whole() -> None:
    assert Client(b"x" * 60, b"x" * 60).ask(echo, body_bytes=100) == 413
    client = Client(b"x")
    client.pending.pop()
    assert client.ask(echo, body_seconds=0.01) == 408
    client.pending = [{"type": "http.request", "body": b"x", "more_body": True}]
    client.sent.clear()
    assert client.ask(echo, stall_seconds=0.01) == 408
    assert Client(b"x", leaves=True).ask(never) is None


def test_an_answer_is_bounded() -> None:
    client = Client(b"x" * 100)
    assert client.ask(echo, answer_bytes=99) == 500
    assert json.loads(client.answer) == {"error": "the answer is too large; ask for less"}


def test_an_endless_answer_is_refused() -> None:
    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 10, "more_body": True})

    client = Client()
    assert client.ask(endless, answer_bytes=99) == 500
    assert json.loads(client.answer) == {"error": "the answer is too large; ask for less"}


def test_what_is_to_come_in_pieces_is_sent_at_once_and_bounded_too() -> None:
    client, seen = Client(), list[bytes]()

    async def pieces(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [UNBUFFERED]})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 10, "more_body": True})
            seen.append(client.answer)

    assert client.ask(pieces, answer_bytes=39) == 200
    assert seen == [b"x" * 10, b"x" * 20, b"x" * 30], "and then it is cut off"
    assert dict(client.sent[0]["headers"])[b"x-content-type-options"] == b"nosniff"
    assert len(client.sent) == 4


def test_only_whole_requests_take_a_place() -> None:
    """One place: a client whose body does not come, and one that does not read its answer, leave it to others."""

    async def play() -> list[int | None]:
        may_end = asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await may_end.wait()
            await echo(scope, receive, send)

        guard = RequestGuard(slow, HOME, Limits(at_once=1))
        half, unread, first, second, third = Client(b"x"), Client(), Client(), Client(), Client()
        half.pending.pop()

        async def never(message: Message) -> None:
            await asyncio.Event().wait()

        unread.send = never  # type: ignore[method-assign]  # it does not read
        async with asyncio.TaskGroup() as group:
            stalled = [group.create_task(half.send_to(guard))]
            working = group.create_task(first.send_to(guard))
            await asyncio.sleep(0)
            await second.send_to(guard)
            may_end.set()
            await working
            stalled.append(group.create_task(unread.send_to(guard)))
            await asyncio.sleep(0.01)
            await third.send_to(guard)
            for task in stalled:
                task.cancel()
        return [first.status, second.status, third.status]

    assert asyncio.run(play()) == [200, 503, 200]


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    assert Client().ask(slow, seconds=0.01) == 504


@pytest.mark.parametrize(
    "error", [ValueError("/home/me/secret.md"), TimeoutError("/home/me"), OSError(2, "no", "/etc")]
)
def test_a_failure_says_nothing_of_this_machine(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise error

    client = Client()
    assert client.ask(broken) == 500
    assert json.loads(client.answer) == {"error": "this is a bug; the server's standard error says more"}
    assert "Traceback" in caplog.text, "the log has it"


def test_other_protocols_reach_nothing() -> None:
    client = Client()
    asyncio.run(RequestGuard(never, HOME)({"type": "websocket"}, client.receive, client.send))
    assert client.sent == []


def test_who_waits_too_long_for_a_turn_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retriever.serving.turns.TURN_SECONDS", 0.05)
    may_end = threading.Event()

    async def play() -> None:
        turns = Turns(1)
        first = asyncio.create_task(turns.run(may_end.wait, 20))
        await asyncio.sleep(0.01)
        with pytest.raises(BusyError, match="ask again"):
            await turns.run(int)
        may_end.set()
        assert await first is True
        assert await turns.run(int) == 0

    asyncio.run(play())
