"""Who is let in by what listens: a table of requests, and where a server may listen."""

import re
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from retriever.errors import UsageError
from retriever.serving.http import RequestGuard, ServerAddress, check_host

SECRET = "correct-horse"
PAGE = Path(__file__).parents[1] / "requests.md"
ROW = re.compile(r"^\| (\S+) \| `(\S+) (\S+)` \| `(.*?)` \| `?(.*?)`? \| (\d+) \|$", re.MULTILINE)
REQUESTS = ROW.findall(PAGE.read_text("utf-8"))


@pytest.mark.parametrize(
    ("listens_at", "method", "target", "host", "more", "status"), ROW.findall(PAGE.read_text("utf-8"))
)
def test_who_is_let_in(listens_at: str, method: str, target: str, host: str, more: str, status: str) -> None:
    token = "" if listens_at in ("127.0.0.1", "127.0.0.2", "::1") else SECRET
    client = TestClient(RequestGuard(PlainTextResponse("let in"), ServerAddress(listens_at, 8470, token)))
    headers = [line.partition(": ") for line in (f"host: {host}", *filter(None, more.split("; ")))]
    given = [(name.encode(), value.encode("latin-1")) for name, _, value in headers]
    answer = client.request(method, target, headers=given)
    assert answer.status_code == int(status)
    assert (answer.text == "let in") == (status == "200")


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
