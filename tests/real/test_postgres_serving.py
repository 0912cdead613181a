"""Two servers over one database, the second as on another machine: any of them answers what is there now."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg  # noqa: TID253  # these tests are of it
import pytest

from retriever.api import index_folders
from retriever.postgres.command import make_tables
from retriever.postgres.connection import read_url
from tests.postgres import Server, execute
from tests.program import wait_for
from tests.real.served import PAGES, Served, served
from tests.shelf import write_pages

pytestmark = pytest.mark.timeout(180)
STAMPS = "what pays for a letter?"


@dataclass(frozen=True)
class Team:
    index: str
    docs: Path
    servers: list[Served]

    def ask(self, server: int, path: str = "/api/search", question: str = STAMPS) -> httpx.Response:
        return httpx.get(f"{self.servers[server].url}{path}", params={"question": question}, timeout=60)

    def ask_each(self, question: str) -> list[list[str]]:
        """The files that each server finds."""
        answers = [self.ask(number, question=question).json() for number in range(len(self.servers))]
        assert all("hits" in answer for answer in answers), answers
        return [[hit["file"] for hit in answer["hits"]] for answer in answers]


def is_refused(team: Team, server: int) -> bool:
    try:
        team.ask(server, "/readyz")
    except httpx.TransportError:  # or it was taken as the server stopped to listen, and dropped
        return True
    return False


@pytest.fixture(scope="module")
def team(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("team")
    docs = write_pages(folder / "docs", PAGES)
    homes: tuple[dict[str, str], ...] = ({}, {"XDG_DATA_HOME": str(folder / "elsewhere")})
    with postgres_server.new_index() as index, ExitStack() as stack:
        index_folders([docs], index)
        servers = [stack.enter_context(served(index, "--web", **home)) for home in homes]
        for server in servers:
            server.wait_until_ready()
        yield Team(index, docs, servers)


def test_a_database_that_stops_makes_no_server_ready(team: Team, postgres_server: Server) -> None:
    assert all(files[0] == "mail.md" for files in team.ask_each(STAMPS))
    postgres_server.stop()
    try:
        for number in range(2):
            said = team.ask(number, "/readyz")
            assert said.status_code == 503
            assert said.json() == {"error": "it cannot answer now; its log says why"}
        failed = team.ask(0)
        assert (failed.status_code, "cannot be reached" in failed.json()["error"]) == (503, True)
    finally:
        postgres_server.start()
    for server in team.servers:
        server.wait_until_ready()
    assert team.ask(0).json()["hits"]


def test_a_change_is_seen_by_each_server(team: Team, tmp_path: Path) -> None:
    write_pages(team.docs, {"zebra.md": "# Zebra\n\nA zebra has stripes.\n"})
    index_folders([], team.index)
    assert [files[0] for files in team.ask_each("zebra stripes")] == ["zebra.md"] * 2
    execute(team.index, "DROP SCHEMA hybrid_retrieve CASCADE")
    make_tables(read_url(team.index))  # another index in its place
    lions = write_pages(tmp_path / "lions", {"lion.md": "# Lion\n\nA lion has no stripes.\n"})
    index_folders([lions], team.index)
    assert team.ask_each("stripes") == [["lion.md"]] * 2


def test_a_server_that_is_told_to_end_answers_what_is_in_flight(team: Team) -> None:
    with closing(psycopg.connect(team.index)) as connection, ThreadPoolExecutor(1) as pool:
        connection.execute("LOCK TABLE hybrid_retrieve.meta IN ACCESS EXCLUSIVE MODE")
        question = pool.submit(team.ask, 1)
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        wait_for(lambda: bool(execute(team.index, waiting)))
        team.servers[1].process.send_signal(signal.SIGTERM)
        wait_for(lambda: is_refused(team, 1))
        connection.rollback()
        assert question.result().json()["hits"]
    assert team.servers[1].process.wait(10) == 0
