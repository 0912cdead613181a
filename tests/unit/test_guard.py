"""Who is let in by what listens: a table of requests, and where a server may listen."""

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from retriever.errors import UsageError
from retriever.serving.http import RequestGuard, ServerAddress, check_host

HOME = ServerAddress("127.0.0.1", 8470)
IPV6 = ServerAddress("::1", 8470)
OTHER_LOOPBACK = ServerAddress("127.0.0.2", 8470)
SECRET = "correct-horse-battery-staple"
LAN = ServerAddress("192.168.1.5", 8470, SECRET)
NAMED = ServerAddress("Nas.example", 8470, SECRET)
OK = 200

OWN, NAS = "localhost:8470", "192.168.1.5:8470"
ELSEWHERE, NAVIGATE, DOCUMENT = "sec-fetch-site: cross-site", "sec-fetch-mode: navigate", "sec-fetch-dest: document"
TOKEN = f"authorization: Bearer {SECRET}"
TABLE: list[tuple[ServerAddress, str, str, list[str], int]] = [
    # address, method and target, Host, other headers, status
    (HOME, "GET /", OWN, [], OK),
    (HOME, "POST /mcp", "127.0.0.1:8470", [], OK),
    (HOME, "POST /mcp", "[::1]:8470", [], OK),
    (HOME, "GET /", "LocalHost:8470", [], OK),
    (HOME, "POST /mcp", OWN, ["origin: http://localhost:8470"], OK),
    (IPV6, "GET /", "[::1]:8470", [], OK),
    (OTHER_LOOPBACK, "GET /", "127.0.0.2:8470", [], OK),
    (HOME, "GET /", "", [], 400),
    (HOME, "GET /", "localhost:8470, evil.example", [], 400),
    (HOME, "GET /", "evil.example", [], 400),
    (HOME, "GET /", "localhost:1@evil.example", [], 400),
    (HOME, "GET /", "localhost.evil.example:8470", [], 400),
    (HOME, "GET /", "[::ffff:127.0.0.1]:8470", [], 400),
    (HOME, "GET /", "evil.example", ["x-forwarded-host: localhost:8470"], 400),
    (HOME, "POST /mcp", OWN, ["origin: null"], 403),
    (HOME, "POST /mcp", OWN, ["origin: https://evil.example"], 403),
    (HOME, "POST /", OWN, ["origin: http://localhost:3000"], 403),
    (HOME, "POST /mcp", OWN, ["origin: http://127.0.0.1:8470"], 403),
    (HOME, "GET /", OWN, [ELSEWHERE], 403),
    (HOME, "GET /", OWN, ["sec-fetch-site: same-site"], 403),
    (HOME, "GET /", OWN, ["sec-fetch-site: same-origin"], OK),
    (HOME, "GET /", OWN, ["sec-fetch-site: none"], OK),
    (HOME, "GET /", OWN, [ELSEWHERE, NAVIGATE, DOCUMENT], OK),
    (HOME, "GET /", OWN, [ELSEWHERE, NAVIGATE, "sec-fetch-dest: iframe"], 403),
    (HOME, "POST /", OWN, [ELSEWHERE, NAVIGATE, DOCUMENT], 403),
    (LAN, "POST /mcp", NAS, [TOKEN], OK),
    (LAN, "POST /", NAS, [f"authorization: bearer {SECRET}"], OK),
    (NAMED, "POST /", "nas.example:8470", [TOKEN], OK),
    (LAN, "POST /mcp", NAS, [], 401),
    (LAN, "GET /api/search", NAS, [], 401),
    (LAN, "POST /mcp", NAS, [f"authorization: Basic {SECRET}"], 401),
    (LAN, "POST /mcp", NAS, ["authorization: Bearer \u00ff"], 401),
    (LAN, "POST /", "evil.example:8470", [TOKEN], 400),
    (LAN, "GET /readyz", "pod-7", [], OK),
]


@pytest.mark.parametrize(("address", "request_line", "host", "headers", "status"), TABLE)
def test_who_is_let_in(address: ServerAddress, request_line: str, host: str, headers: list[str], status: int) -> None:
    client = TestClient(RequestGuard(PlainTextResponse("let in"), address))
    method, target = request_line.split()
    lines = [f"host: {host}", *headers]
    given = [(name.encode(), value.encode("latin-1")) for name, _, value in (line.partition(": ") for line in lines)]
    answer = client.request(method, target, headers=given)
    assert answer.status_code == status
    assert (answer.text == "let in") == (status == OK)


def test_other_machines_need_a_token() -> None:
    check_host("192.168.1.5", SECRET)
    for alone in ("127.0.0.1", "127.9.9.9", "::1", "LOCALHOST"):
        check_host(alone, "")
    for reached in ("192.168.1.5", "localhost.evil.example", "::ffff:192.168.1.5"):
        with pytest.raises(UsageError, match="--token-file"):
            check_host(reached, "")
    for everywhere in ("0.0.0.0", "::", ""):
        with pytest.raises(UsageError, match="every address"):
            check_host(everywhere, SECRET)
