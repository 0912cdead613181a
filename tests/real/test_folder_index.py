"""The index of the folder where one stands, as a user meets it on the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hybrid_retrieve import main
from tests.program import command, environment, in_terminal
from tests.shelf import write_pages

PAGES = {
    "notes/keys.md": "# Keys\n\nRotate the keys every year.\n",
    "notes/sub/otters.md": "# Otters\n\nOtters sleep in the sub folder.\n",
    "work/piano.md": "# Piano\n\nThe keys of the piano are white.\n",
}

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders of documents and an empty one; words alone are searched, for speed."""
    write_pages(tmp_path, PAGES)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / ".data"))
    monkeypatch.setenv("HYBRID_RETRIEVE_ENCODER_KIND", "none")
    return tmp_path


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs a command line in a folder: exit status, standard output, standard error."""

    def call(folder: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.chdir(place / folder)
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.mark.timeout(200)  # two processes of their own
def test_at_a_terminal_it_is_offered_to_index_the_folder(place: Path) -> None:
    question = f"{place}/notes has no index yet. Index it now? [Y/n]".encode()
    code, shown = in_terminal(command("keys"), place / "notes", environment(), typed=[(question, b"n\n")])
    assert code == 1
    assert b"no index covers" in shown
    code, shown = in_terminal(command("keys"), place / "notes", environment(), typed=[(question, b"\n")])
    assert code == 0
    assert b"keys.md:1-3" in shown


def test_all_indexes_are_asked_one_after_another(run: Ask, place: Path) -> None:
    run("notes", "index", ".")
    run("work", "index", ".")
    assert "has no index, searching work" in run("empty", "--json", "keys")[2]
    code, out, _ = run("empty", "--all", "--json", "keys")
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["hits"][0]["file"] for answer in answers] == ["keys.md", "piano.md"]
    assert code == 0


def test_an_index_without_the_folder_of_a_filter_is_passed_over(run: Ask, place: Path) -> None:
    run("notes", "index", ".")
    run("work", "index", ".")
    code, out, err = run("empty", "--all", "--in", "sub", "otters")
    assert (code, "sub/otters.md" in out) == (0, True)
    assert "not asked: there is no folder or file 'sub'" in err
    assert run("empty", "--all", "--in", "cellar", "otters")[0] == 1


def test_indexes_of_one_name_are_deleted_together(run: Ask, place: Path) -> None:
    for folder in ("one/docs", "two/docs"):
        write_pages(place / folder, {"a.md": "# A\n\nWords.\n"})
        run(folder, "index", ".")
    code, out, _ = run("empty", "indexes", "--drop", "one/docs", "--drop", "two/docs", "--yes")
    assert (code, out.count("deleted ")) == (0, 2), "the second is called docs once the first is gone"
    assert "no index yet" in run("empty", "indexes")[2]
