"""An index as one file: there and back, on another machine, and what damaged or hostile files come to."""

import json
import sqlite3
import stat
import zipfile
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from retriever.errors import ArchiveError, DocumentsError, RetrieverError, UsageError
from retriever.upkeep.archive import export_index, import_index
from tests.program import Cli
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found, same_hits, write_pages

pytestmark = pytest.mark.shared_index

INDEX = "index.sqlite"


@pytest.fixture
def archive(shelf: Shelf, tmp_path: Path) -> Path:
    export_index(tmp_path / "notes.zip", shelf.index)
    return tmp_path / "notes.zip"


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
    assert import_index(archive, index) == str(index)
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
    import_index(tmp_path / "notes.zip", tmp_path / "new")
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
        ("postgresql://me@127.0.0.1:1/notes", UsageError, "for an index in a folder"),
    ):
        with pytest.raises(kind, match=message):
            import_index(archive, place)
    with pytest.raises(DocumentsError, match="no folder"):
        import_index(archive, tmp_path / "new", [tmp_path / "nowhere"])
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
    for content, kind in (
        ({INDEX: database, "../../evil": b"x"}, zipfile.ZIP_DEFLATED),
        ({"../index.sqlite": database}, zipfile.ZIP_DEFLATED),
        ({}, zipfile.ZIP_DEFLATED),
        ({INDEX: bytes(50_000_000)}, zipfile.ZIP_LZMA),  # which unpacks a kilobyte to gigabytes
    ):
        with pytest.raises(ArchiveError, match="holds other files"):
            import_index(packed(tmp_path / "evil.zip", content, kind), tmp_path / "new")
    (tmp_path / "folder.zip").mkdir()
    (tmp_path / "cut.zip").write_bytes(archive.read_bytes()[:-1000])
    for name, message in (("nothing", "No such file"), ("folder", "Is a directory"), ("cut", "damaged")):
        with pytest.raises(ArchiveError, match=message):
            import_index(tmp_path / f"{name}.zip", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TRIGGER t AFTER UPDATE ON folders BEGIN DELETE FROM nodes; END", "t is not defined as it should be"),
        ("PRAGMA user_version = 0", "no index that can be used"),
        ("PRAGMA user_version = 99", "another format of the index; .* index FOLDER"),
        ("UPDATE chunks SET node_key = 7", "is damaged: a row of chunks belongs to no row of nodes"),
        ("DROP TABLE chunks", "chunks is not defined"),
        (
            "INSERT INTO folders (path, prefix, dialect) VALUES ('/more', 'more:', 'commonmark')",
            "has 2 folders, name as many",
        ),
    ],
)
def test_a_hostile_database_is_refused(archive: Path, tmp_path: Path, statement: str, message: str) -> None:
    evil = altered(archive, statement)
    with pytest.raises(RetrieverError, match=message):
        import_index(evil, tmp_path / "new", [tmp_path])
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("moment", ["check_rows", "open_derived"])
def test_an_interrupted_import_leaves_nothing_or_the_index(
    shelf: Shelf, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    index = tmp_path / "index"
    monkeypatch.setattr(f"retriever.upkeep.archive.{moment}", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        import_index(archive, index)
    assert index.exists() == (moment == "open_derived")
    if index.exists():
        assert shelf.ask(QUESTIONS[0], index=index, **NEVER_REFRESH).hits


def test_a_server_that_only_the_index_names_is_not_asked(archive: Path, tmp_path: Path) -> None:
    settings = json.dumps({"encoder": {"kind": "openai", "url": "https://evil.example/v1"}})
    evil = altered(archive, f"UPDATE meta SET value = '{settings}' WHERE key = 'settings'")
    with pytest.raises(UsageError, match="as well: --encoder-url https://evil"):
        import_index(evil, tmp_path / "new")
    import_index(evil, tmp_path / "new", settings={"encoder": {"url": "https://evil.example/v1"}})


def test_from_the_command_line(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("docs", "there"):
        write_pages(tmp_path / name, {"a.md": "# Otters\n\nAn otter holds hands while asleep.\n"})
    cli("index", "docs", "--encoder-kind", "none")
    assert cli("export", "notes.zip").out.startswith("exported to notes.zip, ")
    assert "indexes --drop" in cli("import", "notes.zip", code=2).err
    mapped = cli("import", "notes.zip", "--docs", "there").out
    assert mapped.startswith(f"imported 1 document, 1 section of {tmp_path / 'there'} into ")
    assert " 1  there/a.md:1-3\n" in cli("otter asleep", "-q", "--top-k", "1", "--index", "there").out
    (tmp_path / "docs").rename(tmp_path / "gone")
    away = cli("import", "notes.zip", "--index", "new", "--json")
    assert json.loads(away.out)["index"]["documents"] == 1
    assert "not looked at until --docs" in away.err
