"""An index that is spread over a cluster answers as one in a folder does, and says so when a part of it is gone."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg  # noqa: TID253  # roles are made by hand
import pytest

from tests.postgres import Cluster, NoServerError, running_cluster
from tests.program import LARDER, PROJECT, Cli

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
QUESTIONS = ("how long is a snapshot kept?", "lock", "encyrption of the store", "marmalade")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    try:
        with running_cluster() as cluster:
            yield cluster
    except NoServerError as error:
        pytest.skip(str(error))


def ask(cli: Cli, index: str | Path, question: str, how: str) -> list[tuple[str, float]]:
    answer = cli("ask", question, "--index", index, "--json", "--vector-search", how).json
    return [(hit["node_id"], hit["score"]) for hit in answer["hits"]]


def test_the_answers_are_those_of_a_folder(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    docs, folder = tmp_path / "larder", tmp_path / "index"
    shutil.copytree(LARDER, docs)
    with cluster.new_database() as address:
        cli("postgres", "init", "--index", address)
        spread = PROJECT / "retriever/postgres/citus.sql"
        subprocess.run([cluster.coordinator.binaries / "psql", address, "-f", spread], check=True)
        for change in ("add", "edit"):
            if change == "edit":
                first, second, *_ = sorted(docs.iterdir())
                first.write_text(first.read_text(encoding="utf-8") + "\n## Marmalade\n\nOf marmalade.\n", "utf-8")
                second.unlink()
            cli("index", docs, "--index", folder)
            if change == "add":
                cli("index", docs, "--index", address)
            else:
                cli("index", docs, "--index", address, "--enqueue")
                cli("postgres", "worker", "--index", address, "--once")
            subprocess.run(
                [cluster.coordinator.binaries / "psql", address, "-f", spread.with_name("hnsw.sql")], check=True
            )
            for question in QUESTIONS:
                expected = ask(cli, folder, question, "exact")
                assert [ask(cli, address, question, how) for how in ("exact", "hnsw")] == [expected] * 2, question
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE ROLE asker LOGIN")  # which Citus makes on each node
        cli("postgres", "init", "--index", address, "--reader", "asker")
        assert ask(cli, address.replace("owner@", "asker@"), QUESTIONS[0], "exact") == ask(
            cli, folder, QUESTIONS[0], "exact"
        )
        assert "problem" not in cli("doctor", "--index", address).out
        cli("forget", "restore.md", "--index", address)
        assert "restore.md" not in cli("ask", "restore", "--index", address).out

        worker = cluster.workers[0]
        worker.stop("immediate")
        said = cli("ask", QUESTIONS[0], "--index", address, code=1).err
        assert f"connection to the remote node owner@127.0.0.1:{worker.port} failed" in said
        worker.start()
        assert ask(cli, address, QUESTIONS[0], "exact")
