import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pageindex.files import DocumentText, Listing, SourceFile
from retriever.errors import DocumentsError
from retriever.indexing.changes import (
    UNTRUSTED,
    Changes,
    Digests,
    detect_changes,
    list_documents,
    read_changes,
    settle_unsure,
)
from retriever.settings.schema import DocumentSettings
from retriever.store.reading import StoredDocument, StoredFolder
from tests.shelf import wait_until_trusted

FOLDER = StoredFolder(1, "/docs", "")
LONG_AGO = 1_500_000_000_000_000_000


def listed(*files: tuple[str, int, int, int, int]) -> Listing:
    return Listing(tuple(SourceFile(path, f"/docs/{path}", *seen) for path, *seen in files), ())


def known(*documents: StoredDocument) -> dict[str, StoredDocument]:
    return {document.path: document for document in documents}


def test_sizes_times_and_inodes_tell_what_is_suspect() -> None:
    before = known(
        StoredDocument(1, "same.md", 10, 100, "a", 200, 1),
        StoredDocument(2, "longer.md", 10, 100, "b", 200, 2),
        StoredDocument(3, "later.md", 10, 100, "c", 200, 3),
        StoredDocument(4, "young.md", 10, UNTRUSTED, "d", UNTRUSTED, 4),
        StoredDocument(5, "young-and-longer.md", 10, UNTRUSTED, "e", UNTRUSTED, 5),
        StoredDocument(6, "gone.md", 10, 100, "f", 200, 6),
        StoredDocument(7, "time-0.md", 10, UNTRUSTED, "g", 200, 7),
        StoredDocument(8, "set-back.md", 10, 100, "h", 200, 8),
        StoredDocument(9, "replaced.md", 10, 100, "i", 200, 9),
    )
    now = listed(
        ("same.md", 10, 100, 200, 1),
        ("longer.md", 11, 100, 200, 2),
        ("later.md", 10, 101, 200, 3),
        ("young.md", 10, 500, 500, 4),
        ("young-and-longer.md", 12, 500, 500, 5),
        ("time-0.md", 10, 0, 200, 7),
        ("set-back.md", 10, 100, 201, 8),
        ("replaced.md", 10, 100, 200, 10),
        ("new.md", 1, 1, 1, 11),
    )
    diff = detect_changes(FOLDER, before, now)
    assert [file.path for file in diff.new] == ["new.md"]
    assert [old.path for old, _ in diff.different] == ["longer.md", "later.md", "young-and-longer.md"]
    assert [old.path for old, _ in diff.unsure] == ["young.md", "set-back.md", "replaced.md"]
    assert [document.path for document in diff.gone] == ["gone.md"]
    assert (diff.unchanged, len(diff), diff.count) == (2, 5, 8)
    assert diff.paths == ["gone.md", "later.md", "longer.md", "new.md", "young-and-longer.md"]


def write(path: Path, text: str, mtime_ns: int) -> None:
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(mtime_ns, mtime_ns))


def settled(folder: Path, before: dict[str, StoredDocument]) -> Changes:
    return read_changes(detect_changes(FOLDER, before, list_documents(folder, DocumentSettings())), 10**7)


def rows(changes: Changes) -> dict[str, StoredDocument]:
    return {document.path: document for document, _ in changes.rows}


def test_contents_tell_what_changed(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.md", f"text of {name}", LONG_AGO)
    first = settled(tmp_path, {})
    assert [document.key for document, _ in first.added] == [0, 0, 0]
    before = {path: replace(row, key=7) for path, row in rows(first).items()}
    write(tmp_path / "a.md", "text of a", LONG_AGO + 1)
    write(tmp_path / "b.md", "another b", LONG_AGO)
    os.utime(tmp_path / "b.md", ns=(LONG_AGO, LONG_AGO + 5))
    (tmp_path / "c.md").rename(tmp_path / "d.md")
    second = settled(tmp_path, before)
    assert [document.path for document in second.touched] == ["a.md"]
    assert [document.path for document, _ in second.changed] == ["b.md"]
    assert [document.path for document, _ in second.added] == ["d.md"]
    assert [document.path for document in second.removed] == ["c.md"]
    assert [document.path for document in second.replaced] == ["c.md", "b.md"]
    assert (second.moved, second.unchanged) == (1, 0)


def test_each_of_several_equal_files_moves_once() -> None:
    text = DocumentText("", "digest", 0, 0, 0, 0, ())
    changes = Changes(FOLDER, 0)
    changes.removed = [StoredDocument(number, f"{number}.md", 0, 0, "digest") for number in (1, 2, 3)]
    changes.added = [(StoredDocument(0, f"new-{number}.md", 0, 0, "digest"), text) for number in (1, 2)]
    assert changes.moved == 2


def test_a_young_file_is_unsure_until_it_has_grown_older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    for name, mtime_ns in (("now", now), ("future", now + 10**15), ("old", now - 3 * 10**9), ("epoch", 1)):
        write(tmp_path / f"{name}.md", "word", mtime_ns)
    first = rows(settled(tmp_path, {}))
    assert {path: row.mtime_ns == UNTRUSTED for path, row in first.items()} == {
        "epoch.md": True,
        "future.md": True,
        "now.md": True,
        "old.md": False,
    }
    assert {row.ctime_ns for row in first.values()} == {UNTRUSTED}
    before = {path: replace(row, key=7) for path, row in first.items()}
    again = settled(tmp_path, before)
    assert (again.rows, again.touched, again.unchanged) == ([], [], 4)
    diff = detect_changes(FOLDER, before, list_documents(tmp_path, DocumentSettings()))
    assert len(diff.unsure) == 4
    assert (settle_unsure(diff, 10**7).count, settle_unsure(diff, 10**7).unchanged) == (0, 4)

    wait_until_trusted(monkeypatch)
    looked = settle_unsure(diff, 10**7)
    assert (len(looked), looked.count, looked.unchanged) == (0, 4, 4), "their rows are worth renewing"
    settled_rows = {row.path: row for row in settled(tmp_path, before).touched}
    assert all(row.ctime_ns != UNTRUSTED for row in settled_rows.values())
    assert detect_changes(FOLDER, settled_rows, diff.listing).count == 0

    write(tmp_path / "now.md", "WORD", now)
    (tmp_path / "future.md").write_bytes(b"\0\0\0\0")  # no text any more
    os.utime(tmp_path / "future.md", ns=(now, now + 10**15))
    (tmp_path / "old.md").chmod(0o600)
    for known_rows in (before, settled_rows):
        diff = detect_changes(FOLDER, known_rows, list_documents(tmp_path, DocumentSettings()))
        assert settle_unsure(diff, 10**7).paths == ["future.md", "now.md"]


def test_a_content_is_read_once_while_the_file_cannot_change_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "page.md", "word", LONG_AGO)
    before = {"page.md": replace(rows(settled(tmp_path, {}))["page.md"], key=7)}
    diff = detect_changes(FOLDER, before, list_documents(tmp_path, DocumentSettings()))
    digests: Digests = {}
    settle_unsure(diff, 10**7, digests)
    assert digests == {}, "a file as young as this may change and look the same"
    wait_until_trusted(monkeypatch)
    settle_unsure(diff, 10**7, digests)
    monkeypatch.setattr("retriever.indexing.changes.read_document", None)
    assert len(settle_unsure(diff, 10**7, digests)) == 0


def test_what_cannot_be_read_is_removed_and_named(tmp_path: Path) -> None:
    (tmp_path / "new.md").write_bytes(b"\0")
    (tmp_path / "was-text.md").write_bytes(b"\0\0")
    changes = settled(tmp_path, known(StoredDocument(3, "was-text.md", 10, 100, "digest")))
    assert [(document.path, reason) for document, reason in changes.unreadable] == [
        ("new.md", "binary: it holds NUL bytes"),
        ("was-text.md", "binary: it holds NUL bytes"),
    ]
    assert [document.key for document in changes.removed] == [3]


def test_a_folder_that_cannot_be_listed(tmp_path: Path) -> None:
    with pytest.raises(DocumentsError, match="no such file or directory"):
        list_documents(tmp_path / "missing", DocumentSettings())
    with pytest.raises(DocumentsError, match="pattern"):
        list_documents(tmp_path, DocumentSettings(ignore=("!",)))
