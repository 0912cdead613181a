"""The index of the folder where one stands, as a user meets it on the command line."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp.types import TextContent

from hybrid_retrieve import main
from retriever.command_line.opening import Opening
from retriever.command_line.serve import open_served
from retriever.serving.mcp_server import call_tool, list_tools
from tests.program import command, environment, in_terminal

PAGES = {
    "notes/keys.md": "# Keys\n\nRotate the keys every year.\n",
    "notes/sub/otters.md": "# Otters\n\nOtters sleep in the sub folder.\n",
    "work/piano.md": "# Piano\n\nThe keys of the piano are white.\n",
}

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders of documents and an empty one; words alone are searched, for speed."""
    for name, text in PAGES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
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


def names(run: Ask) -> list[str]:
    return [item["name"] for item in json.loads(run("empty", "indexes", "--json")[1])["indexes"]]


def test_the_index_of_the_current_folder_answers_or_that_of_the_nearest_above(run: Ask, place: Path) -> None:
    run("notes", "index", ".")
    run("work", "index", ".")
    code, out, err = run("notes", "keys")
    assert code == 0
    assert out.startswith(" 1  keys.md:")
    assert "note:" not in err
    code, out, err = run("notes/sub", "keys")
    assert out.startswith(" 1  ../keys.md:")
    assert err.splitlines() == [err.strip()], "it is in the last line, and nowhere else"
    assert f" | {place}/notes/sub is part of {place}/notes, which is searched" in err
    found = json.loads(run("work", "--json", "keys")[1])
    assert found["index"]["folders"] == [f"{place}/work"]
    assert found["index"]["note"] == ""


def test_a_folder_without_an_index_says_how_to_make_one(run: Ask, place: Path) -> None:
    code, out, err = run("notes", "keys")
    assert (code, out) == (1, "")
    assert f"no index covers {place}/notes, which holds 2 Markdown files" in err
    assert f"run: python -m retriever index {place}/notes" in err
    run("work", "index", ".")
    code, _, err = run("notes", "keys")
    assert code == 1, "the index used last is not asked where there are other documents"
    assert "name it with --index: work" in err
    code, out, err = run("notes", "--index", "work", "keys")
    assert out.startswith(" 1  ../work/piano.md:")


def test_where_nothing_is_to_be_indexed_another_index_answers_and_a_line_says_which(run: Ask, place: Path) -> None:
    assert "nothing has been indexed yet" in run("empty", "keys")[2]
    run("notes", "index", ".")
    _, out, err = run("", "--json", "keys")
    assert err == f"note: {place} has no index of its own: the index used last is notes ({place}/notes)\n"
    assert "the index used last is notes" in json.loads(out)["index"]["note"]
    code, out, err = run("empty", "keys")
    assert code == 0
    assert f" | {place}/empty has no index and holds no Markdown: the index used last is notes" in err
    assert run("empty", "-q", "keys")[2] == ""
    run("work", "index", ".")
    assert "work/piano.md:" in run("", "keys")[1], "of two that are below, the one used last"


@pytest.mark.timeout(200)  # two processes of their own
def test_at_a_terminal_it_is_offered_to_index_the_folder(place: Path) -> None:
    question = b"Index it now? [Y/n]"
    code, shown = in_terminal(command("keys"), place / "notes", environment(), typed=[(question, b"n\n")])
    assert code == 1
    asked = f"{place}/notes has no index yet. It holds 2 Markdown files: until they are found by words"
    assert asked.encode() in shown
    code, shown = in_terminal(command("keys"), place / "notes", environment(), typed=[(question, b"\n")])
    assert code == 0
    assert b"keys.md:1-3" in shown


def test_indexes_are_listed_by_recognisable_names_and_dropped(run: Ask, place: Path) -> None:
    assert "there is no index yet" in run("empty", "indexes")[2]
    run("notes", "index", ".")
    run("work", "index", ".", "--index", "../placed")
    shutil.copytree(place / "notes", place / "old" / "notes")
    run("old/notes", "index", ".")
    assert names(run) == sorted([f"{place}/placed", f"{place.name}/notes", "old/notes"])
    assert "may be any of the indexes" in run("empty", "--index", "notes", "keys")[2]
    assert run("empty", "--index", "old/notes", "keys")[0] == 0
    assert "there is no index plased; there are: " in run("empty", "--index", "plased", "keys")[2]
    shutil.rmtree(place / "old")
    listed = run("empty", "indexes")[1]
    assert "old/notes  2 files | " in listed
    assert f"    {place}/old/notes  (not there)" in listed
    assert "add --yes" in run("empty", "indexes", "--drop", "old/notes")[2]
    assert run("empty", "indexes", "--drop", "old/notes", "--yes")[0] == 0
    (place / "placed" / "mine.txt").write_text("not the program's")
    assert run("empty", "indexes", "--drop", str(place / "placed"), "--yes")[0] == 0
    assert [path.name for path in (place / "placed").iterdir()] == ["mine.txt"]
    assert names(run) == ["notes"]
    assert "there is no index 'sub'" in run("notes", "indexes", "--drop", "sub", "--yes")[2], "a part of one is none"
    before = names(run)
    assert "there is no index 'sub'" in run("empty", "indexes", "--drop", before[0], "--drop", "sub")[2]
    assert names(run) == before
    assert "there is no index 'piano'" in run("empty", "indexes", "--drop", "piano", "--yes")[2]


def folders(run: Ask, *arguments: str) -> list[str]:
    folders: list[str] = json.loads(run("empty", "status", "--json", *arguments)[1])["index"]["folders"]
    return folders


def test_a_folder_inside_an_indexed_one_is_not_indexed_twice(run: Ask, place: Path) -> None:
    run("notes", "index", ".")
    code, out, err = run("notes/sub", "index", ".")
    assert code == 0
    assert f"{place}/notes/sub is part of {place}/notes, which is indexed as a whole" in err
    assert f"  folder   {place}/notes\n" in out
    (place / "notes/sub/seals.md").write_text("# Seals\n\nSeals bark.\n")  # not yet in the index
    (place / "notes/new").mkdir()
    (place / "notes/new/wolf.md").write_text("# Wolf\n\nA wolf howls.\n")
    assert "seals.md" in run("notes/sub", "--docs", ".", "seals")[1]
    assert "is part of" in run("notes/new", "index", ".")[2]
    run("notes", "index", ".", "sub", "--index", "../placed")
    assert folders(run, "--index", str(place / "placed")) == [f"{place}/notes"]
    assert len(names(run)) == 2


def test_what_the_outer_index_leaves_out_has_an_index_of_its_own(run: Ask, place: Path) -> None:
    (place / "notes/.gitignore").write_text("vendor/\n")
    (place / "notes/vendor").mkdir()
    (place / "notes/vendor/lib.md").write_text("# Library\n\nA library of keys.\n")
    run("notes", "index", ".")
    code, _, err = run("notes/vendor", "index", ".")
    assert (code, "is part of" in err) == (0, False)
    assert run("notes/vendor", "keys")[1].startswith(" 1  lib.md:")
    assert run("empty", "forget", f"{place}/notes/sub", "--index", "notes")[1] == "forgot sub/\n"
    assert "is part of" not in run("notes/sub", "index", ".")[2]
    assert run("notes/sub", "otters")[1].startswith(" 1  otters.md:")
    assert names(run) == ["notes", "sub", "vendor"]
    assert run("empty", "forget", f"{place}/notes/keys.md")[1] == "forgot keys.md\n", "of the index that has it"


def test_a_folder_around_an_indexed_one_has_an_index_of_its_own(run: Ask, place: Path) -> None:
    run("notes/sub", "index", ".")
    assert run("notes", "index", ".")[0] == 0
    assert "\n 1  otters.md:" in run("notes/sub", "keys otters")[1]
    run("empty", "indexes", "--drop", "sub", "--yes")
    assert " ../keys.md:" in run("notes/sub", "keys otters")[1]


def test_links_and_folders_that_cannot_be_indexed_have_clear_sentences(run: Ask, place: Path) -> None:
    run("notes", "index", ".")
    (place / "link").symlink_to("notes/sub")
    code, out, err = run("", "--docs", "link", "otters")
    assert "is part of" in err
    assert out.startswith(" 1  notes/sub/otters.md:")
    assert f"{place}/empty holds no documents" in run("", "index", "empty")[2]
    assert f"{place}/gone: no such file or directory" in run("", "index", "gone")[2]
    assert f"{place}/notes/gone: no such file or directory" in run("", "index", "notes/gone")[2]
    shutil.move(place / "notes", place / "moved")
    code, _, err = run("", "--index", "notes", "otters")
    assert code == 0
    assert f"{place}/notes: no such file or directory" in err


def test_a_folder_around_one_of_the_same_index_is_refused(run: Ask, place: Path) -> None:
    run("notes/sub", "index", ".", "--index", "../../placed")
    code, _, err = run("notes", "index", ".", "--index", "../placed")
    assert code == 2
    assert f"{place}/notes holds {place}/notes/sub, which this index has already" in err
    assert f"forget {place}/notes/sub --index {place}/placed" in err
    run("", "forget", str(place / "notes/sub"), "--index", "placed")
    assert run("notes", "index", ".", "--index", "../placed")[0] == 0
    assert folders(run, "--index", str(place / "placed")) == [f"{place}/notes"]


def test_several_indexes_are_asked_and_each_hit_says_which(run: Ask, place: Path) -> None:
    run("notes", "index", ".")
    run("work", "index", ".")
    code, out, err = run("empty", "--all", "keys")
    assert code == 0
    assert "../notes/keys.md:1-3  notes\n" in out
    assert "../work/piano.md:1-3  work\n" in out
    assert "searched 3 sections of 3 files in 2 indexes: ../notes, ../work" in err
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
    code, out, err = run("empty", "--index", "work", "--index", str(place / "nowhere"), "keys")
    assert "work/piano.md" in out
    assert f"{place}/nowhere: not asked: there is no index" in err
    context = run("empty", "--all", "--context", "keys")[1]
    assert "Rotate the keys every year." in context
    assert "The keys of the piano are white." in context
    (place / "asked.jsonl").write_text('{"id": "1", "question": "keys"}\n')
    (line,) = run("empty", "--all", "--batch", "../asked.jsonl")[1].splitlines()
    assert {hit["index"] for hit in json.loads(line)["hits"]} >= {"notes", "work"}
    assert "leave out --index" in run("empty", "--all", "--index", "work", "keys")[2]


def test_an_agent_is_answered_by_several_indexes_and_reads_one(run: Ask, place: Path) -> None:
    run("notes", "index", ".")
    run("work", "index", ".")

    def call(tool: str, **arguments: str) -> str:
        result = call_tool(served, tool, arguments)
        content = result.content[0]
        assert isinstance(content, TextContent)
        return content.text

    opening = Opening(several=("notes", "work"), settings={"encoder": {"kind": "none"}})
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


@pytest.mark.parametrize("named", [("--all",), ("--index", "notes", "--index", "work")])
def test_the_page_shows_one_index(run: Ask, named: tuple[str, ...]) -> None:
    code, _, err = run("empty", "serve", "--web", *named)
    assert code == 2
    assert "the web page has one index: give --index once, or index the folders as one" in err
