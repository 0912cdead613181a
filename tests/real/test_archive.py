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
from retriever.store.locks import writer_lock
from retriever.store.store import Store, open_store
from retriever.upkeep.archive import export_index, import_index
from tests.program import command, environment, run_command, run_python
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found, same_hits, write_pages

pytestmark = pytest.mark.shared_index

INDEX = "index.sqlite"


@pytest.fixture
def archive(shelf: Shelf, tmp_path: Path) -> Path:
    export_index(tmp_path / "notes.zip", shelf.index)
    return tmp_path / "notes.zip"


def brought(archive: Path, index: Path, *folders: Path, **options: Any) -> Store:  # noqa: ANN401 - of import_index
    return open_store(import_index(archive, index, folders, **options))


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
    assert str(brought(archive, index)) == str(index)
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
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert stat.S_IMODE(index.stat().st_mode) == 0o700
    assert stat.S_IMODE((index / INDEX).stat().st_mode) == 0o600
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
        report = export_index(tmp_path / "notes.zip", shelf.index)
        writer.execute("ROLLBACK")
    assert (report.documents, report.folders) == (len(PAGES), (str(shelf.docs),))
    with zipfile.ZipFile(tmp_path / "notes.zip") as members:
        assert b"xyzzy" not in members.read(INDEX)


def test_its_folders_may_be_elsewhere(shelf: Shelf, archive: Path, tmp_path: Path) -> None:
    elsewhere = Shelf(tmp_path / "elsewhere", PAGES)
    elsewhere.encoder = shelf.encoder
    before = shelf.encoder.encoded
    brought(archive, elsewhere.index, elsewhere.docs)
    answer = elsewhere.ask("what pays for a letter?")
    assert (answer.hits[0].folder, answer.hits[0].citation) == (str(elsewhere.docs), "mail.md:5-8")
    assert answer.index.stale_files == 0
    assert answer.degraded == ()
    assert shelf.encoder.encoded == before
    elsewhere.write("mail.md", "# Mail\n\nDoves carry it.\n")
    assert elsewhere.ask("what do doves carry?").hits[0].citation == "mail.md:1-3"


def test_nothing_is_replaced_unless_that_is_said(shelf: Shelf, archive: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is there already"):
        export_index(archive, shelf.index)
    other = Shelf(tmp_path / "other", {"only.md": "# Only\n"})
    other.update()
    with pytest.raises(UsageError, match="--force replaces it"):
        brought(archive, other.index)
    with other.open(**NEVER_REFRESH) as retriever:  # a reader that stays open sees the new one
        assert retriever.status().index.documents == 1
        brought(archive, other.index, replace=True)
        assert retriever.search("what pays for a letter?").hits[0].citation == "mail.md:5-8"
    assert sorted(path.name for path in other.place.iterdir()) == ["docs", "index"]
    assert [path.name for path in other.index.glob("*-*")] == ["snapshot-2"]
    with writer_lock(other.index, 0):
        pass
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(UsageError, match="something else than an index"):
        brought(archive, tmp_path / "full", replace=True)
    with pytest.raises(DocumentsError, match="no folder"):
        brought(archive, tmp_path / "new", tmp_path / "nowhere")


def test_every_damaged_byte_is_noticed(archive: Path, tmp_path: Path) -> None:
    data = archive.read_bytes()
    damaged = [data[:length] for length in (0, 1, len(data) // 2, len(data) - 1)]
    for place in range(0, len(data), len(data) // 20):
        damaged.append(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
    for number, content in enumerate(damaged):
        path = tmp_path / "damaged.zip"
        path.write_bytes(content)
        try:
            brought(path, tmp_path / f"new-{number}")
        except RetrieverError:
            assert not (tmp_path / f"new-{number}").exists()
        else:  # a byte of the ZIP that says nothing, such as a date: what it holds is whole
            assert (tmp_path / f"new-{number}" / INDEX).is_file()


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
    for name, message in (("nothing.zip", "not there"), ("folder.zip", "cannot be read")):
        (tmp_path / "folder.zip").mkdir(exist_ok=True)
        with pytest.raises(ArchiveError, match=message):
            brought(tmp_path / name, tmp_path / "new")
    with pytest.raises(IndexVersionError, match=r"another format of the index; .* index FOLDER"):
        brought(altered(archive, "PRAGMA user_version = 99"), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_bomb_is_not_unpacked(tmp_path: Path, kind: int) -> None:
    bomb = packed(tmp_path / "bomb.zip", {INDEX: bytes(50_000_000)}, kind)
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match=r"more bytes than any index has|packed in another way"):
            brought(bomb, tmp_path / "new")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["bomb.zip"]


def test_a_bomb_that_lies_about_its_size_is_not_unpacked(tmp_path: Path) -> None:
    bomb = packed(tmp_path / "bomb.zip", {INDEX: bytes(50_000_000)})
    data = bytearray(bomb.read_bytes())
    place = data.index(b"PK\x01\x02") + 24  # of the unpacked size, in the ZIP's list of members
    data[place : place + 4] = (4_000_000).to_bytes(4, "little")
    bomb.write_bytes(data)
    with pytest.raises(ArchiveError, match="damaged"):
        brought(bomb, tmp_path / "new")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TRIGGER t AFTER UPDATE ON folders BEGIN DELETE FROM nodes; END", "t is not defined as it should be"),
        ("CREATE VIEW v AS SELECT 1", "v is not defined"),
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
from retriever.indexing.derived import Derived
from retriever.upkeep import archive as importing

archive, index, tempfile.tempdir, moment = sys.argv[1:]
kill = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
if moment == "the rows are there":
    Derived.renew = kill
else:
    importing.check_rows = kill
importing.import_index(archive, index, replace=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("moment", ["it is unpacked", "the rows are there"])
def test_a_killed_import_leaves_the_old_index(shelf: Shelf, archive: Path, tmp_path: Path, moment: str) -> None:
    index = tmp_path / "index"
    brought(archive, index)
    before = (index / INDEX).read_bytes()
    assert run_python(KILLED_IMPORT, archive, index, tmp_path, moment).returncode == -signal.SIGKILL
    assert (index / INDEX).read_bytes() == before
    assert shelf.ask(QUESTIONS[0], index=index, **NEVER_REFRESH).hits
    brought(archive, index, replace=True)
    assert shelf.ask(QUESTIONS[0], index=index, **NEVER_REFRESH).hits


def test_without_a_place_the_index_comes_where_that_of_its_folders_belongs(
    shelf: Shelf, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    index = Path(import_index(archive))
    assert index.parent == tmp_path / "data" / "hybrid-retrieve" / "indexes"
    assert index.name.startswith(f"{shelf.docs.name}-")
    with pytest.raises(UsageError, match="--force replaces it"):
        import_index(archive)
    assert import_index(archive, replace=True) == str(index)


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
    assert first.stdout.startswith("exported 1 document, "), first.stderr
    taken = run("import", "notes.zip")
    assert (taken.returncode, taken.stdout) == (2, "")
    assert "--force replaces it" in taken.stderr
    mapped = run("import", "notes.zip", "--docs", "there")
    assert mapped.stdout.startswith(f"imported 1 document, 1 section of {tmp_path / 'there'} into "), mapped.stderr
    assert " 1  there/a.md:1-3\n" in run("otter asleep", "-q", "--top-k", "1", "--index", "there").stdout
    (tmp_path / "docs").rename(tmp_path / "gone")
    away = run("import", "notes.zip", "--index", "new", "--json")
    assert json.loads(away.stdout)["index"]["documents"] == 1
    assert "not looked at until --docs" in away.stderr
