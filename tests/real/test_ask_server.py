"""`ask --server`: the index of a running `serve --web` answers, and what is printed is as if it were opened here."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from retriever.errors import QuestionError, ServingError, UsageError
from retriever.query import AskRequest, Scope
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
