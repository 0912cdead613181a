"""An index in PostgreSQL answers as one in a folder does."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from retriever.api import open_retriever
from retriever.postgres.connection import PostgresConnection
from tests.postgres import Server, execute, find_binaries
from tests.program import LARDER, PROJECT, Cli
from tests.real.served import SOME_OF_THE_LARDER as SOME
from tests.real.served import index_pages
from tests.shelf import WORDS_ALONE, write_pages

QUESTIONS = (
    "how long is a snapshot kept?",
    "lock",
    "restore one file",
    "encyrption of the store",
    "who may read?",
    "who pays, the griffin?",
    "ledger",
)
HALF_TYPED = ("kartoff", "Auflauf mit Sahn", "ratin", "wer hat Geburtstag?")  # and a property
GERMAN = {
    "gratin.md": "# Gratin\n\nDas Kartoffelgratin wird mit der Sahne in den Ofen gestellt, und dann ist es fertig.\n",
    "anna.md": "---\ngeburtstag: 1987-11-02\n---\n# Anna\n\nSie mag den Kuchen und die Blumen, nicht das Bier.\n",
}


def ask(cli: Cli, index: str | Path, question: str, *more: str) -> dict[str, Any]:
    answer: dict[str, Any] = cli("ask", question, "--index", index, "--json", "-k", "10", *more).json
    del answer["index"], answer["timings_ms"]
    return answer


def find(cli: Cli, index: str | Path, question: str, *more: str) -> list[str]:
    return [hit["node_id"] for hit in ask(cli, index, question, *more)["hits"]]


@pytest.mark.timeout(180)
def test_the_same_questions_have_the_same_answers(cli: Cli, postgres: str, tmp_path: Path) -> None:
    places: Sequence[str | Path] = (postgres, tmp_path / "index")
    docs = tmp_path / "larder"
    shutil.copytree(LARDER, docs)
    pages = "\n\n".join(f"Page {number} of the ledger says nothing else than this. " * 6 for number in range(12))
    write_pages(docs, GERMAN | {"ledger.md": f"---\ntags: [ledger]\n---\n# Ledger\n\n{pages}\n\nThe griffin pays.\n"})
    for place in places:
        cli("index", docs, "--index", place)
    for profile in ("balanced", "classic", "fast"):
        for question in QUESTIONS[:3]:
            one, other = (ask(cli, place, question, "--profile", profile) for place in places)
            assert one == other, (question, profile)
    # A document that changes, one that goes and one that comes.
    first, second, *_ = sorted(docs.iterdir())
    first.write_text(
        first.read_text(encoding="utf-8") + "\n## Marmalade\n\nSnapshots of marmalade.\n", encoding="utf-8"
    )
    second.unlink()
    (docs / "zebra.md").write_text("# Zebra\n\nA zebra keeps its snapshot of the store.\n", encoding="utf-8")
    for place in places:
        cli("index", docs, "--index", place)
    for question in (*QUESTIONS, *HALF_TYPED, "marmalade", "zebra"):
        one, other = (ask(cli, place, question) for place in places)
        assert one == other, question


@pytest.fixture(scope="module")
def larder(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with an index of some of the larder, left as whole as it was."""
    with postgres_server.new_index() as address:
        index_pages(address, tmp_path_factory.mktemp("larder"), SOME)
        yield address


@pytest.mark.timeout(180)
def test_every_command_takes_the_address(cli: Cli, larder: str) -> None:
    assert "4 files" in cli("status", "--index", larder).out
    assert "problem" not in cli("doctor", "--index", larder).out
    assert "Restoring" in cli("tree", "--index", larder).out
    assert "# Restoring" in cli("read", "restore.md", "--index", larder).out
    assert "no other file is similar" in cli("read", "retention.md", "--similar", "10", "--index", larder).err
    cli("indexes", "--drop", larder, "--yes", code=2)
    cli("forget", "restore.md", "--index", larder)
    assert not [node for node in find(cli, larder, "restore one file") if node.startswith("restore.md")]
    cli("forget", "--undo", "restore.md", "--index", larder)


def test_a_graph_finds_what_all_vectors_do(cli: Cli, larder: str) -> None:
    before = find(cli, larder, QUESTIONS[0])
    graph = PROJECT / "retriever/postgres/hnsw.sql"
    subprocess.run([find_binaries() / "psql", larder, "-f", graph], check=True)
    assert execute(larder, "SELECT indexname FROM pg_indexes WHERE indexname = 'vectors_hnsw'")
    assert find(cli, larder, QUESTIONS[0], "--vector-search", "hnsw") == before


def test_words_that_are_lost_are_made_anew(cli: Cli, larder: str) -> None:
    before = find(cli, larder, QUESTIONS[0])
    execute(larder, "DELETE FROM hybrid_retrieve.postings", "UPDATE hybrid_retrieve.documents SET sections = 0")
    assert "PROBLEM  words" in cli("doctor", "--index", larder, code=1).out
    assert "nothing was embedded" in cli("doctor", "--repair", "--index", larder).out
    assert find(cli, larder, QUESTIONS[0]) == before


def test_a_question_takes_few_statements(larder: str) -> None:
    execute_one = PostgresConnection.execute
    with open_retriever(index=larder) as retriever:
        for question in ("how long is a snapshot kept?", "how is the encyrption key rotated?", "who may read?"):
            with patch.object(PostgresConnection, "execute", autospec=True, side_effect=execute_one) as sent:
                assert retriever.search(question).hits
            assert sent.call_count <= 31, question  # BEGIN and COMMIT among them


def test_equal_scores_rank_by_path_whatever_came_first(any_place: str | Path, tmp_path: Path) -> None:
    settings = {**WORDS_ALONE, "keyword_top_n": 2}
    for name in ("f", "c", "g", "b"):
        index_pages(any_place, tmp_path, {f"{name}.md": f"# Same\n\nThe very same words: {name}.\n"}, settings)
    with open_retriever(index=any_place, settings=settings) as retriever:
        found = retriever.search("very same words").hits
    assert [hit.file for hit in found][:2] == ["b.md", "c.md"]
