"""Workers make the index that `index` makes alone, whatever happens to them, to the database and to the documents."""

import json
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString

import psycopg  # noqa: TID253  # these tests are of it
import pytest

from pageindex.corpus import DocumentText
from pageindex.document import Document
from retriever import api, sharing
from retriever.errors import UsageError
from retriever.indexing import embed, update, workers
from retriever.store.reading import StoredFolder
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


def cut_connections(address: str) -> None:
    execute(
        address,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'hybrid_retrieve'",
    )


def work(address: str) -> list[workers.WorkedUnit]:
    return [unit for unit in sharing.work_queue(address, once=True) if unit is not None]


def read_queue(address: str) -> workers.Queue:
    queue = workers.read_queue(open_store(address))
    assert queue is not None
    return queue


def start_workers(address: str, count: int) -> list[subprocess.Popen[str]]:
    line = command("worker", "--index", address, "--once")
    return [subprocess.Popen(line, env=environment(), stdout=subprocess.PIPE, text=True) for _ in range(count)]


def wait_until(is_so: Callable[[], object], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def documents(address: str) -> list[str]:
    return [path for (path,) in execute(address, "SELECT path FROM documents ORDER BY path")]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[str], object]) -> list[str]:
    """Does something once while a worker has a document in hand, whose path it is given; the documents in hand."""
    parse = update.parse_text
    seen: list[str] = []

    def parse_later(folder: StoredFolder, path: str, text: DocumentText) -> Document:
        seen.append(path)
        if len(seen) == 1:
            act(path)
        return parse(folder, path, text)

    monkeypatch.setattr(workers, "parse_text", parse_later)
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
def test_two_workers_one_killed_and_one_cut_off_make_the_same_index(cli: Cli, postgres: str, tmp_path: Path) -> None:
    docs, tiny, alone = tmp_path / "larder", tmp_path / "tiny", tmp_path / "index"
    shutil.copytree(LARDER, docs)
    tiny.mkdir()
    write_pages(tiny, range(60))
    cli("index", docs, tiny, "--index", alone)
    assert "queued 72 documents" in cli("index", docs, tiny, "--enqueue", "--index", postgres).out
    cli("index", docs, tiny, "--enqueue", "--index", postgres)
    assert read_queue(postgres).queued == 72
    killed, cut = start_workers(postgres, 2)
    wait_until(lambda: len(documents(postgres)) >= 10)
    killed.kill()
    cut_connections(postgres)
    killed.wait()
    assert cut.wait(150) == 0
    killed.communicate()
    assert cut.communicate()[0].startswith("indexed")
    queue = read_queue(postgres)
    assert queue == workers.Queue(0, 0, ())
    compare(cli, (postgres, alone), QUESTIONS)
    # A change, and one that goes: by a worker here, by `index` there.
    (docs / "restore.md").unlink()
    write_pages(tiny, [60])
    for place in (postgres, alone):
        cli("index", docs, tiny, *(["--enqueue"] if place == postgres else []), "--index", place)
    assert sorted(unit.path for unit in work(postgres)) == ["larder:restore.md", "tiny:page60.md"]
    compare(cli, (postgres, alone), (*QUESTIONS[:1], "number60"))
    texts, vectors = execute(postgres, "SELECT count(DISTINCT text_hash), (SELECT count(*) FROM vectors) FROM chunks")[
        0
    ]
    assert texts <= vectors


@pytest.mark.timeout(120)
def test_a_server_that_restarts(
    postgres: str, postgres_server: Server, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def restart(_: str) -> None:
        postgres_server.stop("immediate")
        threading.Timer(0.5, postgres_server.start).start()

    sharing.enqueue_folders([docs], postgres, settings=PLAIN)
    seen = meanwhile(monkeypatch, restart)
    assert len(work(postgres)) == 6
    assert len(seen) == 7
    assert seen[0] == seen[-1]  # others came first
    assert read_queue(postgres).failed == ()


@pytest.mark.timeout(120)
def test_sigterm_ends_a_worker_after_the_document_at_hand(postgres: str, docs: Path) -> None:
    write_pages(docs, range(200))
    sharing.enqueue_folders([docs], postgres, settings=PLAIN)
    (worker,) = start_workers(postgres, 1)
    wait_until(lambda: documents(postgres))
    worker.send_signal(signal.SIGTERM)
    out, _ = worker.communicate(timeout=30)
    assert worker.returncode == 0
    count = len(documents(postgres))
    assert 0 < count < 200
    assert f"indexed {count} document" in out
    assert execute(postgres, "SELECT count(*) FROM queue") == [(200 - count,)]


def test_a_poisoned_document_is_named_and_the_others_go_on(postgres: str, docs: Path, cli: Cli) -> None:
    letters = random.Random(7)
    words = ["".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=200)) for _ in range(11)]
    deep = docs.joinpath(*words)  # with headings such that their ids are beyond what an index of a database holds
    deep.mkdir(parents=True)
    headings = (f"{'#' * level} {words[level]}\n\nText.\n" for level in range(1, 7))
    (deep / "long.md").write_text("\n".join(headings), encoding="utf-8")
    name = (deep / "long.md").relative_to(docs).as_posix()
    sharing.enqueue_folders([docs], postgres, settings=PLAIN)
    tried = work(postgres)
    assert [unit.path for unit in tried if unit.reason] == [name] * workers.MOST_ATTEMPTS
    ((path, reason),) = read_queue(postgres).failed
    assert path == name
    assert "cannot hold a document: index row" in reason
    assert len(documents(postgres)) == 6
    assert f"failed      {name}: {reason}" in cli("status", "--index", postgres).out
    shown = json.loads(cli("status", "--index", postgres, "--json").out)["queue"]
    assert shown["failed"] == [{"file": name, "reason": reason}]
    assert sharing.enqueue_folders([docs], postgres, settings=PLAIN) == 1  # tries it again
    assert read_queue(postgres).queued == 1
    (deep / "long.md").write_text("# Short\n\nText.\n", encoding="utf-8")
    sharing.enqueue_folders([docs], postgres, settings=PLAIN)
    assert work(postgres) == [workers.WorkedUnit(name)]
    assert read_queue(postgres).failed == ()


def test_a_document_by_which_workers_end_is_left_to_people(postgres: str, docs: Path) -> None:
    shutil.rmtree(docs)
    docs.mkdir()
    write_pages(docs, [0])
    sharing.enqueue_folders([docs], postgres, settings=PLAIN)
    for _ in range(workers.MOST_ATTEMPTS):
        with open_store(postgres).share() as connection:
            assert connection.execute(workers.CLAIM).fetchone()
            assert read_queue(postgres).running == 1
            assert connection.execute(workers.CLAIM).fetchone() is None
        wait_until(lambda: not read_queue(postgres).running)
    assert read_queue(postgres).failed == (("page0.md", "the worker ended each time"),)
    assert work(postgres) == []


def test_two_workers_never_have_the_same_unit(postgres: str, docs: Path) -> None:
    sharing.enqueue_folders([docs], postgres, settings=PLAIN)
    claimed: list[str] = []

    def claim_all() -> None:
        with open_store(postgres).share() as connection:
            while unit := connection.execute(workers.CLAIM).fetchone():
                claimed.append(unit[2])
            barrier.wait(30)  # until then they are held

    barrier = threading.Barrier(4)
    threads = [threading.Thread(target=claim_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == sorted(path.name for path in docs.iterdir())


def test_what_is_forgotten_does_not_come_back(postgres: str, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sharing.enqueue_folders([docs], postgres, settings=PLAIN)
    api.forget_documents(["page3.md"], postgres)  # while it is queued
    assert read_queue(postgres).queued == 5
    seen = meanwhile(monkeypatch, lambda path: api.forget_documents([path], postgres))  # while it is in hand
    assert len(work(postgres)) == 4
    assert documents(postgres) == sorted(path.name for path in docs.iterdir() if path.name not in {"page3.md", seen[0]})
    assert sharing.enqueue_folders([docs], postgres, settings=PLAIN) == 0
    (docs / "page4.md").write_text("# Other\n", encoding="utf-8")
    sharing.enqueue_folders([docs], postgres, settings=PLAIN)
    api.forget_documents([str(docs)], postgres)  # all of it
    assert execute(postgres, "SELECT count(*) FROM queue") == [(0,)]


@pytest.mark.timeout(120)
def test_vectors_of_what_was_forgotten_in_hand_are_not_kept(
    postgres: str, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "twin.md").write_bytes((docs / "page0.md").read_bytes())
    sharing.enqueue_folders([docs], postgres)
    encode, asked = embed.encode_missing, []

    def forget_then(*arguments: Any) -> Any:  # noqa: ANN401  # passed on
        asked.append(encode(*arguments))
        if len(asked) == 1:
            api.forget_documents(["page0.md"], postgres)  # it is in hand
        elif documents(postgres) == ["page1.md"]:
            api.forget_documents(["page1.md"], postgres)  # its vectors are known to nobody else
        return asked[-1]

    monkeypatch.setattr(workers, "encode_missing", forget_then)
    work(postgres)
    missing = "SELECT count(*) FROM chunks WHERE text_hash NOT IN (SELECT text_hash FROM vectors)"
    assert execute(postgres, missing) == [(0,)]
    assert execute(postgres, "SELECT count(*) FROM vectors WHERE text_hash NOT IN (SELECT text_hash FROM chunks)") == [
        (0,)
    ]
    assert documents(postgres) == ["page2.md", "page3.md", "page4.md", "page5.md", "twin.md"]


def test_index_beside_workers_has_the_last_word(postgres: str, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sharing.enqueue_folders([docs], postgres, settings=PLAIN)

    def index_newer(path: str) -> None:
        (docs / path).write_text("# Newer\n\nThan what is queued, and in hand.\n", encoding="utf-8")
        (docs / "page5.md").unlink()
        api.index_folders([docs], postgres, settings=PLAIN)

    seen = meanwhile(monkeypatch, index_newer)
    assert work(postgres) == []
    assert execute(postgres, "SELECT title FROM documents WHERE path = %s", seen[0]) == [("Newer",)]
    assert len(documents(postgres)) == 5


def test_what_is_queued_is_what_was_seen_last(postgres: str, docs: Path) -> None:
    api.index_folders([docs], postgres, settings=PLAIN)
    before = (docs / "page0.md").read_bytes()
    (docs / "page0.md").write_text("# Other\n", encoding="utf-8")
    (docs / "new.md").write_text("# New\n", encoding="utf-8")
    (docs / "page1.md").unlink()
    assert sharing.enqueue_folders([docs], postgres, settings=PLAIN) == 3
    (docs / "page0.md").write_bytes(before)
    (docs / "new.md").unlink()
    write_pages(docs, [1])
    assert sharing.enqueue_folders([docs], postgres, settings=PLAIN) == 0
    assert work(postgres) == []
    assert documents(postgres) == [f"page{number}.md" for number in range(6)]


def test_settings_that_change_meanwhile(postgres: str, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sharing.enqueue_folders([docs], postgres, settings=PLAIN)
    other = {**PLAIN, "chunks": {"max_tokens": 64}}
    with pytest.raises(UsageError, match="index once without --enqueue"):
        sharing.enqueue_folders([docs], postgres, settings=other)

    def change(path: str) -> None:
        api.index_folders([docs], postgres, settings=other)
        (docs / path).write_text("# Later\n", encoding="utf-8")
        sharing.enqueue_folders([docs], postgres, settings=other)

    seen = meanwhile(monkeypatch, change)
    assert [unit.path for unit in work(postgres)] == seen[:1]
    assert execute(postgres, "SELECT title FROM documents WHERE path = %s", seen[0]) == [("Later",)]


def test_a_folder_has_no_queue(cli: Cli, docs: Path, tmp_path: Path) -> None:
    place = tmp_path / "index"
    api.index_folders([docs], place, settings=PLAIN)
    assert workers.read_queue(open_store(place)) is None
    for words in (["index", docs, "--enqueue"], ["worker"]):
        assert "this needs PostgreSQL" in cli(*words, "--index", place, code=2).err
