"""Folders as lists of documents: what is listed, what is named as skipped, and what bytes become."""

import os
import socket
from pathlib import Path

import pytest

from pageindex.corpus import (
    CorpusOptions,
    DocumentText,
    IgnorePatternError,
    UnreadableDocumentError,
    UnreadableFolderError,
    find_document,
    list_files,
    read_document,
)
from tests.tables import read_table


def make(root: Path, *names: str, content: bytes = b"text\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def paths(root: Path, *ignore: str) -> list[str]:
    return [file.path for file in list_files(root, CorpusOptions(ignore=ignore)).files]


def skipped(root: Path, options: CorpusOptions | None = None) -> dict[str, str]:
    return {item.path: item.reason for item in list_files(root, options).skipped}


def read(root: Path, raw: bytes) -> DocumentText:
    make(root, "a.md", content=raw)
    return read_document(list_files(root).files[0])


def test_documents_are_sorted_and_hidden_and_other_files_passed_over(tmp_path: Path) -> None:
    make(tmp_path, "b.md", "a/z.MDX", "a/a.txt", "c.markdown", "x.py", ".hidden.md", ".git/x.md", "a/.obsidian/y.md")
    assert paths(tmp_path) == ["a/a.txt", "a/z.MDX", "b.md", "c.markdown"]
    assert skipped(tmp_path) == {}


def test_gitignore_at_every_level_and_the_callers_patterns(tmp_path: Path) -> None:
    make(tmp_path, "keep.md", "drafts/a.md", "docs/tmp.md", "docs/keep.md", "docs/deep/tmp.md", "node_modules/p/R.md")
    make(tmp_path, ".gitignore", content=b"node_modules/\n/drafts\ntmp.md\r\n# comment\n")
    make(tmp_path, "docs/.gitignore", content=b"!tmp.md\n/deep\n")
    assert paths(tmp_path) == ["docs/keep.md", "docs/tmp.md", "keep.md"]
    assert paths(tmp_path, "keep.md") == ["docs/tmp.md"]
    assert paths(tmp_path, "!drafts") == ["docs/keep.md", "docs/tmp.md", "drafts/a.md", "keep.md"]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder in a folder of a repository, each with a .gitignore."""
    names = ("a.md", "tmp.md", "private/p.md", "x.secret.md", "in/keep.secret.md")
    make(tmp_path, *(f"repo/part/docs/{name}" for name in names), "repo/part/drafts/d.md")
    make(tmp_path, ".gitignore", content=b"*.md\n")  # not of the repository
    make(tmp_path, "repo/.gitignore", content=b"\xef\xbb\xbf*.secret.md\n/part/docs/private/\ndrafts\n")
    make(tmp_path, "repo/part/.gitignore", content=b"!keep.secret.md\n")
    make(tmp_path, "repo/part/docs/.gitignore", content=b"tmp.md\n")
    (tmp_path / "repo/.git").mkdir()
    return tmp_path / "repo/part/docs"


def test_in_a_repository_each_gitignore_above_holds_too(docs: Path) -> None:
    assert paths(docs) == ["a.md", "in/keep.secret.md"]


def test_outside_of_a_repository_no_gitignore_above_holds(docs: Path) -> None:
    (docs.parents[1] / ".git").rmdir()
    assert paths(docs) == ["a.md", "in/keep.secret.md", "private/p.md", "x.secret.md"]


def test_a_file_that_is_ignored_is_not_found_by_its_path(docs: Path) -> None:
    assert find_document(str(docs), "a.md").path == "a.md"
    with pytest.raises(UnreadableDocumentError):
        find_document(str(docs), "private/p.md")


def test_a_folder_that_is_ignored_is_read_where_it_is_named(docs: Path) -> None:
    assert paths(docs.parent / "drafts") == ["d.md"]


def test_a_slow_line_of_a_gitignore_above_is_named_with_its_place(docs: Path) -> None:
    make(docs.parents[1], ".gitignore", content=b"*.secret.md\n*a*a*a*a.md\n")
    assert skipped(docs) == {"../../.gitignore": "line 2 is not obeyed: more than 3 wildcards in one name"}


def test_what_a_vault_excludes_is_left_out_and_a_regular_expression_is_named(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "Templates/day.md", "work/Templates/a.md", "Draft 1.md", "x[1].md", "x1.md")
    filters = b'{"userIgnoreFilters": ["Templates/", "Draft", "x[1]", "/.*secret/"]}'
    make(tmp_path, ".obsidian/app.json", content=filters)
    assert paths(tmp_path) == ["a.md", "work/Templates/a.md", "x1.md"]
    assert skipped(tmp_path) == {
        ".obsidian/app.json": "the filter /.*secret/ is not obeyed: regular expressions are not run"
    }
    make(tmp_path, ".obsidian/app.json", content=b"[")
    assert "Draft 1.md" in paths(tmp_path)


def test_a_gitignore_that_is_slow_is_named(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "aaaa.md", ".gitignore", content=b"*a*a*a*a*b\n!\n[z-a]\naaaa.md\n")
    assert paths(tmp_path) == ["a.md"]
    assert skipped(tmp_path) == {".gitignore": "line 1 is not obeyed: more than 3 wildcards in one name"}
    with pytest.raises(IgnorePatternError, match="not a gitignore pattern"):
        list_files(tmp_path, CorpusOptions(ignore=("!",)))


def test_links(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    make(root, "docs/a.md", "docs/data.csv", ".hidden/h.md")
    make(outside, "secret.md")
    (root / "inside.md").symlink_to("docs/a.md")
    (root / "inside").symlink_to("docs")
    (root / "docs/up").symlink_to("..")
    (root / "picture.png").symlink_to("docs/data.csv")
    (root / "leaves.md").symlink_to(outside / "secret.md")
    (root / "leaves").symlink_to(outside)
    (root / "loop.md").symlink_to("loop.md")
    (root / "gone.md").symlink_to("nothing.md")
    assert paths(root) == ["docs/a.md"]
    reasons = skipped(root)
    assert reasons == {
        "gone.md": "a link to nothing",
        "loop.md": "a link to nothing",
        "leaves": "a link that leaves the folder",
        "leaves.md": "a link that leaves the folder",
    }


def test_pipes_sockets_and_large_files_are_named_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "s.md"))
    with (tmp_path / "large.md").open("wb") as large:
        large.truncate(1 << 40)  # sparse: it takes no room
    assert skipped(tmp_path) == {
        "pipe.md": "not a regular file",
        "s.md": "not a regular file",
        "large.md": "1,099,511,627,776 bytes, more than the limit of 10,000,000",
    }


def test_names(tmp_path: Path) -> None:
    odd = [
        "a b.md", "-x.md", "100%.md", 'q"uote.md', "line\nend.md", "\U0001f389.md", "x" * 252 + ".md", "A.md", "a.md",
    ]  # fmt: skip
    make(tmp_path, *odd)
    for raw in (b"latin-\xe9.md", b"dir-\xff/in.md", b"\xfe.py"):
        path = os.path.join(os.fsencode(tmp_path), raw)  # noqa: PTH118 - Path takes no bytes
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - as above
        with open(path, "wb"):  # noqa: PTH123 - as above
            pass
    assert paths(tmp_path) == sorted(odd)
    assert skipped(tmp_path) == {r"dir-\xff": "its name is not UTF-8", r"latin-\xe9.md": "its name is not UTF-8"}


def test_a_folder_that_cannot_be_listed_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "closed/a.md", "open/b.md")
    real_scandir = os.scandir

    def refusing(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return real_scandir(path)

    monkeypatch.setattr("pageindex.corpus.os.scandir", refusing)
    assert paths(tmp_path) == ["open/b.md"]
    assert skipped(tmp_path) == {"closed": "the folder cannot be listed: permission denied"}


def test_the_folder_itself(tmp_path: Path) -> None:
    make(tmp_path, "file.md")
    with pytest.raises(UnreadableFolderError, match="no such file"):
        list_files(tmp_path / "missing")
    with pytest.raises(UnreadableFolderError, match="not a directory"):
        list_files(tmp_path / "file.md")
    (tmp_path / "empty").mkdir()
    assert list_files(tmp_path / "empty").files == ()


LATE_NUL = ("a" * 9000 + "\x00", "a" * 9000 + "\ufffd", "1 NUL replaced")


@pytest.mark.parametrize(("raw", "text", "warning"), [*read_table("corpus", "What bytes become"), LATE_NUL])
def test_decoding(tmp_path: Path, raw: str, text: str, warning: str) -> None:
    sent = raw.encode("latin-1")
    found = read(tmp_path, sent)
    assert (found.text, ", ".join(found.warnings), found.file.size) == (text, warning, len(sent))


@pytest.mark.parametrize("raw", [b"a\0b", "no mark".encode("utf-16-le"), b"PK\x03\x04\0\0"])
def test_binary_files(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(UnreadableDocumentError, match=r"a\.md: binary"):
        read(tmp_path, raw)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_file_of_too_many_lines_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes) -> None:
    monkeypatch.setattr("pageindex.formats.MAX_LINES", 3)
    assert read(tmp_path, end * 3 + b"x").text == "\n\n\nx"
    with pytest.raises(UnreadableDocumentError, match=r"a\.md: more than 3 lines"):
        read(tmp_path, end * 4)


def test_files_that_change_after_they_were_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a.md", "b.md")
    files = {file.path: file for file in list_files(tmp_path).files}
    (tmp_path / "a.md").unlink()
    (tmp_path / "b.md").write_bytes(b"longer than before")
    with pytest.raises(UnreadableDocumentError, match="no such file"):
        read_document(files["a.md"])
    assert read_document(files["b.md"]).file.size == 18
    monkeypatch.setattr("pageindex.corpus.MAX_FILE_BYTES", 10)
    with pytest.raises(UnreadableDocumentError, match="18 bytes, more than the limit of 10"):
        read_document(files["b.md"])
