import os
from pathlib import Path

import pytest

from pageindex.corpus import DocumentText, Listing, SourceFile
from retriever.errors import DocumentsError
from retriever.indexing.changes import (
    UNTRUSTED,
    Changes,
    find_suspects,
    list_documents,
    read_suspects,
    without_doubt,
)
from retriever.settings.profile import DocumentSettings
from retriever.store.reading import StoredDocument, StoredFolder

FOLDER = StoredFolder(1, "/docs", "")
LONG_AGO = 1_500_000_000_000_000_000


def listed(*files: tuple[str, int, int]) -> Listing:
    return Listing(tuple(SourceFile(path, f"/docs/{path}", size, time) for path, size, time in files), ())


def known(*documents: StoredDocument) -> dict[str, StoredDocument]:
    return {document.path: document for document in documents}


def test_sizes_and_times_tell_what_is_suspect() -> None:
    before = known(
        StoredDocument(1, "same.md", 10, 100, "a"),
        StoredDocument(2, "longer.md", 10, 100, "b"),
        StoredDocument(3, "later.md", 10, 100, "c"),
        StoredDocument(4, "young.md", 10, UNTRUSTED, "d"),
        StoredDocument(5, "young-and-longer.md", 10, UNTRUSTED, "e"),
        StoredDocument(6, "gone.md", 10, 100, "f"),
    )
    now = listed(
        ("same.md", 10, 100),
        ("longer.md", 11, 100),
        ("later.md", 10, 101),
        ("young.md", 10, 500),
        ("young-and-longer.md", 12, 500),
        ("new.md", 1, 1),
    )
    suspects = find_suspects(FOLDER, before, now)
    assert [file.path for file in suspects.new] == ["new.md"]
    assert [old.path for old, _ in suspects.different] == ["longer.md", "later.md", "young-and-longer.md"]
    assert [old.path for old, _ in suspects.doubtful] == ["young.md"]
    assert [document.path for document in suspects.gone] == ["gone.md"]
    assert (suspects.unchanged, len(suspects), suspects.count) == (1, 5, 6)
    assert suspects.paths == ["gone.md", "later.md", "longer.md", "new.md", "young-and-longer.md"]


def write(path: Path, text: str, mtime_ns: int) -> None:
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(mtime_ns, mtime_ns))


def settled(folder: Path, before: dict[str, StoredDocument]) -> Changes:
    return read_suspects(find_suspects(FOLDER, before, list_documents(folder, DocumentSettings())), 10**7)


def rows(changes: Changes) -> dict[str, StoredDocument]:
    return {document.path: document for document, _ in changes.rows}


def test_contents_tell_what_changed(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.md", f"text of {name}", LONG_AGO)
    first = settled(tmp_path, {})
    assert [document.key for document, _ in first.added] == [0, 0, 0]
    before = {path: StoredDocument(7, path, *_stat(row)) for path, row in rows(first).items()}
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


def _stat(document: StoredDocument) -> tuple[int, int, str]:
    return document.size, document.mtime_ns, document.digest


def test_each_of_several_equal_files_moves_once() -> None:
    text = DocumentText("", "digest", 0, 0, ())
    changes = Changes(FOLDER, 0)
    changes.removed = [StoredDocument(number, f"{number}.md", 0, 0, "digest") for number in (1, 2, 3)]
    changes.added = [(StoredDocument(0, f"new-{number}.md", 0, 0, "digest"), text) for number in (1, 2)]
    assert changes.moved == 2


def test_a_young_file_is_doubtful_until_it_has_grown_older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 2_000_000_000_000_000_000
    monkeypatch.setattr("time.time_ns", lambda: now)
    write(tmp_path / "young.md", "word", now)
    write(tmp_path / "future.md", "word", now + 10**15)
    write(tmp_path / "old.md", "word", now - 3 * 10**9)
    first = rows(settled(tmp_path, {}))
    assert {path: row.mtime_ns == UNTRUSTED for path, row in first.items()} == {
        "future.md": True,
        "old.md": False,
        "young.md": True,
    }
    before = {path: StoredDocument(7, path, *_stat(row)) for path, row in first.items()}
    again = settled(tmp_path, before)
    assert (again.rows, again.touched, again.unchanged) == ([], [], 3)
    suspects = find_suspects(FOLDER, before, list_documents(tmp_path, DocumentSettings()))
    assert len(suspects.doubtful) == 2
    assert without_doubt(suspects, 10**7).count == 0
    assert without_doubt(suspects, 10**7).unchanged == 3
    write(tmp_path / "young.md", "WORD", now)
    (tmp_path / "future.md").write_bytes(b"\0\0\0\0")  # no text any more
    assert without_doubt(suspects, 10**7).paths == ["future.md", "young.md"]
    os.utime(tmp_path / "old.md", ns=(now, now - 10**12))
    assert [document.path for document in settled(tmp_path, before).touched] == ["old.md"]


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
