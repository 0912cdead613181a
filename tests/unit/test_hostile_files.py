"""What is put in the place of a file or a folder after it was listed: nothing outside the indexed folder is read."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pageindex.files import SourceFile, UnreadableDocumentError, list_files, read_document, read_regular

pytestmark = pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="files are opened below a folder elsewhere")


def link_file(page: Path, outside: Path) -> None:
    page.unlink()
    page.symlink_to(outside / "page.md")


def link_folder(page: Path, outside: Path) -> None:
    shutil.rmtree(page.parent)
    page.parent.symlink_to(outside)


def link_outer_folder(page: Path, outside: Path) -> None:
    shutil.rmtree(page.parents[1])
    (outside / "deep").mkdir()
    (outside / "deep" / "page.md").write_text("SECRET")
    page.parents[1].symlink_to(outside)


def chain(page: Path, outside: Path) -> None:
    page.unlink()
    for number in range(5):
        page.with_name(f"link-{number}").symlink_to(f"link-{number + 1}")
    page.with_name("link-5").symlink_to(outside / "page.md")
    page.symlink_to("link-0")


def loop(page: Path, outside: Path) -> None:
    page.unlink()
    page.symlink_to(page.name)


def pipe(page: Path, outside: Path) -> None:
    page.unlink()
    os.mkfifo(page)


def unix_socket(page: Path, outside: Path) -> None:
    page.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(page))


def device(page: Path, outside: Path) -> None:
    page.unlink()
    page.symlink_to("/dev/zero")


def folder(page: Path, outside: Path) -> None:
    page.unlink()
    page.mkdir()


SWAPS = [link_file, link_folder, link_outer_folder, chain, loop, pipe, unix_socket, device, folder]


@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: swap.__name__)
def test_what_was_swapped_is_not_read(tmp_path: Path, swap: Callable[[Path, Path], None]) -> None:
    page = tmp_path / "docs" / "outer" / "deep" / "page.md"
    page.parent.mkdir(parents=True)
    page.write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "page.md").write_text("SECRET")
    listed = list_files(tmp_path / "docs").files
    assert read_document(listed[0]).text == "inside"
    swap(page, tmp_path / "outside")
    with pytest.raises(UnreadableDocumentError):
        read_document(listed[0])


@pytest.mark.parametrize("path", ["../outside/page.md", "outer/../../outside/page.md", "..", "outer/..", "/etc/passwd"])
def test_a_path_that_leaves_the_folder_is_not_opened(tmp_path: Path, path: str) -> None:
    for name in ("docs/outer", "outside"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "page.md").write_text(name)
    with pytest.raises(OSError, match=r"leaves the folder|No such file|Not a directory|not a regular file"):
        read_regular(str(tmp_path / "docs"), path, 1000)
    status = SourceFile(path, f"{tmp_path}/docs/{path}", 1, 1)
    with pytest.raises(UnreadableDocumentError):
        read_document(status)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a regular file that cannot be read, as Linux has one")
def test_a_file_that_fails_while_it_is_read_is_named() -> None:
    with pytest.raises(UnreadableDocumentError, match=r"mem: input/output error"):
        read_document(SourceFile("mem", "/proc/self/mem", 0, 0))


def test_many_reads_leave_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "page.md").write_text("text")
    lowest = os.dup(0)
    os.close(lowest)
    for _ in range(50):
        read_regular(str(tmp_path), "a/b/page.md", 100)
        with pytest.raises(FileNotFoundError):
            read_regular(str(tmp_path), "a/nothing/page.md", 100)
    after = os.dup(0)
    os.close(after)
    assert after == lowest
