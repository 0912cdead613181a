"""The index of the folder where one stands, as a user meets it; tests/output_cases/places.md shows what is printed."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.program import Cli, command, environment, in_terminal
from tests.shelf import write_pages


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders of documents; words alone are searched, for speed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / ".data"))
    monkeypatch.setenv("HYBRID_RETRIEVE_ENCODER_KIND", "none")
    pages = {"notes/keys.md": "# Keys\n\nRotate the keys.\n", "work/piano.md": "# Piano\n\nIts keys are white.\n"}
    return write_pages(tmp_path, pages)


@pytest.mark.timeout(200)  # two processes of their own
def test_at_a_terminal_it_is_offered_to_index_the_folder(place: Path) -> None:
    question = f"{place}/notes has no index yet. Index it now? [Y/n]".encode()
    code, shown = in_terminal(command("keys"), place / "notes", environment(), typed=[(question, b"n\n")])
    assert code == 1
    assert b"no index covers" in shown
    code, shown = in_terminal(command("keys"), place / "notes", environment(), typed=[(question, b"\n")])
    assert code == 0
    assert b"keys.md:1-3" in shown


def test_an_index_of_an_earlier_format_says_that_it_is_one(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("index", place / "notes")
    (rows,) = (place / ".data").rglob("index.sqlite")
    with closing(sqlite3.connect(rows)) as connection:
        connection.execute("PRAGMA user_version = 1")
    monkeypatch.chdir(place / "notes")
    assert "has format 1, this version reads" in cli("keys", code=1).err


def test_each_of_all_indexes_answers_with_one_line_of_json(place: Path, cli: Cli) -> None:
    for folder in ("notes", "work"):
        cli("index", place / folder)
    answers = [json.loads(line) for line in cli("--all", "--json", "keys").out.splitlines()]
    assert [answer["hits"][0]["file"] for answer in answers] == ["keys.md", "piano.md"]
