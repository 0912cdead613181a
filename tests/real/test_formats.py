"""Another kind of document, by one entry in READERS: what is cited, cut, shown and linked is right."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from pageindex.formats import READERS
from retriever.api import open_retriever
from retriever.serving.pool import ServedIndex
from retriever.serving.web.app import make_web_app
from tests.org_reader import read_org
from tests.program import Cli
from tests.shelf import write_pages
from tests.tables import read_table

HOUSE = """\
#+TITLE: The house
#+AUTHOR: Mara

Notes on the house, see [[file:garden.md][the garden]].

* TODO Pay the rent :money:monthly:
  :PROPERTIES:
  :CUSTOM_ID: rent
  :END:

The rent is paid on the *third* of the month, by /bank transfer/:

- from the =household= account
- never in cash
  1) not even once

** Late payment

#+BEGIN_SRC python
# Each day costs
fee = days * 2
#+END_SRC

# A comment that nobody sees.
Write to the [[*The landlord][landlord]] first.

* The landlord

| name   | phone |
|--------+-------|
| Mr Fox | 12345 |

#+BEGIN_QUOTE
Knock twice.
#+END_QUOTE
"""
GARDEN = "# Garden\n\nThe hedge is cut in June, says [the landlord](house.org#the-landlord).\n"


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
        "The house  house.org",
        "Pay the rent  house.org:6-16",
        "Late payment  house.org:17-26",
        "The landlord  house.org:27-35",
    ]


@pytest.mark.parametrize(("question", "citation", "snippet", "sentence"), read_table("found", "In an Org file"))
def test_its_lines_are_cited_and_its_markup_is_not_shown(
    index: Path, cli: Cli, question: str, citation: str, snippet: str, sentence: str
) -> None:
    hit = json.loads(cli(question, "--json", "--index", index).out)["hits"][0]
    assert (hit["citation"], hit["citation_state"]) == (f"house.org:{citation}", "exact")
    assert snippet in hit["snippet"]
    assert sentence in hit["sentence"]


def test_its_page_shows_what_its_markup_means(index: Path) -> None:
    with ServedIndex(index=str(index)) as library, TestClient(make_web_app(library)) as app:
        rent, fee = (app.get("/", params={"question": question}).text for question in ("rent paid", "late payment fee"))
    assert "on the <strong>third</strong> of the month, by <em>bank transfer</em>" in rent
    assert "<li>from the <code>household</code> account</li>" in rent
    assert "PROPERTIES" not in rent
    assert '<span class="language">python</span>' in fee


def test_its_links_and_tags_count(index: Path, cli: Cli) -> None:
    tagged = json.loads(cli("who gets money?", "--tag", "monthly", "--json", "--index", index).out)
    assert {hit["file"] for hit in tagged["hits"]} == {"house.org"}
    with open_retriever(index=index) as retriever, retriever.view() as view:
        linked = {node.id for node in view.tree.links("house.org#the-house")}
        back = {node.id for node in view.tree.backlinks("house.org#the-house/the-landlord")}
    assert "garden.md" in linked
    assert back == {"garden.md#garden", "house.org#the-house/pay-the-rent/late-payment"}


def test_a_file_whose_reader_loses_a_line_is_named_and_left_out(
    index: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other lines than those of the file would be cited."""
    monkeypatch.setitem(READERS, ".org", str.strip)
    (index.parent / "docs" / "house.org").write_text("* One\n")
    cli("index", index.parent / "docs", "--index", index)
    assert "house.org: the reader of .org made 0 line ends of 1" in cli("status", "-v", "--index", index).out
