"""Paths of indexes and documents; tests/output_cases/places.md shows which index is meant."""

import os
from pathlib import Path

import pytest

from retriever.errors import UsageError
from retriever.looking.indexes import find_index
from retriever.store.files import absolute


@pytest.mark.parametrize("name", ["", "..", "a b", "x" * 300, "\u6771\u4eac", "a\nb\x1b[1m", "a:b*c?"])
def test_the_name_of_an_index_is_a_file_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    place = find_index(None, [Path("/", name)]).folder
    assert place.parent == tmp_path / "hybrid-retrieve" / "indexes"
    assert place.name.isprintable()
    assert " " not in place.name
    assert len(os.fsencode(place.name)) < 255


def test_a_data_folder_below_the_current_one_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions of platformdirs give one to a user without a home: it might be among the documents."""
    monkeypatch.setattr("retriever.indexing.request.user_data_path", lambda *_, **__: Path("~/.local/share"))
    with pytest.raises(UsageError, match="no home folder"):
        find_index(None, [Path("/notes")])


def test_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    (tmp_path / "link").symlink_to("target")
    here = tmp_path.resolve()
    assert absolute("~/notes") == Path("/home/me/notes")
    assert absolute("a/../b/") == here / "b"
    assert absolute("link") == here / "target"
    assert absolute("~.md") == here / "~.md"
    with pytest.raises(UsageError, match="is no folder"):
        absolute("a\0b")
