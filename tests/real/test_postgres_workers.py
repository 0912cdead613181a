"""Workers make the index that `index` makes alone, whatever happens to them, to the database and to the documents."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from retriever import api
from retriever.errors import StorageError, UsageError
from retriever.indexing.update import embed_texts
from retriever.looking.indexes import index_request
from retriever.postgres import command
from tests.postgres import Server, count_rows, execute
from tests.program import PROJECT, Cli, wait_for
from tests.real.served import SOME_OF_THE_LARDER as SOME
from tests.shelf import write_pages

QUESTIONS = ("how long is a snapshot kept?", "restore one file", "what does page 7 say of number7?")
MANY = 100  # texts: more than two workers hold at once
SMALL_BATCHES = (  # the program, but that a worker takes 32 texts at once, in place of 256
    "import sys; from hybrid_retrieve import main; from retriever.postgres import command;"
    "command.BATCH = 'CAST(place / 32 AS integer)'; sys.exit(main(sys.argv[1:]))"
)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Pages that name one another."""
    return write_numbers(tmp_path / "docs", range(6))


def write_numbers(folder: Path, numbers: Sequence[int]) -> Path:
    pages = {f"page{at}.md": f"# Page {at}\n\nThe number{at}. See [next](page{at + 1}.md).\n" for at in numbers}
    return write_pages(folder, pages)


def work(address: str) -> int:
    return sum(command.work(index_request((), address, "balanced", None), once=True))


def start_worker(address: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-c", SMALL_BATCHES, "postgres", "worker", "--index", address, "--once"]
    return subprocess.Popen(line, cwd=PROJECT, stdout=subprocess.PIPE, text=True)


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something once, while a worker has texts in hand."""

    def embed_first(*given: object) -> None:
        monkeypatch.setattr(command, "embed_texts", embed_texts)
        act()
        embed_texts(*given)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(command, "embed_texts", embed_first)


@pytest.mark.timeout(300)
def test_workers_that_are_killed_and_cut_off_make_the_same_index(cli: Cli, postgres: str, tmp_path: Path) -> None:
    docs, alone = write_pages(tmp_path / "larder", SOME), tmp_path / "index"
    numbers = write_numbers(tmp_path / "numbers", range(MANY))
    cli("index", docs, numbers, "--index", alone)
    assert "0 texts embedded" in cli("index", docs, numbers, "--enqueue", "--index", postgres).out
    waiting = count_rows(postgres, "pending")
    assert waiting > MANY
    early = cli("ask", QUESTIONS[2], "--index", postgres, "--json").json  # by words, at once
    assert (early["hits"][0]["file"], early["index"]["embedded_share"]) == ("page7.md", 0)
    killed, cut = start_worker(postgres), start_worker(postgres)
    wait_for(lambda: count_rows(postgres, "pending") < waiting)
    killed.kill()
    killed.communicate()
    execute(
        postgres,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'hybrid_retrieve'",
    )
    cut.communicate()
    others = [start_worker(postgres) for _ in range(2)]
    assert all("embedded" in other.communicate(timeout=150)[0] for other in others)
    assert count_rows(postgres, "pending") == 0
    compare(cli, (postgres, alone), QUESTIONS)
    # A change, and one that goes: by a worker here, by `index` there.
    (docs / "restore.md").unlink()
    write_numbers(numbers, [MANY])
    for place in (postgres, alone):
        cli("index", docs, numbers, *(["--enqueue"] if place == postgres else []), "--index", place)
    assert "embedded 1 text" in cli("postgres", "worker", "--once", "--index", postgres).out
    compare(cli, (postgres, alone), (*QUESTIONS[:1], f"number{MANY}"))


def compare(cli: Cli, places: Sequence[str | Path], questions: Sequence[str]) -> None:
    for question in questions:
        one, other = (cli("ask", question, "--index", place, "--json").json for place in places)
        assert one["hits"]
        assert (one["hits"], one["confidence"]) == (other["hits"], other["confidence"]), question
    one, other = (cli("status", "--index", place, "--json").json for place in places)
    assert one["broken_links"] == other["broken_links"]
    assert one["index"]["embedded_share"] == other["index"]["embedded_share"] == 1


def test_two_workers_never_embed_the_same_text(postgres: str, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "BATCH", "CAST(place / 2 AS integer)")
    api.index_folders([docs], postgres, enqueue=True)
    others: list[int] = []
    meanwhile(monkeypatch, lambda: others.append(next(command.work(request, once=True))))
    request = index_request((), postgres, "balanced", None)
    assert (work(postgres) + others[0], others[0] > 0) == (6, True)


def test_a_server_that_goes_away_ends_a_worker_and_loses_nothing(
    postgres: str, postgres_server: Server, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.index_folders([docs], postgres, enqueue=True)
    meanwhile(monkeypatch, lambda: postgres_server.stop("immediate"))
    try:
        with pytest.raises(StorageError, match="cannot be reached"):
            work(postgres)
    finally:
        postgres_server.start()
    assert work(postgres) == 6


def test_what_is_forgotten_or_indexed_meanwhile_gets_no_vector_of_a_worker(
    postgres: str, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.index_folders([docs], postgres, enqueue=True)

    def change() -> None:
        api.forget_documents(["page0.md"], postgres)
        write_pages(docs, {"page1.md": "# Newer\n\nThan what is in hand.\n"})
        (docs / "page2.md").unlink()
        api.index_folders([docs], postgres, enqueue=True)

    meanwhile(monkeypatch, change)
    assert work(postgres)
    assert [count_rows(postgres, table) for table in ("documents", "chunks", "vectors", "pending")] == [4, 4, 4, 0]
    assert count_rows(postgres, "backgrounds") == 1


def test_another_model_ends_a_worker(postgres: str, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api.index_folders([docs], postgres, enqueue=True)
    monkeypatch.setattr(command, "open_encoder", lambda *_: None)
    with pytest.raises(UsageError, match="start again"):
        work(postgres)


def test_a_folder_has_no_workers(cli: Cli, docs: Path, tmp_path: Path) -> None:
    for words in (["index", docs, "--enqueue"], ["postgres", "worker"]):
        assert "is a folder" in cli(*words, "--index", tmp_path / "index", code=2).err
    assert not (tmp_path / "index").exists()
