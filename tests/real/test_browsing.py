"""Reading what an answer cites, and where an index keeps to itself."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from retriever import Retriever, open_retriever
from retriever.errors import ClosedError, UsageError
from retriever.types import Encoder
from tests.fake_encoder import CrowdedEncoder, FakeEncoder
from tests.shelf import CountingEncoder, Shelf, read_lines, write_pages
from tests.tables import read_table

GUIDE = """\
---
title: The guide
---
Before any heading.

# Install

Run it.

## Linux

Use the shell.

## Windows

Use the mouse.

# Remove

Delete it.
"""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    place = tmp_path_factory.mktemp("browsing")
    shelf = Shelf(
        place, {"guide.md": GUIDE, "a/c#.md": "# Sharp\n\nnote\n", "empty.md": "", "no-end.md": "# A\n\nlast"}
    )
    shelf.update()
    shelf.update(write_pages(place / "annex", {"manual.md": "# Other\n\nguide\n", "only/here.md": "# Here\n\nalone\n"}))
    return shelf


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retriever]:
    shelf = Shelf(tmp_path_factory.mktemp("vault"), VAULT)
    shelf.update()
    with shelf.open() as retriever:
        yield retriever


@pytest.fixture
def retriever(shelf: Shelf) -> Iterator[Retriever]:
    with shelf.open() as retriever:
        yield retriever


@pytest.mark.parametrize(("reference", "cited"), read_table("references", "By its exact form"))
def test_what_a_reference_names(shelf: Shelf, retriever: Retriever, reference: str, cited: str) -> None:
    passage = retriever.read(reference)
    assert f"{passage.file}:{passage.span}" == cited
    assert passage.text == read_lines(shelf.docs, passage.file, passage.span.first, passage.span.last)
    assert passage.folder == str(shelf.docs)


@pytest.mark.parametrize(("reference", "says"), read_table("references", "What cannot be read"))
def test_what_cannot_be_read_is_said(retriever: Retriever, reference: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        retriever.read(reference)


VAULT = {
    "Rezepte/Apfelkuchen.md": "# Apfelkuchen\n\nMit Zimt.\n\n## Teig\n\nMehl und Butter.\n\n## Backen\n\nLange.\n",
    "handbook.md": (
        "---\naliases: [The Handbook]\n---\n# Working here\n\n## Severance package\n\nTwo weeks.\n\n"
        "## Vacation days\n\nThirty.\n"
    ),
    "team/README.md": "# Team\n\nAll of us.\n",
    "tools/README.md": "# Tools\n\nWhat we use.\n\n## Vacation calendar\n\nOn the wall.\n",
    "tools/api.md": "# Calls\n\n## `days.left(who[, year])`\n\nHow many.\n\n## days.left_over\n\nOf last year.\n\n"
    "## Days\n\nAll.\n\n## days.on(who)\n\nAt work.\n",
}


@pytest.mark.parametrize(("written", "cited"), read_table("references", "As people type"))
def test_what_people_type(vault: Retriever, written: str, cited: str) -> None:
    assert vault.read(written).citation == cited
    assert vault.nodes(written.removesuffix(":3"), 0)


@pytest.mark.parametrize(("question", "named"), read_table("found", "By name"))
def test_a_question_names_what_it_holds_letter_by_letter(vault: Retriever, question: str, named: str) -> None:
    assert {hit.citation for hit in vault.search(question).hits if "found by name" in hit.reasons} == set(named.split())


@pytest.mark.parametrize(("written", "said"), read_table("references", "Nearly a name, or several"))
def test_what_is_nearly_a_name_is_asked_about(vault: Retriever, written: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        vault.read(written)
    assert str(caught.value).endswith(said)


def test_a_closed_retriever_says_that_it_is_closed(shelf: Shelf) -> None:
    retriever = shelf.open()
    retriever.close()
    retriever.close()  # a second time does nothing
    uses = (lambda: retriever.search("mouse"), retriever.tree, retriever.status, lambda: retriever.read("guide.md"))
    for use in uses:
        with pytest.raises(ClosedError, match=r"is closed; open another one"):
            use()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_an_index_is_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    shelf = Shelf(tmp_path / "x")
    before = os.umask(0o000)
    try:
        for text in ("word", "another"):  # built, then patched
            shelf.write("a.md", f"# A\n\n{text}\n")
            shelf.update()
            with open_retriever([shelf.docs], encoder=CountingEncoder()):
                files = [*shelf.index.rglob("*"), *(tmp_path / "data").rglob("*")]
                modes = {path: stat.S_IMODE(path.stat().st_mode) for path in files}
    finally:
        os.umask(before)
    assert len(modes) > 10
    for path, mode in modes.items():
        assert mode == (0o700 if path.is_dir() else 0o600), path


TWO_PAGES_ON_TOMATOES = {
    "soup.md": "# Soup\n\n## Tomato\n\nTomatoes, salt and patience.\n\n## Leek\n\nLeeks and salt.\n",
    "garden.md": "# Garden\n\nTomatoes want patience.\n\n# Rain\n\nRain fills the barrel.\n",
    "post.md": "# Post\n\nA stamp pays for the letter.\n",
}


def opened(place: Path, pages: Mapping[str, str], encoder: Encoder | None = None) -> Retriever:
    """An index of these pages, open."""
    return open_retriever([write_pages(place / "docs", pages)], place / "index", encoder=encoder or FakeEncoder())


@pytest.fixture(scope="module")
def tomatoes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retriever]:
    with opened(tmp_path_factory.mktemp("tomatoes"), TWO_PAGES_ON_TOMATOES | {"empty.md": ""}) as retriever:
        yield retriever


def test_what_is_similar_is_nearest_in_meaning(tomatoes: Retriever) -> None:
    found = tomatoes.similar("soup.md#soup/tomato", 2)
    assert (found.node_id, found.title, found.file) == ("soup.md#soup/tomato", "Tomato", "soup.md")
    assert (found.sections[0].rank, found.sections[0].citation) == (1, "garden.md:1-4")
    assert tomatoes.similar("soup.md:4-5", 2) == found, "the lines of a hit, as it is cited"
    assert "soup.md" not in {item.file for item in tomatoes.similar("soup.md#soup/tomato", 9).sections}
    with pytest.raises(UsageError, match="has no text that was embedded"):
        tomatoes.similar("empty.md")


def test_what_is_similar_does_not_depend_on_the_scale_of_a_model(tomatoes: Retriever, tmp_path: Path) -> None:
    with opened(tmp_path, TWO_PAGES_ON_TOMATOES, CrowdedEncoder(FakeEncoder())) as crowded:
        found = {item.node_id: item.similarity for item in crowded.similar("soup.md").sections}
    expected = {item.node_id: item.similarity for item in tomatoes.similar("soup.md").sections}
    assert found == pytest.approx(expected, abs=0.02)
    assert list(found) == list(expected)


def test_a_section_about_something_else_is_not_similar(tomatoes: Retriever) -> None:
    assert [item.node_id for item in tomatoes.similar("soup.md").sections] == ["garden.md#garden"]


def test_templates_and_navigation_are_not_similar(tmp_path: Path) -> None:
    top, end = "Home, tomatoes, soup\n\n", "\n## Related\n\n- Back to the garden gate\n- Planted in spring\n"
    notes = {
        f"{number}.md": f"{top}# Note {number}\n\nword{number} other{number} third{number}\n{end}"
        for number in range(20)
    }
    notes["a.md"] = f"{top}# Tomato\n\nTomatoes want patience.\n{end}"
    notes["b.md"] = f"{top}# Soup\n\nA soup of tomatoes wants patience.\n{end}"
    with opened(tmp_path, notes) as retriever:
        assert [item.node_id for item in retriever.similar("a.md").sections] == ["b.md#soup"]
        assert not retriever.similar("a.md#tomato/related").sections


def test_what_is_linked_or_beside_it_can_be_left_out_of_what_is_similar(tmp_path: Path) -> None:
    pages = TWO_PAGES_ON_TOMATOES | {"b/list.md": "# List\n\nTomatoes want patience: see [the garden](../garden.md).\n"}
    with opened(tmp_path, pages) as retriever:
        assert {item.file for item in retriever.similar("garden.md#garden").sections} == {"b/list.md", "soup.md"}
        assert {item.file for item in retriever.similar("garden.md#garden", unlinked=True).sections} == {"soup.md"}
        assert {item.file for item in retriever.similar("garden.md#garden", elsewhere=True).sections} == {"b/list.md"}
