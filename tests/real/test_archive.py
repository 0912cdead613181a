"""An index as one file: there and back, on another machine, and what damaged or hostile files come to."""

import json
import signal
import sqlite3
import stat
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from retriever.errors import ArchiveError, DocumentsError, IndexVersionError, RetrieverError, UsageError
from retriever.upkeep.archive import export_index, import_index
from tests.program import command, environment, run_command, run_python
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found, same_hits, write_pages

pytestmark = pytest.mark.shared_index

INDEX = "index.sqlite"


@pytest.fixture
def archive(shelf: Shelf, tmp_path: Path) -> Path:
    export_index(tmp_path / "notes.zip", shelf.index)
    return tmp_path / "notes.zip"


def brought(archive: Path, index: Path, *folders: Path, **options: Any) -> str:  # noqa: ANN401 - of import_index
    return import_index(archive, index, folders, **options)


def altered(archive: Path, *statements: str) -> Path:
    """The archive with another database."""
    database = archive.with_suffix(".sqlite")
    with zipfile.ZipFile(archive) as members:
        database.write_bytes(members.read(INDEX))
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    return packed(archive.with_name("altered.zip"), {INDEX: database.read_bytes()})


def packed(target: Path, members: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(target, "w", kind) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


def test_an_imported_index_answers_alike_and_nothing_is_embedded(shelf: Shelf, archive: Path, tmp_path: Path) -> None:
    index = tmp_path / "far" / "index"
    assert brought(archive, index) == str(index)
    before = shelf.encoder.encoded
    for question in QUESTIONS:
        answer = shelf.ask(question, index=index)
        assert same_hits(found(answer), found(shelf.ask(question)))
        assert tuple(map(str, answer.degraded)) == (
            f"refresh: {shelf.docs} is not looked at until you name it with --docs",
        )
        assert {hit.citation_state for hit in answer.hits} == {"unchecked"}
    assert shelf.encoder.encoded == before
    assert shelf.update(index=index).embedded == 0  # which names the folder
    answer = shelf.ask(QUESTIONS[0], index=index)
    assert (answer.degraded, answer.hits[0].citation_state) == ((), "exact")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (archive, index, index / INDEX)]
    assert modes == [0o600, 0o700, 0o600]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["far", "notes.zip"]
    assert [path.name for path in index.parent.iterdir()] == ["index"]


def test_an_export_is_of_one_moment_and_holds_no_deleted_text(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES | {"secret.md": f"# Secret\n\n{'xyzzy ' * 900}\n"})
    shelf.update()
    (shelf.docs / "secret.md").unlink()
    shelf.update()
    with shelf.rows() as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM documents")
        export_index(tmp_path / "notes.zip", shelf.index)
        writer.execute("ROLLBACK")
    brought(tmp_path / "notes.zip", tmp_path / "new")
    assert shelf.ask("letter", index=tmp_path / "new", **NEVER_REFRESH).index.documents == len(PAGES)
    with zipfile.ZipFile(tmp_path / "notes.zip") as members:
        assert b"xyzzy" not in members.read(INDEX)


def test_nothing_is_replaced(shelf: Shelf, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="is there already"):
        export_index(archive, shelf.index)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    for place, kind, message in (
        (shelf.index, UsageError, r"there is an index .*indexes --drop"),
        (tmp_path / "full", UsageError, "something else than an index"),
    ):
        with pytest.raises(kind, match=message):
            brought(archive, place)
    with pytest.raises(DocumentsError, match="no folder"):
        brought(archive, tmp_path / "new", tmp_path / "nowhere")
    # Without a place the index comes where that of its folders belongs.
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    index = Path(import_index(archive))
    assert index.parent == tmp_path / "data" / "hybrid-retrieve" / "indexes"
    assert index.name.startswith(f"{shelf.docs.name}-")
    with pytest.raises(UsageError, match="there is an index"):
        import_index(archive)


def test_what_is_no_archive_is_refused(tmp_path: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive) as members:
        database = members.read(INDEX)
    for content in (
        {INDEX: database, "../../evil": b"x"},
        {"../index.sqlite": database},
        {"/index.sqlite": database},
        {},
    ):
        with pytest.raises(ArchiveError, match="holds other files"):
            brought(packed(tmp_path / "evil.zip", content), tmp_path / "new")
    for name, message in (("nothing.zip", "No such file"), ("folder.zip", "Is a directory")):
        (tmp_path / "folder.zip").mkdir(exist_ok=True)
        with pytest.raises(ArchiveError, match=message):
            brought(tmp_path / name, tmp_path / "new")
    with pytest.raises(IndexVersionError, match=r"another format of the index; .* index FOLDER"):
        brought(altered(archive, "PRAGMA user_version = 99"), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_a_bomb_fills_no_memory(tmp_path: Path, kind: int) -> None:
    bomb = packed(tmp_path / "bomb.zip", {INDEX: bytes(50_000_000)}, kind)
    data = bytearray(bomb.read_bytes())
    place = data.index(b"PK\x01\x02") + 24  # of the unpacked size, in the ZIP's list of members
    data[place : place + 4] = (4_000_000).to_bytes(4, "little")
    bomb.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match=r"damaged|other files"):
            brought(bomb, tmp_path / "new")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["bomb.zip"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TRIGGER t AFTER UPDATE ON folders BEGIN DELETE FROM nodes; END", "t is not defined as it should be"),
        ("PRAGMA user_version = 0", "no index that can be used"),
        ("UPDATE chunks SET node_key = 7", "is damaged: a row of chunks belongs to no row of nodes"),
        ("DROP TABLE chunks", "chunks is not defined"),
        ("INSERT INTO folders (path, prefix) VALUES ('/more', 'more:')", "has 2 folders, name as many"),
    ],
)
def test_a_hostile_database_is_refused(archive: Path, tmp_path: Path, statement: str, message: str) -> None:
    evil = altered(archive, statement)
    with pytest.raises(RetrieverError, match=message):
        brought(evil, tmp_path / "new", tmp_path)
    assert not (tmp_path / "new").exists()


KILLED_IMPORT = """
import os, signal, sys, tempfile
from retriever.upkeep import archive as importing

archive, index, tempfile.tempdir, moment = sys.argv[1:]
setattr(importing, moment, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
importing.import_index(archive, index)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("moment", ["check_rows", "open_derived"])
def test_a_killed_import_leaves_nothing_or_the_index(shelf: Shelf, archive: Path, tmp_path: Path, moment: str) -> None:
    index = tmp_path / "index"
    assert run_python(KILLED_IMPORT, archive, index, tmp_path, moment).returncode == -signal.SIGKILL
    if moment == "check_rows":
        assert not index.exists()
        brought(archive, index)
    assert shelf.ask(QUESTIONS[0], index=index, **NEVER_REFRESH).hits


def test_a_server_that_only_the_index_names_is_not_asked(archive: Path, tmp_path: Path) -> None:
    settings = json.dumps({"encoder": {"kind": "openai", "url": "https://evil.example/v1"}})
    evil = altered(archive, f"UPDATE meta SET value = '{settings}' WHERE key = 'settings'")
    with pytest.raises(UsageError, match="as well: --encoder-url https://evil"):
        brought(evil, tmp_path / "new")
    brought(evil, tmp_path / "new", settings={"encoder": {"url": "https://evil.example/v1"}})


def test_from_the_command_line(tmp_path: Path) -> None:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return run_command(command(*arguments), tmp_path, environment(XDG_DATA_HOME=str(tmp_path / "data")))

    for name in ("docs", "there"):
        write_pages(tmp_path / name, {"a.md": "# Otters\n\nAn otter holds hands while asleep.\n"})
    assert run("index", "docs", "--encoder-kind", "none").returncode == 0
    first = run("export", "notes.zip")
    assert first.stdout.startswith("exported to notes.zip, "), first.stderr
    taken = run("import", "notes.zip")
    assert (taken.returncode, taken.stdout) == (2, "")
    assert "indexes --drop" in taken.stderr
    mapped = run("import", "notes.zip", "--docs", "there")
    assert mapped.stdout.startswith(f"imported 1 document, 1 section of {tmp_path / 'there'} into "), mapped.stderr
    assert " 1  there/a.md:1-3\n" in run("otter asleep", "-q", "--top-k", "1", "--index", "there").stdout
    (tmp_path / "docs").rename(tmp_path / "gone")
    away = run("import", "notes.zip", "--index", "new", "--json")
    assert json.loads(away.stdout)["index"]["documents"] == 1
    assert "not looked at until --docs" in away.stderr
