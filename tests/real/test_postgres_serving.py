"""Two servers over one database, behind a proxy that asks them in turn: any of them answers anything."""

import http.client
import itertools
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg  # noqa: TID253  # these tests are of it
import pytest

from retriever.api import index_folders
from retriever.store.database import INDEX_FORMAT
from retriever.store.store import open_store
from retriever.store.tables import make_tables
from tests.postgres import Server
from tests.program import Cli, command, environment
from tests.real.loopback import LoopbackHandler, LoopbackServer, serving
from tests.real.served import PAGES, Served, served
from tests.real.test_mcp import check, play
from tests.shelf import write_pages

pytestmark = pytest.mark.timeout(180)
STAMPS = "what pays for a letter?"
CLIENTS = 4


class RoundRobin(LoopbackHandler):
    """Passes each request to the next server, and to the one after it where that one is gone."""

    ports: list[int]
    turn: Iterator[int]

    def do_GET(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        turn = next(self.turn)
        for place in range(len(self.ports)):
            connection = http.client.HTTPConnection("127.0.0.1", self.ports[(turn + place) % len(self.ports)])
            try:
                connection.connect()
            except OSError:
                continue
            with closing(connection):
                try:
                    connection.request(self.command, self.path, content, dict(self.headers))
                    answer = connection.getresponse()
                    said, kind = answer.read(), answer.headers.get("content-type", "text/plain")
                except (OSError, http.client.HTTPException):
                    return self.reply(502, {"error": "the server went away with the question"})
            return self.reply_raw(answer.status, said, **{"content-type": kind})
        return self.reply(503, {"error": "no server is there"})

    do_POST = do_GET


@dataclass(frozen=True)
class Team:
    index: str
    docs: Path
    servers: list[Served]
    proxy: LoopbackServer

    def ask(self, path: str = "/api/search", server: int | None = None, question: str = "") -> httpx.Response:
        url = self.proxy.url if server is None else self.servers[server].url
        return httpx.get(f"{url}{path}", params={"question": question} if question else None, timeout=60)

    def ask_each(self, question: str) -> list[list[str]]:
        """The files that each server finds."""
        answers = [self.ask(server=number, question=question).json() for number in range(len(self.servers))]
        assert all("hits" in answer for answer in answers), answers
        return [[hit["file"] for hit in answer["hits"]] for answer in answers]

    def states(self) -> list[int]:
        return [self.ask("/readyz", number).status_code for number in range(len(self.servers))]


def wait_for(is_so: Callable[[], bool], seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextmanager
def start_team(index: str, folder: Path) -> Iterator[Team]:
    """Two servers that are ready, and the proxy.

    The second server knows nothing of the folder, as one on another machine.
    """
    docs = write_pages(folder / "docs", PAGES)
    index_folders([docs], index)
    with ExitStack() as stack:
        ports: list[int] = []
        handler = type("Proxy", (RoundRobin,), {"ports": ports, "turn": itertools.count()})
        proxy = stack.enter_context(serving(handler))
        options = ("--web", "--mcp")
        homes: tuple[dict[str, str], ...] = ({}, {"XDG_DATA_HOME": str(folder / "elsewhere")})
        servers = [stack.enter_context(served(index, *options, **home)) for home in homes]
        ports += [server.port for server in servers]
        team = Team(index, folder / "docs", servers, proxy)
        for server in servers:
            server.wait_until_ready()
        yield team


@pytest.fixture(scope="module")
def team(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with postgres_server.new_index() as index, start_team(index, tmp_path_factory.mktemp("team")) as team:
        yield team


def test_any_server_answers_anything(team: Team) -> None:
    # A page, a session of MCP with its cursors, go from one to the other.
    assert team.ask(server=0, question=STAMPS).status_code == 200
    assert "Stamps</a>" in team.ask("/", question=STAMPS).text
    for mode in ("auto", "legacy"):
        check(play(f"{team.proxy.url}/mcp", mode))


def test_a_database_that_stops_makes_no_server_ready(team: Team, postgres_server: Server) -> None:
    postgres_server.stop()
    try:
        assert team.states() == [503, 503]
        assert team.ask("/healthz", 0).json() == {"status": "ok"}
        failed = team.ask(question=STAMPS)
        assert (failed.status_code, "cannot be reached" in failed.json()["error"]) == (503, True)
    finally:
        postgres_server.start()
    for server in team.servers:
        server.wait_until_ready()
    assert team.ask(question=STAMPS).json()["hits"]


def test_two_versions_of_the_program_at_once(team: Team) -> None:
    """A server that runs since before an update of the tables is not ready; who writes then changes nothing."""
    watching = subprocess.Popen(
        command("watch", team.docs, "--index", team.index), env=environment(), stderr=subprocess.PIPE, text=True
    )
    connection = psycopg.connect(team.index, autocommit=True)
    assert watching.stderr is not None
    try:
        assert watching.stderr.readline().startswith("indexed ")
        connection.execute("COMMENT ON SCHEMA hybrid_retrieve IS 'hybrid-retrieve 99'")
        assert team.ask("/readyz", 0).status_code == 503
        write_pages(team.docs, {"okapi.md": "# Okapi\n"})
        assert "have version 99" in watching.stderr.readline()
        assert team.ask("/api/node?reference=okapi.md", 0).status_code == 404
    finally:
        watching.kill()
        watching.communicate()
        connection.execute(f"COMMENT ON SCHEMA hybrid_retrieve IS 'hybrid-retrieve {INDEX_FORMAT}'")
        connection.close()


def test_a_change_is_seen_by_each_server(team: Team, cli: Cli, tmp_path: Path) -> None:
    assert team.ask_each("zebra stripes")[0] == team.ask_each("zebra stripes")[1]
    write_pages(team.docs, {"zebra.md": "# Zebra\n\nA zebra has stripes.\n"})
    index_folders([], team.index)
    assert [files[0] for files in team.ask_each("zebra stripes")] == ["zebra.md"] * 2
    assert all("zebra.md" in team.ask("/api/tree", number).text for number in range(2))
    # Another index in its place: made anew from nothing, and brought by an import.
    cli("export", tmp_path / "zebra.zip", "--index", team.index)
    with closing(psycopg.connect(team.index, autocommit=True)) as connection:
        connection.execute("DROP SCHEMA hybrid_retrieve CASCADE")
    make_tables(open_store(team.index).url)
    lions = write_pages(tmp_path / "lions", {"lion.md": "# Lion\n\nA lion has no stripes.\n"})
    index_folders([lions], team.index)
    assert team.ask_each("stripes") == [["lion.md"]] * 2
    cli("import", tmp_path / "zebra.zip", "--index", team.index, "--force")
    assert [files[0] for files in team.ask_each("zebra stripes")] == ["zebra.md"] * 2


def test_no_question_is_lost_but_those_in_flight_with_a_server_that_is_killed(postgres: str, tmp_path: Path) -> None:
    """And none at all with one that is told to end: it answers what is in flight."""
    with start_team(postgres, tmp_path) as team:
        kill_one(team)
        end_other(team)


def kill_one(team: Team) -> None:
    answered = Counter[int]()
    lock = threading.Lock()

    def ask_many(number: int) -> None:
        for _ in range(8):
            status = team.ask(question=STAMPS).status_code
            with lock:
                answered[status] += 1

    with ThreadPoolExecutor(CLIENTS) as pool:
        asking = [pool.submit(ask_many, number) for number in range(CLIENTS)]
        wait_for(lambda: answered.total() > CLIENTS)
        team.servers[0].process.kill()
        for future in asking:
            future.result()
    assert answered.total() == 8 * CLIENTS
    assert set(answered) <= {200, 502}
    assert answered[502] <= CLIENTS
    assert team.ask(question=STAMPS).status_code == 200


def end_other(team: Team) -> None:
    team.ask(server=1, question=STAMPS)
    with (
        closing(psycopg.connect(team.index)) as connection,
        closing(psycopg.connect(team.index, autocommit=True)) as watcher,
        ThreadPoolExecutor(1) as pool,
    ):
        connection.execute("LOCK TABLE hybrid_retrieve.meta IN ACCESS EXCLUSIVE MODE")
        question = pool.submit(team.ask, server=1, question=STAMPS)
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        wait_for(lambda: watcher.execute(waiting).fetchone() != (0,))
        team.servers[1].process.send_signal(signal.SIGTERM)
        time.sleep(1)
        with pytest.raises(httpx.ConnectError):
            team.ask("/healthz", 1)
        connection.rollback()
        assert question.result().json()["hits"]
    assert team.servers[1].process.wait(10) == 0
