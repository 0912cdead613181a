"""The guard of a server: a table of requests, and where a server may listen."""

from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from retriever.errors import UsageError
from retriever.serving.http import RequestGuard, ServerAddress, check_host, open_token
from tests.tables import read_table

SECRET = "correct-horse"


@pytest.mark.parametrize(
    ("listens_at", "request_line", "host", "more", "status"), read_table("requests", "Who is let in")
)
def test_who_is_let_in(listens_at: str, request_line: str, host: str, more: str, status: int) -> None:
    token = "" if listens_at in ("127.0.0.1", "127.0.0.2", "::1") else SECRET
    client = TestClient(RequestGuard(PlainTextResponse("let in"), ServerAddress(listens_at, 8470, token)))
    headers = [line.partition(": ") for line in (f"host: {host}", *filter(None, more.split("; ")))]
    given = [(name.encode(), value.encode("latin-1")) for name, _, value in headers]
    answer = client.request(*request_line.split(), headers=given)
    assert answer.status_code == status
    assert (answer.text == "let in") == (status == 200)


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


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("t" * 40, encoding="ascii")
    file.chmod(0o640)
    with pytest.raises(UsageError, match="others can read"):
        open_token(file)


@pytest.mark.parametrize("text", read_table("requests", "What is no token"))
def test_what_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    with pytest.raises(UsageError, match="holds no token"):
        open_token(file)
