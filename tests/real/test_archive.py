"""An index as one file: there and back, on another machine, and what damaged or hostile files come to."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from retriever import archive as importing
from retriever.archive import ImportOptions, Manifest, export_index, import_archive, open_archive
from retriever.doctor import examine_leftovers
from retriever.errors import (
    ArchiveError,
    DocumentsError,
    IndexLockedError,
    IndexVersionError,
    RetrieverError,
    UsageError,
)
from retriever.store.database import INDEX_FORMAT
from retriever.store.locks import writer_lock
from tests.program import command, environment, run_command, run_python
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found, same_hits, write_pages

pytestmark = pytest.mark.shared_index

INDEX = "index.sqlite"


@pytest.fixture
def archive(shelf: Shelf, tmp_path: Path) -> Path:
    export_index(shelf.index, tmp_path / "notes.zip")
    return tmp_path / "notes.zip"


def brought(archive: Path, index: Path, *folders: Path, replace: bool = False, encoder_url: str = "") -> Manifest:
    with open_archive(archive) as opened:
        import_archive(opened, ImportOptions(index, folders, replace, encoder_url))
        return opened.manifest


def altered(archive: Path, change: Callable[[sqlite3.Connection], object], **manifest: object) -> Path:
    """The archive with another database, and a manifest that fits it."""
    database = archive.with_suffix(".sqlite")
    with zipfile.ZipFile(archive) as members:
        database.write_bytes(members.read(INDEX))
        known = json.loads(members.read("manifest.json"))
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        change(connection)
    data = database.read_bytes()
    fitting = known | {"bytes": len(data), "sha256": sha256(data).hexdigest()} | manifest
    return packed(archive.with_name("altered.zip"), {"manifest.json": json.dumps(fitting), INDEX: data})


def packed(target: Path, members: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


def manifest_of(archive: Path) -> dict[str, Any]:
    with zipfile.ZipFile(archive) as members:
        content: dict[str, Any] = json.loads(members.read("manifest.json"))
        return content


def test_an_imported_index_answers_alike_and_nothing_is_embedded(shelf: Shelf, archive: Path, tmp_path: Path) -> None:
    index = tmp_path / "far" / "index"
    manifest = brought(archive, index)
    assert (manifest.documents, manifest.folders) == (len(PAGES), (str(shelf.docs),))
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
        manifest = export_index(shelf.index, tmp_path / "notes.zip")
        writer.execute("ROLLBACK")
    assert manifest.documents == len(PAGES)
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


def test_two_folders_may_change_places(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.md").write_text("# X\n", encoding="utf-8")
    shelf.update(shelf.docs, other)
    export_index(shelf.index, tmp_path / "notes.zip")
    with pytest.raises(UsageError, match=f"2 folders, name as many, in this order: {shelf.docs}, {other}"):
        brought(tmp_path / "notes.zip", tmp_path / "new", other)
    brought(tmp_path / "notes.zip", tmp_path / "new", other, shelf.docs)
    with shelf.open(index=tmp_path / "new", **NEVER_REFRESH) as retriever:
        assert retriever.status().index.folders == (str(other), str(shelf.docs))


def test_nothing_is_replaced_unless_that_is_said(shelf: Shelf, archive: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--force"):
        export_index(shelf.index, archive)
    export_index(shelf.index, archive, replace=True)
    other = Shelf(tmp_path / "other", {"only.md": "# Only\n"})
    other.update()
    with pytest.raises(UsageError, match="--force replaces it"):
        brought(archive, other.index)
    with other.open(**NEVER_REFRESH) as retriever:  # a reader that stays open sees the new one
        assert retriever.status().index.documents == 1
        brought(archive, other.index, replace=True)
        assert retriever.search("what pays for a letter?").hits[0].citation == "mail.md:5-8"
    assert [path.name for path in other.place.iterdir() if path.name.startswith(".")] == []
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
    for place in range(0, len(data), len(data) // 40):
        flipped = bytearray(data)
        flipped[place] ^= 0x55
        damaged.append(bytes(flipped))
    for number, content in enumerate(damaged):
        path = tmp_path / "damaged.zip"
        path.write_bytes(content)
        try:
            brought(path, tmp_path / f"new-{number}")
        except RetrieverError:
            assert not (tmp_path / f"new-{number}").exists()
        else:  # a byte of the ZIP that says nothing, such as a date: what it holds is whole
            assert (tmp_path / f"new-{number}" / INDEX).is_file()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_what_is_no_archive_is_refused(tmp_path: Path, archive: Path) -> None:
    known = manifest_of(archive)
    with zipfile.ZipFile(archive) as members:
        database = members.read(INDEX)
    files: dict[str, dict[str, str | bytes]] = {
        "holds other files": {"manifest.json": json.dumps(known), INDEX: database, "../../evil": b"x"},
        "holds other  files": {"../index.sqlite": database, "manifest.json": json.dumps(known)},
        "manifest makes no sense": {"manifest.json": "[" * 5000, INDEX: database},
        "manifest  makes no sense": {"manifest.json": json.dumps(known | {"folders": ["\ud800"]}), INDEX: database},
        "manifest makes  no sense": {"manifest.json": json.dumps(known | {"bytes": "many"}), INDEX: database},
        "manifest makes no  sense": {"manifest.json": json.dumps(known | {"more": 1}), INDEX: database},
        "manifest is too large": {"manifest.json": json.dumps(known) + " " * 70_000, INDEX: database},
        "checksum differs": {"manifest.json": json.dumps(known), INDEX: database[:-4096]},
        "checksum differs ": {"manifest.json": json.dumps(known), INDEX: database[:-1] + bytes([database[-1] ^ 1])},
        "checksum  differs": {"manifest.json": json.dumps(known), INDEX: database + b"x"},
    }
    for message, content in files.items():
        with pytest.raises(ArchiveError, match=" ".join(message.split())):
            brought(packed(tmp_path / "evil.zip", content), tmp_path / "new")
    with pytest.raises(ArchiveError, match="not there"):
        brought(tmp_path / "nothing.zip", tmp_path / "new")
    with pytest.raises(ArchiveError, match="cannot be read"):
        brought(tmp_path, tmp_path / "new")
    for other in ({"archive_format": 2}, {"index_format": INDEX_FORMAT + 1}, {"index_format": 0}):
        path = packed(tmp_path / "other.zip", {"manifest.json": json.dumps(known | other), INDEX: database})
        with pytest.raises(IndexVersionError, match=r"another format of the index; .*: hybrid_retrieve\.py index /"):
            brought(path, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.zip", "notes.zip", "other.zip"]


def test_a_bomb_is_not_unpacked(tmp_path: Path, archive: Path) -> None:
    known = manifest_of(archive)
    zeros = bytes(50_000_000)
    honest = packed(tmp_path / "bomb.zip", {"manifest.json": json.dumps(known | {"bytes": len(zeros)}), INDEX: zeros})
    with pytest.raises(ArchiveError, match="which no index does"):
        brought(honest, tmp_path / "new")
    lying = packed(tmp_path / "bomb.zip", {"manifest.json": json.dumps(known | {"bytes": 5}), INDEX: zeros})
    with pytest.raises(ArchiveError, match="checksum differs"):
        brought(lying, tmp_path / "new")
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as members:
        members.writestr("manifest.json", b"{}")
        members.writestr(INDEX, b"{}")
        with pytest.warns(UserWarning, match="Duplicate name"):
            members.writestr(INDEX, b"{}")
    with pytest.raises(ArchiveError, match="other files"):
        brought(tmp_path / "twice.zip", tmp_path / "new")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TRIGGER t AFTER UPDATE ON folders BEGIN DELETE FROM nodes; END", "the trigger t, which is not ours"),
        ("CREATE VIEW v AS SELECT 1", "the view v, which is not ours"),
        ("CREATE VIRTUAL TABLE f USING fts5(a)", "which is not ours"),
        ("PRAGMA user_version = 99", "format 99"),
        ("PRAGMA user_version = 0", "no index that can be used"),
        ("UPDATE nodes SET breadcrumb = 'x'", "is damaged: a row of nodes"),
        ("UPDATE vectors SET vector = zeroblob(8)", "is damaged: (a vector|a row of vectors)"),
        ("UPDATE meta SET value = '[]' WHERE key = 'settings'", "is damaged: a row of meta"),
        ("UPDATE meta SET value = '{\"top_k\": \"all\"}' WHERE key = 'settings'", "top_k"),
        ("DROP TABLE chunks", "chunks is not defined"),
        ("INSERT INTO folders (path, prefix) VALUES ('/more', 'more:')", "not those of its manifest"),
    ],
)
def test_a_hostile_database_is_refused(archive: Path, tmp_path: Path, statement: str, message: str) -> None:
    evil = altered(archive, lambda connection: connection.execute(statement))
    with pytest.raises(RetrieverError, match=message):
        brought(evil, tmp_path / "new", tmp_path)
    assert not (tmp_path / "new").exists()


KILLED_IMPORT = """
import os, signal, sys
from pathlib import Path
from retriever import archive as importing
from retriever.archive import open_archive

archive, index, moment = sys.argv[1:]
rename, kill = Path.rename, lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if moment == "between its renames":
    Path.rename = lambda path, target: rename(path, target) if target.name.startswith(".") else kill()
else:
    setattr(importing, {"unpacked": "prepare_index", "made": "put_in_place"}[moment], kill)
with open_archive(Path(archive)) as opened:
    importing.import_archive(opened, importing.ImportOptions(Path(index), replace=True))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("moment", ["unpacked", "made", "between its renames"])
def test_what_a_killed_import_left_goes_with_the_next(shelf: Shelf, archive: Path, tmp_path: Path, moment: str) -> None:
    index = tmp_path / "far" / "index"
    brought(archive, index)
    before = (index / INDEX).read_bytes()
    assert run_python(KILLED_IMPORT, archive, index, moment).returncode == -signal.SIGKILL
    draft, _ = importing.name_drafts(index)
    assert (draft / INDEX).exists()
    assert [item.says for item in examine_leftovers(index) if str(draft) in item.says] == [
        f"{draft} is of an import that was killed"
    ]
    if moment == "between its renames":
        assert not index.exists()
        with pytest.raises(UsageError, match="--force replaces it"):  # the one that was taken away is there again
            brought(archive, index)
        assert (index / INDEX).read_bytes() == before
    else:
        brought(archive, index, replace=True)
    assert [path.name for path in index.parent.iterdir()] == ["index"]
    assert shelf.ask(QUESTIONS[0], index=index, **NEVER_REFRESH).hits


def test_an_import_that_goes_on_is_left_alone(archive: Path, tmp_path: Path) -> None:
    draft, _ = importing.name_drafts(tmp_path / "new")
    with writer_lock(draft, 0):
        (draft / INDEX).write_bytes(b"half of it")
        with pytest.raises(IndexLockedError, match=f"process {os.getpid()} is writing"):
            brought(archive, tmp_path / "new")
        assert (draft / INDEX).read_bytes() == b"half of it"
    brought(archive, tmp_path / "new")
    assert not draft.exists()


def test_a_server_that_only_the_index_names_is_not_asked(archive: Path, tmp_path: Path) -> None:
    settings = json.dumps({"encoder": {"kind": "openai", "url": "https://evil.example/v1"}})
    evil = altered(archive, lambda rows: rows.execute("UPDATE meta SET value = ? WHERE key = 'settings'", (settings,)))
    with pytest.raises(UsageError, match="add: --encoder-url https://evil"):
        brought(evil, tmp_path / "new")
    brought(evil, tmp_path / "new", encoder_url="https://evil.example/v1")


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
