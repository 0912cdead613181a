import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from retriever.errors import UsageError
from retriever.looking.indexes import find_index
from retriever.store.files import absolute


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("sys.platform", "linux")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "data" / "hybrid-retrieve" / "indexes"


def choose(docs: Sequence[Path], index: str | None) -> Path:
    return find_index(index, docs).folder


def test_what_is_named_wins_then_the_variable_then_the_folders_then_the_last(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = [Path("/notes")]
    default = choose(docs, None)
    assert default.parent == home
    assert default.name.startswith("notes-")
    default.mkdir(parents=True)
    (default / "index.sqlite").touch()
    assert choose([], None) == default
    monkeypatch.setenv("HYBRID_RETRIEVE_INDEX", "/by/variable")
    assert choose(docs, None) == choose([], None) == Path("/by/variable")
    assert choose(docs, "/named") == Path("/named")
    monkeypatch.setenv("HYBRID_RETRIEVE_INDEX", "")
    assert choose(docs, None) == default


def test_a_set_of_folders_has_one_index_in_any_order() -> None:
    one, other = Path("/a/notes"), Path("/b/work")
    assert choose([one, other], None) == choose([other, one], None)
    names = {choose(docs, None).name for docs in ([one], [other], [one, other], [Path("/b/notes")])}
    assert len(names) == 4


@pytest.mark.parametrize("name", ["", "..", "a b", "x" * 300, "\u6771\u4eac", "a\nb\x1b[1m", "a:b*c?"])
def test_the_name_of_an_index_is_a_file_name(home: Path, name: str) -> None:
    place = choose([Path("/", name)], None)
    assert place.parent == home
    assert place.name.isprintable()
    assert " " not in place.name
    assert len(os.fsencode(place.name)) < 255


def test_the_index_that_changed_last_is_meant(home: Path) -> None:
    for age, name in enumerate(("one", "other", "empty")):
        (home / name).mkdir(parents=True)
        if name != "empty":
            (home / name / "index.sqlite").touch()
            os.utime(home / name / "index.sqlite", (100 - age, 100 - age))
    assert choose([], None) == home / "one"


def test_a_data_folder_below_the_current_one_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions of platformdirs give one to a user without a home: it might be among the documents."""
    monkeypatch.setattr("retriever.indexing.request.user_data_path", lambda *_, **__: Path("~/.local/share"))
    with pytest.raises(UsageError, match="no home folder"):
        choose([Path("/notes")], None)


def test_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    (tmp_path / "link").symlink_to("target")
    assert absolute("~/notes") == Path("/home/me/notes")
    assert absolute("a/../b/") == tmp_path.resolve() / "b"
    assert absolute("link") == tmp_path.resolve() / "target"
    assert absolute("~.md") == tmp_path.resolve() / "~.md"
    with pytest.raises(UsageError, match="is no folder"):
        absolute("a\0b")
