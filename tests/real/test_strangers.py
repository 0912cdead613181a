"""Nothing that this program did not make is removed or overwritten, whatever stands in the place of what it writes."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.program import Cli
from tests.shelf import PAGES, write_pages

THESIS = "years of work\n"
ALONE = ("--encoder-kind", "none")


class Strangers:
    """Files that somebody else made, and links to more of them elsewhere."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.kept: dict[Path, str] = {}

    def file(self, path: Path, content: str = THESIS) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        self.kept[path] = content
        return path

    def folder(self, path: Path) -> Path:
        self.file(path / "thesis.txt")
        self.file(path / "index.sqlite", "their own database")
        return path

    def link(self, path: Path, *, folder: bool) -> Path:
        target = self.place / "elsewhere" / f"{len(self.kept)}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.folder(target) if folder else self.file(target))
        return path

    def check(self) -> None:
        found = {path: path.read_bytes() for path in self.kept if path.exists()}
        assert found == {path: content.encode() for path, content in self.kept.items()}


@pytest.fixture
def strangers(tmp_path: Path) -> Iterator[Strangers]:
    found = Strangers(tmp_path)
    yield found
    found.check()


@pytest.fixture
def place(tmp_path: Path, cli: Cli) -> Path:
    """A folder with documents and an index of them."""
    write_pages(tmp_path / "docs", PAGES)
    cli("index", tmp_path / "docs", "--index", tmp_path / "idx", *ALONE)
    return tmp_path


def surround(strangers: Strangers, index: Path) -> list[Path]:
    """Strangers' folders, files and links in an index's folder, under names like ours."""
    for name in ("chroma-3", "draft-a", "chroma"):
        strangers.folder(index / name)
    for name in ("index.sqlite.backup", "thesis.md"):
        strangers.file(index / name)
    folders = [strangers.link(index / name, folder=True) for name in ("chroma-99", "lexical")]
    return [*folders, strangers.link(index / "index.sqlite-old", folder=False)]


@pytest.mark.parametrize("harm", [None, "UPDATE nodes SET kind = 'none'"])
def test_in_and_beside_an_index(place: Path, cli: Cli, strangers: Strangers, harm: str | None) -> None:
    index, docs = place / "idx", place / "docs"
    links = surround(strangers, index)
    if harm:
        with closing(sqlite3.connect(index / "index.sqlite", isolation_level=None)) as rows:
            rows.execute(harm)
    commands: list[list[str | Path]] = [
        ["doctor", "--repair"], ["index", docs, *ALONE], ["ask", "bread", *ALONE],
        ["forget", docs / "mail.md"], ["doctor"],
    ]  # fmt: skip
    for command in commands:
        cli(*command, "--index", index, code=range(3))
        strangers.check()
    cli("indexes", "--drop", index, "--yes")
    strangers.check()
    assert not (index / "index.sqlite").exists()
    assert sorted(path.name for path in index.glob("chroma-*")) == ["chroma-3", "chroma-99"]
    assert all(link.is_symlink() for link in links)


def test_inside_a_folder_of_chromadb(tmp_path: Path, cli: Cli, strangers: Strangers) -> None:
    docs, index = tmp_path / "docs", tmp_path / "idx"
    write_pages(docs, PAGES)
    cli("index", docs, "--index", index)
    (chroma,) = index.glob("chroma-*")
    copied = shutil.copytree(chroma, index / "chroma-old")
    strangers.folder(chroma / "theirs")
    links = [strangers.link(chroma / "link", folder=True)]
    for title in ("One", "Two"):
        write_pages(docs, {"new.md": f"# {title}\n\nA page.\n"})
        cli("index", docs, "--index", index)
    cli("indexes", "--drop", index, "--yes")
    assert copied.is_dir()
    strangers.check()
    assert links[0].is_symlink()
    assert not (index / "index.sqlite").exists()


def test_a_folder_of_somebody_with_our_names_in_it(place: Path, cli: Cli, strangers: Strangers) -> None:
    strangers.file(place / "of-lock" / "writer.lock")
    assert "remove" in cli("index", place / "docs", "--index", place / "of-lock", *ALONE, code=1).err
    index = place / "theirs"
    strangers.file(index / "index.sqlite", "no database")
    cli("index", place / "docs", "--index", index, *ALONE, code=1)
    commands: list[list[str | Path]] = [["doctor", "--repair", "--index", index], ["indexes", "--yes", "--drop", index]]
    for command in commands:
        assert "belongs to another program" in cli(*command, code=range(1, 3)).err
