"""Folders and files that are not as they were, or that no page of tests/output_cases can make."""

import os
from pathlib import Path

import pytest

from pageindex.corpus import UnreadableDocumentError, list_files, read_document
from pageindex.formats import NotTextError, decode
from tests.shelf import write_pages


def test_a_folder_that_cannot_be_listed_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pages(tmp_path, {"closed/a.md": "", "open/b.md": ""})
    real_scandir = os.scandir

    def refusing(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return real_scandir(path)

    monkeypatch.setattr("pageindex.corpus.os.scandir", refusing)
    found = list_files(tmp_path)
    assert [file.path for file in found.files] == ["open/b.md"]
    assert [(item.path, item.reason) for item in found.skipped] == [
        ("closed", "the folder cannot be listed: permission denied")
    ]


def test_a_nul_far_behind_is_replaced() -> None:
    assert decode(b"a" * 9000 + b"\0") == ("a" * 9000 + "\ufffd", ("1 NUL replaced",))


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_file_of_too_many_lines_is_data(monkeypatch: pytest.MonkeyPatch, end: bytes) -> None:
    monkeypatch.setattr("pageindex.formats.MAX_LINES", 3)
    assert decode(end * 3 + b"x")[0] == "\n\n\nx"
    with pytest.raises(NotTextError, match="more than 3 lines"):
        decode(end * 4)


def test_files_that_change_after_they_were_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pages(tmp_path, {"a.md": "", "b.md": ""})
    gone, longer = list_files(tmp_path).files
    (tmp_path / "a.md").unlink()
    (tmp_path / "b.md").write_bytes(b"longer than before")
    with pytest.raises(UnreadableDocumentError, match="no such file"):
        read_document(gone)
    assert read_document(longer).file.size == 18
    monkeypatch.setattr("pageindex.corpus.MAX_FILE_BYTES", 10)
    with pytest.raises(UnreadableDocumentError, match="18 bytes, more than the limit of 10"):
        read_document(longer)
