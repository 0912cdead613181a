"""Which dialect of Markdown the documents of a folder are read in, and what a wrong one loses: nothing."""

from pathlib import Path

import pytest

from retriever import open_retriever
from tests.program import Cli
from tests.shelf import WORDS_ALONE, write_pages
from tests.tables import read_table

NOTE = "# Of growth\n\nThe mass doubles as x ^k %%or so%%.\n\n!!! note\n\n    Indented heron.\n"


@pytest.mark.parametrize(("marker", "dialect"), read_table("found", "A marker of a dialect"))
def test_a_folder_is_read_as_its_program_reads_it(tmp_path: Path, cli: Cli, marker: str, dialect: str) -> None:
    docs = write_pages(tmp_path / "docs", {"growth.md": NOTE})
    if marker:
        (tmp_path / marker).parent.mkdir(exist_ok=True)
        (tmp_path / marker).write_text("{}")
    cli("index", docs, "--index", tmp_path / "index", "--encoder-kind", "none")
    assert f"{docs}, read as {dialect}" in cli("status", "--index", tmp_path / "index").out


def sentences(docs: Path, index: Path, **settings: object) -> list[str]:
    with open_retriever([docs], index, settings={**WORDS_ALONE, **settings}) as retriever:
        return [retriever.search(question).hits[0].sentence for question in ("what doubles?", "heron")]


def test_a_marker_that_comes_later_reads_the_folder_anew(tmp_path: Path) -> None:
    docs = write_pages(tmp_path / "docs", {"growth.md": NOTE})
    assert sentences(docs, tmp_path / "index") == ["The mass doubles as x ^k %%or so%%.", "!!! note Indented heron."]
    (docs / ".obsidian").mkdir()
    assert sentences(docs, tmp_path / "index")[0] == "The mass doubles as x ^k ."


def test_a_dialect_can_be_set(tmp_path: Path) -> None:
    docs = write_pages(tmp_path / "docs", {"growth.md": "# Of growth\n\nMass doubles {% if %} often.\n\nA heron.\n"})
    found = sentences(docs, tmp_path / "index", documents={"dialect": "jekyll"})
    assert found[0] == "Mass doubles often."
