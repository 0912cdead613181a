"""Several workers, one of which is killed, make the index that `index` makes alone."""

import json
import shutil
import subprocess
import time
from contextlib import closing
from pathlib import Path

import psycopg  # noqa: TID253  # these tests are of it
import pytest

from tests.program import PROJECT, Cli, command, environment

LARDER = PROJECT / "tests" / "eval_corpus" / "larder"
QUESTIONS = ("how long is a snapshot kept?", "restore one file", "what does page 7 say of number7?")


def count(address: str, query: str) -> int:
    with closing(psycopg.connect(address)) as connection:
        row = connection.execute(f"SELECT count(*) FROM hybrid_retrieve.{query}").fetchone()
        assert row is not None
        return int(row[0])


@pytest.mark.timeout(300)
def test_two_workers_one_killed(cli: Cli, postgres: str, tmp_path: Path) -> None:
    docs, tiny, alone = tmp_path / "larder", tmp_path / "tiny", tmp_path / "index"
    shutil.copytree(LARDER, docs)
    tiny.mkdir()
    for number in range(100):
        text = f"# Page {number}\n\nThe number{number}. See [next](page{(number + 1) % 100}.md).\n"
        (tiny / f"page{number}.md").write_text(text, encoding="utf-8")
    cli("index", docs, tiny, "--index", alone)
    assert "queued 112 documents" in cli("index", docs, tiny, "--enqueue", "--index", postgres).out
    cli("index", docs, tiny, "--enqueue", "--index", postgres)
    assert count(postgres, "queue") == 112
    start = [command("worker", "--index", postgres, "--once") for _ in range(2)]
    workers = [subprocess.Popen(line, env=environment()) for line in start]
    until = time.monotonic() + 120
    while count(postgres, "documents") < 10 and time.monotonic() < until:
        time.sleep(0.05)
    assert count(postgres, "queue") > 0
    workers[0].kill()
    workers[0].wait()
    with closing(psycopg.connect(postgres, autocommit=True)) as connection:  # the other's connection is cut
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'hybrid_retrieve'"
        )
    assert workers[1].wait(150) == 0
    assert count(postgres, "queue") == 0
    for question in QUESTIONS:
        one, other = (json.loads(cli("ask", question, "--index", place, "--json").out) for place in (postgres, alone))
        assert [(hit["node_id"], hit["score"]) for hit in one["hits"]] == [
            (hit["node_id"], hit["score"]) for hit in other["hits"]
        ], question
    one, other = (json.loads(cli("status", "--index", place, "--json").out) for place in (postgres, alone))
    assert one["queue"] | {"per_minute": 0} == {
        "queued": 0, "running": 0, "failed": [], "indexed": 112, "per_minute": 0
    }  # fmt: skip
    assert one["broken_links"] == other["broken_links"]
    assert count(postgres, "chunks") == count(postgres, "chunks JOIN hybrid_retrieve.vectors USING (text_hash)")
