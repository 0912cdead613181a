"""The index of the folder where one stands, as a user meets it on the command line."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp.types import TextContent

from hybrid_retrieve import main
from retriever.command_line.options import Opening
from retriever.command_line.serve import open_served
from retriever.serving.mcp_server import call_tool, list_tools
from tests.program import command, environment, in_terminal
from tests.shelf import WORDS_ALONE, write_pages

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
    monkeypatch.delenv("HYBRID_RETRIEVE_INDEX", raising=False)
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


def test_several_indexes_are_asked_and_each_hit_says_which(run: Ask, place: Path) -> None:
    run("notes", "index", ".")
    run("work", "index", ".")
    assert "has no index: the one indexed last is work" in run("empty", "--json", "keys")[2]
    run("notes/sub", "index", ".", "--index", "../../placed")
    found = json.loads(run("empty", "--all", "--json", "otters")[1])
    assert [(hit["file"], hit["folder"]) for hit in found["hits"]] in (
        [("otters.md", f"{place}/notes/sub")],
        [("sub/otters.md", f"{place}/notes")],
    ), "once, though two indexes hold it"
    assert len(found["indexes"]) == 3
    alone = json.loads(run("notes", "--json", "otters")[1])
    together = json.loads(run("empty", "--index", "work", "--index", "notes", "--json", "otters")[1])
    assert together["verdict"] == alone["verdict"]
    assert [hit["index"] for hit in together["hits"]] == ["notes"]
    assert (alone["indexes"], alone["hits"][0]["index"]) == ([], "")
    _, out, err = run("empty", "--index", "work", "--index", str(place / "nowhere"), "keys")
    assert "work/piano.md" in out
    assert f"{place}/nowhere: not asked: there is no index" in err


def test_indexes_of_one_name_are_deleted_together(run: Ask, place: Path) -> None:
    for folder in ("one/docs", "two/docs"):
        write_pages(place / folder, {"a.md": "# A\n\nWords.\n"})
        run(folder, "index", ".")
    code, out, _ = run("empty", "indexes", "--drop", "one/docs", "--drop", "two/docs", "--yes")
    assert (code, out.count("deleted ")) == (0, 2), "the second is called docs once the first is gone"
    assert "no index yet" in run("empty", "indexes")[2]


def test_an_agent_is_answered_by_several_indexes_and_reads_one(run: Ask, place: Path) -> None:
    run("notes", "index", ".")
    run("work", "index", ".")

    def call(tool: str, **arguments: str) -> str:
        result = call_tool(served, tool, arguments)
        content = result.content[0]
        assert isinstance(content, TextContent)
        return content.text

    opening = Opening(several=("notes", "work"), settings=WORDS_ALONE)
    with open_served(opening, "Our two houses") as served:
        assert "Index `notes`: " in served.describe()
        assert served.describe().endswith("About them: Our two houses")
        assert all(
            tool.input_schema["properties"]["index"]["enum"] == ["notes", "work"] for tool in list_tools(served.names)
        )
        hits = re.compile(r"^\d+\. `(.+?)`", re.MULTILINE)
        assert set(hits.findall(call("search", question="keys"))) == {"notes::keys.md:1-3", "work::piano.md:1-3"}
        assert "The keys of the piano are white." in call("read", place="work::piano.md:1-3")
        assert hits.findall(call("search", question="keys", index="work")) == ["work::piano.md:1-3"]
        assert "The keys of the piano are white." in call("read", place="piano.md", index="work")
        assert "otters.md" in call("outline", index="notes")
        for wrong in ({}, {"index": "cellar"}):
            assert "there are: notes, work" in call("read", place="piano.md", **wrong)
    with open_served(Opening(index="notes"), "") as served:
        assert "index" not in list_tools(served.names)[0].input_schema["properties"]
        assert call("read", place="keys.md", index="work") == "one index is served here: leave out index"
