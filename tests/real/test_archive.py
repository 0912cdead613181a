"""An index as one file: there and back, on another machine, and what damaged or hostile files come to."""

import json
import sqlite3
import stat
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from retriever.api import forget_documents
from retriever.errors import ArchiveError, DocumentsError, EncoderError, RetrieverError, UsageError
from retriever.upkeep.archive import export_index, import_index
from tests.fake_encoder import FakeEncoder
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
    before = shelf.encoder.encoded
    assert import_index(archive, index, encoder=shelf.encoder) == str(index)
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
        ("UPDATE folders SET path = 'docs'", "'docs' is no folder of documents"),
        ("UPDATE folders SET dialect = 'weird'", "is no folder of documents"),
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


ANEW = {
    "a parent that is its own": "UPDATE nodes SET parent_id = node_id WHERE kind = 'section'",
    "a parent that is nowhere": "UPDATE nodes SET parent_id = 'nowhere'",
    "a text that is nowhere": "UPDATE nodes SET holder_id = 'nowhere'",
    "negative lines": "UPDATE nodes SET first_line = -5, last_line = -1",
    "lines without an end": "UPDATE nodes SET last_line = NULL",
    "an unknown kind": "UPDATE nodes SET kind = 'weird', level = -9",
    "ids unlike the path": "UPDATE nodes SET node_id = 'x' || node_key",
    "titles that are no list": "UPDATE nodes SET breadcrumb = '{'",
    "an unknown kind of link": "UPDATE links SET kind = 'weird', line = -1",
    "chunks of other lines": "UPDATE chunks SET first_line = 1, last_line = 999, text = 'Tomatoes'",
    "chunks of other texts": "UPDATE chunks SET text_hash = x'00'",
    "other names": "UPDATE names SET name = 'letter' || node_key",
    "a scale that is none": "UPDATE backgrounds SET content = '{}'",
    "questions without vectors": "UPDATE meta SET value = '[' WHERE key = 'unrelated'",
    "another state": "UPDATE meta SET value = 'x' WHERE key IN ('snapshot', 'manifest_hash', 'index_config')",
}
"""What of an index is made anew."""


@pytest.mark.parametrize("statement", ANEW.values(), ids=ANEW)
def test_rows_that_make_no_sense_change_no_answer(shelf: Shelf, archive: Path, tmp_path: Path, statement: str) -> None:
    import_index(altered(archive, statement), tmp_path / "new", encoder=shelf.encoder)
    for question in QUESTIONS:
        assert same_hits(found(shelf.ask(question, index=tmp_path / "new")), found(shelf.ask(question)))


@pytest.mark.parametrize(
    "path", ["../mail.md", "/etc/mail.md", "a//mail.md", "", "mail" * 2_000], ids=lambda path: path[:9]
)
def test_a_document_with_a_path_that_none_has_is_left_out(
    shelf: Shelf, archive: Path, tmp_path: Path, path: str
) -> None:
    evil = altered(archive, f"UPDATE documents SET path = '{path}' WHERE path = 'mail.md'")
    import_index(evil, tmp_path / "new", encoder=shelf.encoder)
    with shelf.open(index=tmp_path / "new") as retriever:
        assert retriever.status().skipped[0] == (path, "no document has such a path")
        assert retriever.search("tomatoes in a wet summer").hits


@pytest.mark.parametrize(
    "vector",
    ["zeroblob(30000000)", "x'01'", "x''", "zeroblob(length(vector))"],
    ids=["30 MB", "short", "empty", "zeros"],
)
def test_a_text_whose_vector_is_none_is_found_by_its_words(
    shelf: Shelf, archive: Path, tmp_path: Path, vector: str
) -> None:
    index = tmp_path / "new"
    import_index(
        altered(archive, f"UPDATE vectors SET vector = {vector} WHERE vector_key = 1"), index, encoder=shelf.encoder
    )
    answer = shelf.ask(QUESTIONS[0], index=index)
    assert answer.hits[0].node_id == "mail.md#mail/stamps"
    assert 0 < answer.index.embedded_share < 1
    assert shelf.update(index=index).embedded == 1


def test_vectors_of_another_model_are_left_out(shelf: Shelf, archive: Path, tmp_path: Path) -> None:
    index = tmp_path / "new"
    import_index(archive, index, encoder=FakeEncoder(fingerprint="0the" * 4))
    with closing(sqlite3.connect(index / INDEX)) as rows:
        assert rows.execute("SELECT count(*) FROM vectors").fetchone() == (0,)
    assert shelf.ask(QUESTIONS[0], index=index).hits[0].node_id == "mail.md#mail/stamps"


def test_an_altered_text_does_not_pass_for_that_of_a_file(shelf: Shelf, archive: Path, tmp_path: Path) -> None:
    evil = altered(archive, "UPDATE nodes SET text = replace(text, 'A stamp', 'The thief') WHERE text LIKE '%A stamp%'")
    import_index(evil, tmp_path / "new", [shelf.docs], encoder=shelf.encoder)
    (hit, *_) = shelf.ask("what pays for a letter?", index=tmp_path / "new").hits
    assert "A stamp pays" in hit.text
    assert hit.citation_state == "exact"


def test_what_was_forgotten_stays_forgotten(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    forget_documents(["mail.md"], shelf.index)
    export_index(tmp_path / "notes.zip", shelf.index)
    import_index(tmp_path / "notes.zip", tmp_path / "new", [shelf.docs], encoder=shelf.encoder)
    assert shelf.update(index=tmp_path / "new").documents == len(PAGES) - 1


@pytest.mark.parametrize("moment", ["check_rows", "index_changes", "note_skipped"])
def test_an_interrupted_import_leaves_nothing(
    shelf: Shelf, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr(f"retriever.upkeep.archive.{moment}", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        import_index(archive, tmp_path / "new", encoder=shelf.encoder)
    assert not (tmp_path / "new").exists()


def test_an_import_that_is_killed_is_in_nobodys_way(shelf: Shelf, archive: Path, tmp_path: Path) -> None:
    program = (
        "import os, sys; from retriever.upkeep import archive; archive.note_skipped = lambda *_: os._exit(9);"
        "archive.import_index(*sys.argv[1:])"
    )
    killed = subprocess.run([sys.executable, "-c", program, archive, tmp_path / "new"], check=False)
    assert killed.returncode == 9
    import_index(archive, tmp_path / "new", encoder=shelf.encoder)
    assert shelf.ask(QUESTIONS[0], index=tmp_path / "new").hits


def test_a_server_that_only_the_index_names_is_not_asked(archive: Path, tmp_path: Path) -> None:
    settings = json.dumps({"encoder": {"kind": "openai", "url": "https://evil.example/v1"}})
    evil = altered(archive, f"UPDATE meta SET value = '{settings}' WHERE key = 'settings'")
    with pytest.raises(UsageError, match="as well: --encoder-url https://evil"):
        import_index(evil, tmp_path / "new")
    with pytest.raises(EncoderError, match="name the server's embedding model"):
        import_index(evil, tmp_path / "new", settings={"encoder": {"url": "https://evil.example/v1"}})
    assert not (tmp_path / "new").exists()


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
