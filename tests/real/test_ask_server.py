"""`ask --server`: the index of a running `serve --web` answers, and what is printed is as if it were opened here."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from retriever.errors import QuestionError, ServingError, UsageError
from retriever.query import AskRequest, Scope
from retriever.serving import client
from retriever.serving.client import ask_server
from tests.program import Cli
from tests.real.served import PAGES, Served, indexed, served

QUESTION = "what pays for a leter?"
PRICES = "# Prices\n\n| parcel | price |\n|---|---|\n| small parcel | 4 |\n| large parcel | 9 |\n"
TIMES = re.compile(r"\d+\.\d+ (s|ms)\b|^ +\d+\.\d", re.MULTILINE)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return indexed(tmp_path_factory.mktemp("server"), PAGES | {"prices.md": PRICES})


@pytest.fixture(scope="module")
def server(index: Path) -> Iterator[Served]:
    with served(index, "--web") as server:
        server.wait_until_ready()
        yield server


@pytest.mark.parametrize("flags", [(), ("--full",), ("--explain",), ("--in", "mail.md"), ("--after", "who writes?")])
def test_a_page_is_the_same(index: Path, server: Served, cli: Cli, flags: tuple[str, ...]) -> None:
    here, there = cli(QUESTION, "--index", index, *flags), cli(QUESTION, "--server", server.url, *flags)
    assert TIMES.sub("", there.out) == TIMES.sub("", here.out)
    assert TIMES.sub("", there.err) == TIMES.sub("", here.err)
    assert "mail.md" in there.out


def test_rows_of_a_table_are_shown(index: Path, server: Served, cli: Cli) -> None:
    question = "price of a large parcel"
    there = cli(question, "--server", server.url).out
    assert there == cli(question, "--index", index).out
    assert "| large parcel | 9 |" in there


@pytest.mark.parametrize("flags", [(), ("--full", "--explain", "--profile", "recall")])
def test_json_is_the_same(index: Path, server: Served, cli: Cli, flags: tuple[str, ...]) -> None:
    here, there = (
        json.loads(cli(QUESTION, "--json", *place, *flags).out)
        for place in (("--index", str(index)), ("--server", server.url))
    )
    for content in (here, there):
        del content["timings_ms"]
        for stage in content.get("trace", {}).get("stages", ()):
            del stage["milliseconds"]
    assert there == here


def test_a_program_asks_a_server(server: Served) -> None:
    answer = ask_server(server.url, AskRequest(QUESTION, scope=Scope(folders=("mail.md",))))
    assert answer.hits[0].citation.startswith("mail.md:")
    with pytest.raises(QuestionError, match="nowhere"):
        ask_server(server.url, AskRequest("in:nowhere stamps"))
    with pytest.raises(QuestionError, match="there is no profile"):
        ask_server(server.url, AskRequest("stamps"), profile="swift")


def test_a_token_is_sent(index: Path, tmp_path: Path, cli: Cli) -> None:
    with served(index, "--web", "--token-file", str(tmp_path / "token")) as server:
        server.wait_until_ready()
        assert "mail.md" in cli(QUESTION, "--server", server.url, "--token-file", tmp_path / "token").out
        assert "`ask` sends that of --token-file" in cli(QUESTION, "--server", server.url, code=1).err
    assert "cannot be read" in cli(QUESTION, "--server", server.url, "--token-file", tmp_path / "none", code=2).err


def test_where_nothing_of_ours_answers(index: Path, cli: Cli) -> None:
    said = cli(QUESTION, "--server", "http://127.0.0.1:9", code=1).err
    assert "of this version answers at http://127.0.0.1:9 (" in said
    with served(index, "--mcp") as other, pytest.raises(ServingError, match="of this version"):
        ask_server(other.url, AskRequest(QUESTION))
    for url in ("ftp://localhost", "localhost:8470", "http://me:secret@localhost"):
        with pytest.raises(UsageError):
            ask_server(url, AskRequest(QUESTION))


@contextmanager
def replying(begin: bytes, again: bytes = b"", every_s: float = 0.0) -> Iterator[str]:
    """The address of a server that replies to one request with `begin`, then with `again` for ever, if there is any."""

    def reply() -> None:
        with suppress(OSError), listener.accept()[0] as connection:
            connection.recv(65_536)
            connection.sendall(begin)
            while again:
                connection.sendall(again)
                time.sleep(every_s)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=reply)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.close()
        thread.join(timeout=10)
    assert not thread.is_alive()


OK, CHUNKED = b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
MEGABYTE = b" " * 2**20


@pytest.mark.parametrize("head", [OK + b"\r\n", CHUNKED + b"-1\r\n"], ids=["without a length", "a chunk of length -1"])
def test_a_reply_that_is_too_large_is_not_read(head: bytes) -> None:
    with replying(head, MEGABYTE) as url, pytest.raises(ServingError, match="more than 67,108,864 bytes"):
        ask_server(url, AskRequest(QUESTION))


@pytest.mark.parametrize(
    "again",
    [b"X-Filler: y\r\n", b"\r\n ", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n"],
    ids=["headers", "a body", "other replies before it", "headers of those"],
)
def test_a_reply_that_is_not_complete_in_time_is_given_up(again: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.5)
    begin = again if b"100" in again else OK
    with replying(begin, again, every_s=0.1) as url, pytest.raises(ServingError, match="not complete in time"):
        ask_server(url, AskRequest(QUESTION))


@pytest.fixture(scope="module")
def reply(server: Served) -> Any:  # noqa: ANN401 - JSON
    """What the server sends, with all that it has."""
    given = {"question": QUESTION, "full": "true", "explain": "true", "in": "mail.md"}
    return httpx.get(f"{server.url}/api/search", params=given).json()


def printed_reply(cli: Cli, content: object, status: bytes = b"200") -> str:
    """What is said of such a reply."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    head = b"HTTP/1.1 %b OK\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
    with replying(head + body) as url:
        return cli(QUESTION, "--explain", "--server", url, code=1).err


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("hits", None), ("hits", {"0": []}), ("hits.0", []), ("hits.0.title", 7), ("hits.0.rank", True),
        ("hits.0.breadcrumb", "Mail"), ("hits.0.citation_state", "sure"), ("hits.0.start_line", 0),
        ("hits.0.end_line", 2**64), ("hits.0.passage", "1-2"), ("hits.0.evidence.0.source", "oracle"),
        ("hits.0.matched_fields", [{"key": "a"}]), ("hits.0.score", "high"), ("confidence", float("nan")),
        ("confidence", float("inf")), ("verdict", []), ("degraded", ["nothing: is known"]), ("index", 5),
        ("trace.stages.0.name", "\x1b[2J"), ("scope.folders", [None]), ("schema_version", "4"),
    ],
)  # fmt: skip
def test_an_answer_of_another_shape_is_refused(reply: Any, cli: Cli, place: str, value: object) -> None:  # noqa: ANN401
    changed = part = json.loads(json.dumps(reply))
    *way, last = (int(name) if name.isdecimal() else name for name in place.split("."))
    for name in way:
        part = part[name]
    part[last] = value
    assert "no `serve --web` of this version answers" in printed_reply(cli, changed)


@pytest.mark.parametrize("field", ["question", "hits", "verdict", "index", "trace", "schema_version"])
def test_an_answer_that_lacks_a_field_is_refused(reply: Any, cli: Cli, field: str) -> None:  # noqa: ANN401 - JSON
    rest = {name: value for name, value in reply.items() if name != field}
    assert "no `serve --web` of this version answers" in printed_reply(cli, rest)


@pytest.mark.parametrize("body", [b"[" * 200_000, b"9" * 5_000, b"{", b"[1]", b"\xff", b""])
def test_what_is_no_answer_is_refused(cli: Cli, body: bytes) -> None:
    assert "no `serve --web` of this version answers" in printed_reply(cli, body)


def test_an_error_of_a_server_is_short_and_steers_nothing(cli: Cli) -> None:
    said = printed_reply(cli, {"error": "no \x1b[2J" + "really " * 9_999}, b"503")
    assert "cannot answer: no \ufffd[2Jreally" in said
    assert len(said) < 2_200


def test_an_error_that_is_no_text_is_left_out(cli: Cli) -> None:
    assert "answers at http://127.0.0.1:" in printed_reply(cli, {"error": ["no"]}, b"503")
