from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from retriever.places.view import StoredTree, View
from retriever.searching.neighbors import add_neighbors, find_file_roots, find_neighbors
from retriever.settings import Profile
from retriever.store.reading import OutlineNode
from retriever.types import Ranked, Ranking, Source
from tests.shelf import open_pages

GUIDE = """# Guide
top
## Install
see [faq](faq.md#why)
### Linux
a
### Windows
b
### Mac
c
## Use
d
"""
FAQ = "# FAQ\nx\n## Why\ny\n"
G = "guide.md#guide"


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    pages = {"guide.md": GUIDE, "faq.md": FAQ}
    with open_pages(tmp_path_factory.mktemp("neighbors"), pages) as retriever, retriever.view() as view:
        yield view


@pytest.fixture(scope="module")
def tree(view: View) -> StoredTree:
    view.tree.load_nodes(["guide.md", "faq.md"])
    return view.tree


def around(tree: StoredTree, *hits: Ranked, **changes: int) -> dict[str, float]:
    found = find_neighbors(hits, tree, replace(Profile(), **changes))  # type: ignore[arg-type]  # counts
    return {item.node_id: round(item.score, 6) for item in found}


def test_relatives_come_in_document_order_and_siblings_nearest_first(tree: StoredTree) -> None:
    def ids(nodes: Sequence[OutlineNode]) -> list[str]:
        return [node.id.removeprefix(f"{G}/install/") for node in nodes]

    assert ids(tree.children(f"{G}/install")) == ["linux", "windows", "mac"]
    assert ids(tree.siblings(f"{G}/install/mac")) == ["windows", "linux"]
    assert ids(tree.siblings(f"{G}/install/windows", 1)) == ["linux"]
    assert ids(tree.siblings("guide.md")) == []


def test_one_step_in_each_direction(tree: StoredTree) -> None:
    assert around(tree, Ranked(f"{G}/install", 1.0)) == {
        G: 0.75,
        f"{G}/install/linux": 0.7,
        f"{G}/install/windows": 0.7,
        f"{G}/install/mac": 0.7,
        f"{G}/use": 0.6,
    }


def test_two_steps_decay_twice_and_none_lead_nowhere(tree: StoredTree) -> None:
    found = around(tree, Ranked(f"{G}/use", 1.0), neighbor_depth=2)
    assert found[f"{G}/install"] == 0.6
    assert found[f"{G}/install/linux"] == pytest.approx(0.6 * 0.7)
    assert around(tree, Ranked(f"{G}/install", 1.0), neighbor_depth=0) == {}


def test_hits_are_no_neighbours_and_the_best_way_counts(tree: StoredTree) -> None:
    found = around(tree, Ranked(f"{G}/install/linux", 1.0), Ranked(f"{G}/install/mac", 0.5))
    assert f"{G}/install/mac" not in found
    assert found[f"{G}/install/windows"] == 0.6
    assert found[f"{G}/install"] == 0.75
    nearest = around(tree, Ranked(f"{G}/install/linux", 1.0), siblings_per_node=1)
    assert (f"{G}/install/windows" in nearest, f"{G}/install/mac" in nearest) == (True, False)
    assert list(found) == sorted(found, key=lambda node_id: (-found[node_id], node_id)), "by score, then by id"


def test_the_best_files_bring_in_their_first_section(tree: StoredTree) -> None:
    hits = [Ranked("faq.md#faq/why", 1.0), Ranked(f"{G}/use", 0.8), Ranked(f"{G}/install", 0.7)]
    assert [(item.node_id, item.score) for item in find_file_roots(hits, tree, Profile())] == [
        ("faq.md#faq", 0.75),
        (G, pytest.approx(0.6)),
    ]
    assert len(find_file_roots(hits, tree, Profile(candidate_file_roots=1))) == 1


def test_files_bring_in_their_first_section_without_any_step(view: View) -> None:
    found = Ranking(Source.KEYWORD, "bm25", 1.0, (Ranked("faq.md#faq/why", 1.0),))
    *_, added = add_neighbors(view, [found], Profile(neighbor_depth=0))
    assert [item.node_id for item in added.items] == ["faq.md#faq"]
