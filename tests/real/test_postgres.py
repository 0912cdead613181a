"""An index in PostgreSQL answers as one in a folder does."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.program import PROJECT, Cli

LARDER = PROJECT / "tests" / "eval_corpus"
QUESTIONS = ("how long is a snapshot kept?", "lock", "restore one file", "encyrption of the store", "who may read?")


def ask(cli: Cli, index: str | Path, question: str, *more: str) -> list[tuple[str, float]]:
    answer = json.loads(cli("ask", question, "--index", index, "--json", "-k", "10", *more).out)
    return [(hit["node_id"], hit["score"]) for hit in answer["hits"]]


@pytest.mark.timeout(180)
def test_the_same_questions_have_the_same_answers(cli: Cli, postgres: str, tmp_path: Path) -> None:
    places: Sequence[str | Path] = (postgres, tmp_path / "index")
    docs = tmp_path / "larder"
    for source in (LARDER / "larder").iterdir():
        docs.mkdir(exist_ok=True)
        (docs / source.name).write_bytes(source.read_bytes())
    for place in places:
        cli("index", docs, "--index", place)
    for question in QUESTIONS:
        for profile in ("balanced", "classic", "fast"):
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
    for question in (*QUESTIONS, "marmalade", "zebra"):
        one, other = (ask(cli, place, question) for place in places)
        assert one == other, question
