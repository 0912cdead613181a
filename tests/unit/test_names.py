"""What a section is called, and which section stands for one without text."""

from pathlib import Path

import pytest

from pageindex.document import find_holders, parse_document
from retriever.lexical.names import names_of_nodes, spell_code, spell_name
from retriever.types import Source
from tests.shelf import open_pages
from tests.tables import read_table


def test_how_a_file_is_called() -> None:
    document = parse_document(
        "notes/leave-policy.md", "---\naliases: [Time off]\n---\n# Vacation\n\n## 1.2 Carry over\n\nx\n"
    )
    names = names_of_nodes(document)
    assert {spell_name(name) for name in ("leave policy", "time off", "vacation")} <= names["notes/leave-policy.md"]
    assert spell_name("carry over") in names["notes/leave-policy.md#vacation/12-carry-over"]


def test_a_function_is_called_so_without_its_arguments() -> None:
    text = "# Files\n\n## `fs.access(path[, mode], callback)`\n\nx\n\n## Install (Linux)\n\nx\n"
    names = names_of_nodes(parse_document("fs.md", text))
    called = names["fs.md#files/fsaccesspath-mode-callback"]
    assert {spell_code(name) for name in ("fs.access", "fs.access()", "FS.Access")} <= called
    assert {spell_name(name) for name in ("fs access", "fs.access(path, mode, callback)")} <= called
    assert names["fs.md#files/install-linux"] == {spell_name("install linux")}


def test_the_first_text_below_or_above_stands_for_a_bare_heading() -> None:
    text = (
        "# Top\n\n<!-- nothing -->\n\n## One\n\n### Deep\n\nText.\n\n## Two\n\n[label]: http://x.example\n\n"
        "Three\n-----\n\nText.\n\n### Empty\n"
    )
    assert find_holders(parse_document("a.md", text).nodes) == {
        "a.md": "a.md#top/one/deep",
        "a.md#top": "a.md#top/one/deep",
        "a.md#top/one": "a.md#top/one/deep",
        "a.md#top/two": "a.md#top/one/deep",
        "a.md#top/three/empty": "a.md#top/three",
    }


def test_a_document_of_headings_alone_is_shown_as_it_is() -> None:
    holders = find_holders(parse_document("a.md", "# Groceries\n\n## Milk\n\n## Eggs\n").nodes)
    assert holders == {"a.md": "a.md#groceries"}, "a file without lines of its own is cited by its first heading"
    assert find_holders(parse_document("a.md", "").nodes) == find_holders(parse_document("a.md", "Milk\n").nodes) == {}


@pytest.mark.parametrize("question", ["guide/setup.md", "guide/setup", "./guide/setup.md", "setup.md"])
def test_a_file_is_found_by_the_end_of_its_path(tmp_path: Path, question: str) -> None:
    pages = {
        "guide/setup.md": "---\nid: setup\n---\nRun the installer.\n",
        "setups.md": "# Setups\n\nBoth setup.md and guide/setup.md, of the setup in guide/setup.\n",
    }
    with open_pages(tmp_path, pages) as retriever:
        answer = retriever.search(question)
    assert answer.verdict == "answered"
    assert (answer.hits[0].file, answer.hits[0].sentence) == ("guide/setup.md", "Run the installer.")


def test_a_page_is_named_sooner_than_a_section_of_another(tmp_path: Path) -> None:
    pages = {
        "plugins.md": "# Plugins\n\nWhat a plugin is.\n",
        "testing.md": "# Testing\n\nx\n\n## Plugins\n\nOf a plugin, a test: plugins, plugins.\n",
        "types.md": "# Types\n\nx\n\n## Examples\n\nx\n\n### Plugins\n\nPlugins.\n",
    }
    with open_pages(tmp_path, pages) as retriever:
        hits = retriever.search("plugins").hits
    shares = {hit.node_id: item.score for hit in hits for item in hit.evidence if item.source is Source.NAME}
    assert hits[0].node_id == "plugins.md#plugins"
    assert shares == {
        "plugins.md#plugins": pytest.approx(36 / 49),  # 1 of 1 + 1/4 + 1/9
        "testing.md#testing/plugins": pytest.approx(1 / 3),
        "types.md#types/examples/plugins": pytest.approx(1 / 3),
    }


@pytest.mark.parametrize(("question", "title"), read_table("found", "As it is written"))
def test_what_is_held_as_it_is_written_comes_first(tmp_path: Path, question: str, title: str) -> None:
    pages = {
        "shop.md": "# Shop\n\nPay by Spendly.\n\n# Costs\n\nSpend: it spends, and the spending of who spends.\n",
        "filters.md": "# Tables\n\nSystem-FilterHashtables, filter hashtable.\n\n# Filters\n\nUse -filterhashtable.\n",
        "bread.md": "# Oven\n\nThe oven, at 250.\n\n# Bread\n\nIt bakes when the oven is at 250 degrees.\n",
    }
    with open_pages(tmp_path, pages) as retriever:
        hit = retriever.search(question).hits[0]
    assert hit.title == title
    assert "found as written" in hit.reasons
