"""Workers make the index that `index` makes alone, whatever happens to them, to the database and to the documents."""

import json
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString

import psycopg  # noqa: TID253  # these tests are of it
import pytest

from retriever import api
from retriever.errors import StorageError, UsageError
from retriever.indexes import index_request
from retriever.indexing import workers
from retriever.store.store import open_store
from tests.postgres import Server
from tests.program import PROJECT, Cli, command, environment

LARDER = PROJECT / "tests" / "eval_corpus" / "larder"
QUESTIONS = ("how long is a snapshot kept?", "restore one file", "what does page 7 say of number7?")
PLAIN = {"encoder": {"kind": "none"}}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Six pages that name one another."""
    (tmp_path / "docs").mkdir()
    write_pages(tmp_path / "docs", range(6))
    return tmp_path / "docs"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PAUSE_S", 0.05)


def write_pages(folder: Path, numbers: Sequence[int]) -> None:
    for number in numbers:
        text = f"# Page {number}\n\nThe number{number}. See [next](page{number + 1}.md).\n"
        (folder / f"page{number}.md").write_text(text, encoding="utf-8")


def execute(address: str, query: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
    with closing(psycopg.connect(address, autocommit=True, options="-csearch_path=hybrid_retrieve,public")) as own:
        cursor = own.execute(query, parameters)
        return cursor.fetchall() if cursor.description else []


def enqueue(docs: Path, address: str, settings: Any = PLAIN) -> int:  # noqa: ANN401  # as `index_request`
    return workers.enqueue(index_request([docs], address, "balanced", settings))


def work(address: str) -> list[str]:
    request = index_request((), address, "balanced", None)
    return [reason for reason in workers.work(request, once=True) if reason is not None]


def read_queue(address: str) -> workers.Queue:
    with open_store(address).read() as connection:
        return workers.read_queue(connection)


def start_worker(address: str) -> subprocess.Popen[str]:
    line = command("worker", "--index", address, "--once")
    return subprocess.Popen(line, env=environment(), stdout=subprocess.PIPE, text=True)


def wait_until(is_so: Callable[[], object], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def documents(address: str) -> list[str]:
    return [path for (path,) in execute(address, "SELECT path FROM documents ORDER BY path")]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[str], object]) -> list[str]:
    """Does something once while a worker has documents in hand, and is given the path of the first; all in hand."""
    claim = workers.claim
    seen: list[str] = []

    def claim_first(connection: Any) -> Any:  # noqa: ANN401  # passed on
        units = claim(connection)
        is_first = not seen
        seen.extend(path for _, _, path, _ in units)
        if is_first and units:
            act(seen[0])
        return units

    monkeypatch.setattr(workers, "claim", claim_first)
    return seen


def compare(cli: Cli, places: Sequence[str | Path], questions: Sequence[str]) -> None:
    for question in questions:
        answers = [json.loads(cli("ask", question, "--index", place, "--json").out)["hits"] for place in places]
        one, other = ([(hit["node_id"], hit["score"]) for hit in hits] for hits in answers)
        assert one == other, question
        assert one
    one, other = (json.loads(cli("status", "--index", place, "--json").out) for place in places)
    assert one["broken_links"] == other["broken_links"]
    assert one["index"]["embedded_share"] == other["index"]["embedded_share"] == 1


@pytest.mark.timeout(300)
def test_workers_that_are_killed_and_cut_off_make_the_same_index(cli: Cli, postgres: str, tmp_path: Path) -> None:
    docs, tiny, alone = tmp_path / "larder", tmp_path / "tiny", tmp_path / "index"
    shutil.copytree(LARDER, docs)
    tiny.mkdir()
    write_pages(tiny, range(90))
    cli("index", docs, tiny, "--index", alone)
    assert "queued 102 documents" in cli("index", docs, tiny, "--enqueue", "--index", postgres).out
    assert read_queue(postgres).queued == 102
    killed, cut = start_worker(postgres), start_worker(postgres)
    wait_until(lambda: len(documents(postgres)) >= 10)
    killed.kill()
    killed.communicate()
    execute(
        postgres,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'hybrid_retrieve'",
    )
    cut.communicate()
    assert cut.returncode == 1
    left = read_queue(postgres)
    assert left.queued == 102 - len(documents(postgres))
    others = [start_worker(postgres) for _ in range(2)]
    assert all("indexed" in other.communicate(timeout=150)[0] for other in others)
    assert read_queue(postgres) == workers.Queue(0, 0, ())
    compare(cli, (postgres, alone), QUESTIONS)
    # A change, and one that goes: by a worker here, by `index` there.
    (docs / "restore.md").unlink()
    write_pages(tiny, [90])
    for place in (postgres, alone):
        cli("index", docs, tiny, *(["--enqueue"] if place == postgres else []), "--index", place)
    assert "indexed 2 documents" in cli("worker", "--once", "--index", postgres).out
    compare(cli, (postgres, alone), (*QUESTIONS[:1], "number90"))


def test_a_server_that_goes_away_ends_a_worker_and_loses_nothing(
    postgres: str, postgres_server: Server, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue(docs, postgres)
    meanwhile(monkeypatch, lambda _: postgres_server.stop("immediate"))
    try:
        with pytest.raises(StorageError, match="cannot be reached"):
            work(postgres)
    finally:
        postgres_server.start()
    assert read_queue(postgres).queued == 6
    assert len(work(postgres)) == 6


def test_a_poisoned_document_is_named_and_the_others_go_on(postgres: str, docs: Path, cli: Cli) -> None:
    letters = random.Random(7)
    words = ["".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=200)) for _ in range(11)]
    deep = docs.joinpath(*words)  # with headings such that their ids are beyond what an index of a database holds
    deep.mkdir(parents=True)
    headings = (f"{'#' * level} {words[level]}\n\nText.\n" for level in range(1, 7))
    (deep / "long.md").write_text("\n".join(headings), encoding="utf-8")
    name = (deep / "long.md").relative_to(docs).as_posix()
    enqueue(docs, postgres)
    tried = work(postgres)
    assert len(list(filter(None, tried))) == workers.MOST_ATTEMPTS
    ((path, reason),) = read_queue(postgres).failed
    assert path == name
    assert "cannot hold a document: index row" in reason
    assert len(documents(postgres)) == 6
    assert f"failed      {name}: {reason}" in cli("status", "--index", postgres).out
    shown = json.loads(cli("status", "--index", postgres, "--json").out)["queue"]
    assert shown == {"queued": 0, "running": 0, "failed": [{"file": name, "reason": reason}]}
    (deep / "long.md").write_text("# Short\n\nText.\n", encoding="utf-8")
    assert enqueue(docs, postgres) == 1  # tries it again
    assert work(postgres) == [""]


def test_documents_by_which_workers_end_are_left_to_people(postgres: str, docs: Path) -> None:
    enqueue(docs, postgres)
    for attempt in range(1, 2 + 2 * 6):
        with open_store(postgres).read() as connection:
            assert len(workers.claim(connection)) == (6 if attempt == 1 else 1)
            assert read_queue(postgres).running == (6 if attempt == 1 else 1)
        wait_until(lambda: not read_queue(postgres).running)
    assert read_queue(postgres).failed[0] == ("page0.md", "the worker ended each time")
    assert work(postgres) == []


def test_two_workers_never_have_the_same_unit(postgres: str, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "UNITS_AT_ONCE", 1)
    enqueue(docs, postgres)
    claimed: list[str] = []

    def claim_all() -> None:
        with open_store(postgres).read() as connection:
            while units := workers.claim(connection):
                claimed.extend(path for _, _, path, _ in units)
            barrier.wait(30)  # until then they are held

    barrier = threading.Barrier(4)
    threads = [threading.Thread(target=claim_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == sorted(path.name for path in docs.iterdir())


def test_what_is_forgotten_does_not_come_back(postgres: str, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (docs / "twin.md").write_bytes((docs / "page0.md").read_bytes())
    enqueue(docs, postgres, {})
    api.forget_documents(["page3.md"], postgres)  # while it is queued
    assert read_queue(postgres).queued == 6
    seen = meanwhile(monkeypatch, lambda path: api.forget_documents([path], postgres))  # while it is in hand
    assert len(work(postgres)) == 5
    assert seen[0] == "page0.md"
    assert documents(postgres) == ["page1.md", "page2.md", "page4.md", "page5.md", "twin.md"]
    known = "SELECT text_hash FROM vectors UNION SELECT text_hash FROM pending"
    assert execute(postgres, f"SELECT count(*) FROM chunks WHERE text_hash NOT IN ({known})") == [(0,)]
    assert enqueue(docs, postgres, {}) == 0
    (docs / "page4.md").write_text("# Other\n", encoding="utf-8")
    enqueue(docs, postgres, {})
    api.forget_documents([str(docs)], postgres)  # all of it
    assert execute(postgres, "SELECT count(*) FROM queue") == [(0,)]


def test_index_beside_workers_has_the_last_word(postgres: str, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue(docs, postgres)

    def index_newer(path: str) -> None:
        (docs / path).write_text("# Newer\n\nThan what is queued, and in hand.\n", encoding="utf-8")
        (docs / "page5.md").unlink()
        api.index_folders([docs], postgres, settings=PLAIN)

    seen = meanwhile(monkeypatch, index_newer)
    assert work(postgres) == []
    assert execute(postgres, "SELECT title FROM documents WHERE path = %s", seen[0]) == [("Newer",)]
    assert len(documents(postgres)) == 5


def test_settings_that_change_meanwhile(postgres: str, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue(docs, postgres)
    other = {**PLAIN, "chunks": {"max_tokens": 64}}
    with pytest.raises(UsageError, match="index once without --enqueue"):
        enqueue(docs, postgres, other)

    def change(path: str) -> None:
        api.index_folders([docs], postgres, settings=other)
        (docs / path).write_text("# Later\n", encoding="utf-8")
        enqueue(docs, postgres, other)

    seen = meanwhile(monkeypatch, change)
    with pytest.raises(UsageError, match="start again"):
        work(postgres)
    assert work(postgres) == [""]
    assert execute(postgres, "SELECT title FROM documents WHERE path = %s", seen[0]) == [("Later",)]


def test_a_folder_has_no_queue(cli: Cli, docs: Path, tmp_path: Path) -> None:
    place = tmp_path / "index"
    api.index_folders([docs], place, settings=PLAIN)
    for words in (["index", docs, "--enqueue"], ["worker"]):
        assert "this needs PostgreSQL" in cli(*words, "--index", place, code=2).err
    assert " queued, " not in cli("status", "--index", place).out
