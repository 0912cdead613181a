"""Another kind of document, by one entry in READERS: what is cited, shown and linked is right."""

import re
from pathlib import Path

import pytest

from pageindex.formats import READERS
from retriever.api import open_retriever
from retriever.store import reading
from tests.program import Cli
from tests.real.served import faces_of
from tests.shelf import write_pages

HOUSE = """\
Notes on the house, see [the garden](garden.md).

* Pay the rent

The rent is paid on the third of the month,
by /bank transfer/.

** Late payment

Write to the [landlord](#the-landlord) first.

* The landlord

Knock twice.
"""
GARDEN = "# Garden\n\nThe hedge is cut in June, says [the landlord](house.org#the-landlord).\n"


def read_org(text: str) -> str:
    """Return the Markdown of headings and emphasis of an Org file; each line becomes one."""
    text = re.sub(r"^\*+(?= )", lambda stars: "#" * len(stars[0]), text, flags=re.MULTILINE)
    return re.sub(r"/(\w[\w ]*\w)/", r"*\1*", text)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Path:
    """The index of a folder with one Org file and one in Markdown."""
    monkeypatch.setitem(READERS, ".org", read_org)
    write_pages(tmp_path / "docs", {"house.org": HOUSE, "garden.md": GARDEN})
    cli("index", tmp_path / "docs", "--index", tmp_path / "index", "--encoder-kind", "none")
    return tmp_path / "index"


def test_its_sections_stand_in_the_tree(index: Path, cli: Cli) -> None:
    lines = cli("tree", "house.org", "--index", index).out.splitlines()
    assert [line.lstrip(" │├└─") for line in lines] == [
        "house  house.org:1-2",
        "Pay the rent  house.org:3-7",
        "Late payment  house.org:8-11",
        "The landlord  house.org:12-14",
    ]


def test_its_lines_are_cited_and_its_markup_is_not_shown(index: Path, cli: Cli) -> None:
    hit = cli("when is the rent paid, by bank transfer?", "--json", "--index", index).json["hits"][0]
    assert (hit["citation"], hit["citation_state"]) == ("house.org:3-7", "exact")
    assert hit["sentence"] == "The rent is paid on the third of the month, by bank transfer."


def test_its_page_shows_what_its_markup_means(index: Path) -> None:
    with faces_of(index) as faces:
        assert "by <em>bank transfer</em>" in faces.web.get("/", params={"question": "rent paid"}).text


def test_its_links_count(index: Path) -> None:
    with open_retriever(index=index) as retriever, retriever.view() as view:
        assert [*reading.link_targets(view.connection, ["house.org"])] == ["garden.md"]
        back = {*reading.link_sources(view.connection, ["house.org#the-landlord"])}
    assert back == {"garden.md#garden", "house.org#pay-the-rent/late-payment"}


def test_a_file_whose_reader_loses_a_line_is_named_and_left_out(
    index: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other lines than those of the file would be cited."""
    monkeypatch.setitem(READERS, ".org", str.strip)
    (index.parent / "docs" / "house.org").write_text("* One\n")
    cli("index", index.parent / "docs", "--index", index)
    assert "house.org: the reader of .org made 0 line ends of 1" in cli("status", "-v", "--index", index).out
