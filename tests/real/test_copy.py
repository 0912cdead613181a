"""An index made of another one, from another machine too, and what damaged or hostile ones come to."""

import json
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from retriever.api import forget_documents
from retriever.errors import DocumentsError, EncoderError, NoIndexError, RetrieverError, UsageError
from retriever.upkeep.copy import copy_index
from tests.fake_encoder import FakeEncoder
from tests.program import Cli
from tests.shelf import NEVER_REFRESH, PAGES, QUESTIONS, Shelf, found, same_hits, write_pages

pytestmark = pytest.mark.shared_index

INDEX = "index.sqlite"


@pytest.fixture
def theirs(shelf: Shelf, tmp_path: Path) -> Path:
    """An index that came from somebody else."""
    return shutil.copytree(shelf.index, tmp_path / "theirs")


def alter(index: Path, *statements: str) -> None:
    with closing(sqlite3.connect(index / INDEX, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_copy_answers_alike_and_nothing_is_embedded(shelf: Shelf, theirs: Path, tmp_path: Path) -> None:
    index = tmp_path / "far" / "index"
    before = shelf.encoder.encoded
    assert copy_index(theirs, index, encoder=shelf.encoder) == str(index)
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
    assert [stat.S_IMODE(path.stat().st_mode) for path in (index, index / INDEX)] == [0o700, 0o600]
    assert [path.name for path in index.parent.iterdir()] == ["index"]


def test_a_copy_is_of_one_moment_and_holds_no_deleted_text(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES | {"secret.md": f"# Secret\n\n{'xyzzy ' * 900}\n"})
    shelf.update()
    (shelf.docs / "secret.md").unlink()
    shelf.update()
    with shelf.rows() as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM documents")
        copy_index(shelf.index, tmp_path / "new", encoder=shelf.encoder)
        writer.execute("ROLLBACK")
    assert shelf.ask("letter", index=tmp_path / "new", **NEVER_REFRESH).index.documents == len(PAGES)
    assert b"xyzzy" not in (tmp_path / "new" / INDEX).read_bytes()


def test_nothing_is_replaced(shelf: Shelf, theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    for place, kind, message in (
        (shelf.index, UsageError, r"there is an index .*indexes --drop"),
        (theirs, UsageError, r"there is an index .*indexes --drop"),
        (tmp_path / "full", UsageError, "something else than an index"),
        ("postgresql://me@127.0.0.1:1/notes", UsageError, "for an index in a folder"),
    ):
        with pytest.raises(kind, match=message):
            copy_index(theirs, place)
    with pytest.raises(DocumentsError, match="no folder"):
        copy_index(theirs, tmp_path / "new", [tmp_path / "nowhere"])
    with pytest.raises(NoIndexError, match="there is no index"):
        copy_index(tmp_path / "full", tmp_path / "new")
    # Without a place the index comes where that of its folders belongs.
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    index = Path(copy_index(theirs))
    assert index.parent == tmp_path / "data" / "hybrid-retrieve" / "indexes"
    assert index.name.startswith(f"{shelf.docs.name}-")
    with pytest.raises(UsageError, match="there is an index"):
        copy_index(theirs)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TRIGGER t AFTER UPDATE ON folders BEGIN DELETE FROM nodes; END", "t is not defined as it should be"),
        ("PRAGMA user_version = 0", "belongs to another program"),
        ("PRAGMA user_version = 99", "has format 99, .*; update this program"),
        ("UPDATE chunks SET node_key = 7", r"is damaged \(a row of chunks belongs to no row of nodes"),
        ("UPDATE folders SET path = 'docs'", "'docs' is no folder of documents"),
        ("UPDATE folders SET dialect = 'weird'", "is no folder of documents"),
        ("DROP TABLE chunks", "chunks is not defined"),
        (
            "INSERT INTO folders (path, prefix, dialect) VALUES ('/more', 'more:', 'commonmark')",
            "has 2 folders, name as many",
        ),
    ],
)
def test_a_hostile_database_is_refused(theirs: Path, tmp_path: Path, statement: str, message: str) -> None:
    alter(theirs, statement)
    with pytest.raises(RetrieverError, match=message):
        copy_index(theirs, tmp_path / "new", [tmp_path])
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
def test_rows_that_make_no_sense_change_no_answer(shelf: Shelf, theirs: Path, tmp_path: Path, statement: str) -> None:
    alter(theirs, statement)
    copy_index(theirs, tmp_path / "new", encoder=shelf.encoder)
    for question in QUESTIONS:
        assert same_hits(found(shelf.ask(question, index=tmp_path / "new")), found(shelf.ask(question)))


@pytest.mark.parametrize(
    "path", ["../mail.md", "/etc/mail.md", "a//mail.md", "", "mail" * 2_000], ids=lambda path: path[:9]
)
def test_a_document_with_a_path_that_none_has_is_left_out(
    shelf: Shelf, theirs: Path, tmp_path: Path, path: str
) -> None:
    alter(theirs, f"UPDATE documents SET path = '{path}' WHERE path = 'mail.md'")
    copy_index(theirs, tmp_path / "new", encoder=shelf.encoder)
    with shelf.open(index=tmp_path / "new") as retriever:
        assert retriever.status().skipped[0] == (path, "no document has such a path")
        assert retriever.search("tomatoes in a wet summer").hits


@pytest.mark.parametrize(
    "vector",
    ["zeroblob(30000000)", "x'01'", "x''", "zeroblob(length(vector))"],
    ids=["30 MB", "short", "empty", "zeros"],
)
def test_a_text_whose_vector_is_none_is_found_by_its_words(
    shelf: Shelf, theirs: Path, tmp_path: Path, vector: str
) -> None:
    index = tmp_path / "new"
    alter(theirs, f"UPDATE vectors SET vector = {vector} WHERE vector_key = 1")
    copy_index(theirs, index, encoder=shelf.encoder)
    answer = shelf.ask(QUESTIONS[0], index=index)
    assert answer.hits[0].node_id == "mail.md#mail/stamps"
    assert 0 < answer.index.embedded_share < 1
    assert shelf.update(index=index).embedded == 1


def test_vectors_of_another_model_are_left_out(shelf: Shelf, theirs: Path, tmp_path: Path) -> None:
    index = tmp_path / "new"
    copy_index(theirs, index, encoder=FakeEncoder(fingerprint="0the" * 4))
    with closing(sqlite3.connect(index / INDEX)) as rows:
        assert rows.execute("SELECT count(*) FROM vectors").fetchone() == (0,)
    assert shelf.ask(QUESTIONS[0], index=index).hits[0].node_id == "mail.md#mail/stamps"


def test_an_altered_text_does_not_pass_for_that_of_a_file(shelf: Shelf, theirs: Path, tmp_path: Path) -> None:
    alter(theirs, "UPDATE nodes SET text = replace(text, 'A stamp', 'The thief') WHERE text LIKE '%A stamp%'")
    copy_index(theirs, tmp_path / "new", [shelf.docs], encoder=shelf.encoder)
    (hit, *_) = shelf.ask("what pays for a letter?", index=tmp_path / "new").hits
    assert "A stamp pays" in hit.text
    assert hit.citation_state == "exact"


def test_what_was_forgotten_stays_forgotten(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, PAGES)
    shelf.update()
    forget_documents(["mail.md"], shelf.index)
    copy_index(shelf.index, tmp_path / "new", [shelf.docs], encoder=shelf.encoder)
    assert shelf.update(index=tmp_path / "new").documents == len(PAGES) - 1


@pytest.mark.parametrize("moment", ["check_rows", "index_changes", "note_skipped"])
def test_an_interrupted_copy_leaves_nothing(
    shelf: Shelf, theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr(f"retriever.upkeep.copy.{moment}", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        copy_index(theirs, tmp_path / "new", encoder=shelf.encoder)
    assert not (tmp_path / "new").exists()


def test_a_copy_that_is_killed_is_in_nobodys_way(shelf: Shelf, theirs: Path, tmp_path: Path) -> None:
    program = (
        "import os, sys; from retriever.upkeep import copy; copy.note_skipped = lambda *_: os._exit(9);"
        "copy.copy_index(*sys.argv[1:])"
    )
    killed = subprocess.run([sys.executable, "-c", program, theirs, tmp_path / "new"], check=False)
    assert killed.returncode == 9
    copy_index(theirs, tmp_path / "new", encoder=shelf.encoder)
    assert shelf.ask(QUESTIONS[0], index=tmp_path / "new").hits


def test_a_server_that_only_the_index_names_is_not_asked(theirs: Path, tmp_path: Path) -> None:
    settings = json.dumps({"encoder": {"kind": "openai", "url": "https://evil.example/v1"}})
    alter(theirs, f"UPDATE meta SET value = '{settings}' WHERE key = 'settings'")
    with pytest.raises(UsageError, match="as well: --encoder-url https://evil"):
        copy_index(theirs, tmp_path / "new")
    with pytest.raises(EncoderError, match="name the server's embedding model"):
        copy_index(theirs, tmp_path / "new", settings={"encoder": {"url": "https://evil.example/v1"}})
    assert not (tmp_path / "new").exists()


def test_from_the_command_line(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("docs", "there"):
        write_pages(tmp_path / name, {"a.md": "# Otters\n\nAn otter holds hands while asleep.\n"})
    cli("index", "docs", "--encoder-kind", "none")
    assert "indexes --drop" in cli("copy", "docs", code=2).err
    mapped = cli("copy", "docs", "--docs", "there").out
    assert mapped.startswith(f"copied 1 document, 1 section of {tmp_path / 'there'} into ")
    assert " 1  there/a.md:1-3\n" in cli("otter asleep", "-q", "--top-k", "1", "--index", "there").out
    (tmp_path / "docs").rename(tmp_path / "gone")
    away = cli("copy", "docs", "--index", "new", "--json")
    assert json.loads(away.out)["index"]["documents"] == 1
    assert "not looked at until --docs" in away.err
