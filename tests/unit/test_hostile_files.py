"""Files and folders replaced after they were listed: nothing outside the indexed folder is read."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pageindex.corpus import SourceFile, UnreadableDocumentError, list_files, read_document
from tests.shelf import write_pages


def link_folder(folder: Path, outside: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to(outside)


SWAPS: dict[str, Callable[[Path, Path], object]] = {
    "a link": lambda page, outside: page.symlink_to(outside / "page.md"),
    "a link for its folder": lambda page, outside: link_folder(page.parent, outside),
    "a pipe": lambda page, _: os.mkfifo(page),
    "a device": lambda page, _: page.symlink_to("/dev/zero"),
    "a folder": lambda page, _: page.mkdir(),
}


@pytest.mark.parametrize("swap", SWAPS)
def test_what_was_swapped_is_not_read(tmp_path: Path, swap: str) -> None:
    page = tmp_path / "docs" / "outer" / "deep" / "page.md"
    page.parent.mkdir(parents=True)
    page.write_text("inside")
    write_pages(tmp_path / "outside", {"page.md": "SECRET", "deep/page.md": "SECRET"})
    listed = list_files(tmp_path / "docs").files
    assert read_document(listed[0]).text == "inside"
    page.unlink()
    SWAPS[swap](page, tmp_path / "outside")
    with pytest.raises(UnreadableDocumentError):
        read_document(listed[0])


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a regular file that cannot be read, as Linux has one")
def test_a_file_that_fails_while_it_is_read_is_named() -> None:
    with pytest.raises(UnreadableDocumentError, match=r"mem: input/output error"):
        read_document(SourceFile("mem", "/proc/self/mem", 0, 0))
