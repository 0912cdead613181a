"""The tree of folders, files and sections, and its links."""

import pytest

from pageindex.document import parse_document
from pageindex.node import DocumentTree, Node, NodeKind, Span
from tests.trees import build_tree

PAGES = {
    "guide/deep/more.md": "text\n",
    "guide/install.md": "# Install\n\n## Linux\n\n## macOS\n\n## Windows\n\n[use](../use.md#run)\n",
    "use.md": "# Use\n\n[sub](#run) [install](guide/install.md) [again](guide/install.md)\n\n## Run\n\n[[install]]\n",
}


@pytest.fixture
def tree() -> DocumentTree:
    return build_tree(*(parse_document(path, text) for path, text in PAGES.items()))


def ids(nodes: object) -> list[str]:
    assert hasattr(nodes, "__iter__")
    return [node.id for node in nodes]


def test_relatives(tree: DocumentTree) -> None:
    linux = "guide/install.md#install/linux"
    assert ids([tree.parent(linux)]) == ["guide/install.md#install"]
    assert tree.parent("/") is None
    assert ids(tree.children("/")) == ["guide/", "use.md"]


def test_a_walk(tree: DocumentTree) -> None:
    assert len(ids(tree.walk())) == 12
    assert ids(tree.walk("use.md")) == ["use.md", "use.md#use", "use.md#use/run"]
    assert ids(tree.walk("use.md", depth=0)) == ["use.md"]
    assert ids(tree.walk(depth=1)) == ["/", "guide/", "use.md"]


def test_a_node_has_a_body_a_citation_and_breadcrumbs_that_repeat_no_title() -> None:
    nodes = [placed.node for placed in parse_document("a.md", "# A\n\n## B\n\n### B\n\n### C\n").nodes]
    assert [(node.title, node.breadcrumb) for node in nodes] == [
        ("A", ()), ("A", ()), ("B", ("A",)), ("B", ("A",)), ("C", ("A", "B")),
    ]  # fmt: skip
    node = Node("a.md", NodeKind.FILE, "a.md", "a", 0, (), Span(1, 4), "---\n---\nx\u2028y\nz", front_matter_lines=2)
    assert node.body == "x\u2028y\nz"
    assert node.citation == "a.md:1-4"
    assert Node("a.md", NodeKind.FILE, "a.md", "a", 0, (), Span(1, 2), "---\n---", front_matter_lines=2).body == ""


def test_control_characters_are_inert_and_long_titles_cut_where_they_are_shown() -> None:
    document = parse_document("a\x1b[2J.md", f"# \x1b]0;x\x07 \u202etitle\n\n# {'x' * 300}\n")
    shown = build_tree(document).pretty()
    assert "\ufffd]0;x\ufffd \ufffdtitle  a\ufffd[2J.md:1-2" in shown
    assert f"{'x' * 199}…  " in shown
    assert all(char == "\n" or (ord(char) >= 32 and not 127 <= ord(char) < 160) for char in shown)


def test_trees_deeper_and_wider_than_the_stack() -> None:
    deep = parse_document("/".join(["d"] * 3000) + "/a.md", "# A\n")
    wide = parse_document("w.md", "# h\n" * 10_000)
    tree = build_tree(deep, wide)
    assert len(ids(tree.walk())) == 1 + 3000 + 2 + 1 + 10_000
    assert tree.pretty("w.md").count("\n") == 10_000
