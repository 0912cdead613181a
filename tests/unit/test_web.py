"""The parts of the web page that need no server: templates, the tree."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from markupsafe import Markup

from pageindex.node import Node, NodeKind, Span
from pageindex.tree import DocumentTree
from retriever.display.phrases import open_templates
from retriever.serving.web.site import Branch, Outline, draw_tree, join_only_section, make_question, suggest_questions

PACKAGE = Path(__file__).parents[2] / "retriever"
TEMPLATES = sorted(PACKAGE.glob("**/templates/*.html"))
HOSTILE = "\"'><script>&\u202e\x1b\udcff"


def test_what_a_template_prints_is_escaped_and_sanitized(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '{% macro twice(x) %}<i>{{ x }}</i>{{ x ~ "." }}{% endmacro %}'
        '<a href="{{ x }}" title="{{ "%s"|format(x) }}">{{ twice(x) }}</a>{{ trusted }}'
    )
    page = open_templates(tmp_path).get_template("a.html").render(x=HOSTILE, trusted=Markup("<b>"))
    safe = "&#34;&#39;&gt;&lt;script&gt;&amp;\ufffd\ufffd\\xff"
    assert page == f'<a href="{safe}" title="{safe}"><i>{safe}</i>{safe}.</a><b>'


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_switches_escaping_off_or_holds_a_script(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*(safe|e|escape|forceescape|xmlattr|tojson)\b|autoescape|Markup", text)
    assert not re.search(r"\son\w+=|\sstyle=|javascript:", text)
    if path.parent.parent.name == "web":
        assert not re.search(r"<script(?! src=)|<style", text), "the policy of the page forbids it"


def outline(*ids: str) -> Outline:
    """A file or section each, from ids such as `a/b.md#c/d`."""
    tree = DocumentTree()
    for node_id in ids:
        path, _, section = node_id.partition("#")
        title = (section or path).rpartition("/")[2]
        if section:
            above = node_id.rpartition("/" if "/" in section else "#")[0]
            tree.add(Node(node_id, NodeKind.SECTION, path, title, 1, (), Span(1, 2), ""), above)
        else:
            tree.add(Node(node_id, NodeKind.FILE, path, title, 0, (), None, ""), tree.add_folders("", path))
    return Outline(tree, {"/": "docs"})


def lines(items: Iterable[Branch], depth: int = 0) -> Iterator[str]:
    """What is drawn, a line each."""
    for item in items:
        marks = f"{' #' + str(item.rank) if item.rank else ''}{' here' if item.is_here else ''}"
        yield f"{'  ' * depth}{item.label}{marks}{f' +{item.more}' if item.more else ''}"
        yield from lines(item.below, depth + 1)


def test_the_tree_is_open_above_what_is_lit() -> None:
    documents = outline("a.md", "a.md#x", "a.md#x/y", "b/c/d.md")
    assert list(lines(draw_tree(documents))) == ["docs/"]
    assert list(lines(draw_tree(documents, {"a.md#x/y": 1}))) == ["docs/", "  a.md", "    x", "      y #1", "  b/"]
    assert list(lines(draw_tree(documents, here="b/"))) == ["docs/", "  a.md", "  b/ here", "    c/"]
    assert list(lines(draw_tree(documents, {"gone.md": 1}))) == ["docs/"]


def test_of_a_large_family_only_the_way_to_what_is_lit_is_drawn() -> None:
    documents = outline(*(f"{n:03}.md" for n in range(300)))
    assert list(lines(draw_tree(documents, {"007.md": 1}, here="200.md"))) == [
        "docs/ +298",
        "  007.md #1",
        "  200.md here",
    ]
    everything = {f"{n:03}.md": n + 1 for n in range(300)}
    assert len(list(lines(draw_tree(documents, everything)))) == 201


def test_a_node_has_a_label_and_a_way_and_may_be_one_row_with_its_only_section() -> None:
    documents = outline("a.md", "a.md#x", "a.md#x/y")
    assert [node.id for node in documents.path_to("a.md#x/y")] == ["/", "a.md", "a.md#x", "a.md#x/y"]
    assert [documents.label(node_id) for node_id in ("/", "a.md#x", "gone.md")] == ["docs/", "x", "gone.md"]
    documents = outline("x", "x#x", "y", "y#z")
    files = documents.tree.children("/")
    assert [join_only_section(documents, node).id for node in files] == ["x#x", "y"]
    assert list(lines(draw_tree(documents, here="x"))) == ["docs/", "  x here", "  y"]


@pytest.mark.parametrize(
    ("title", "begins", "question"),
    [
        ("Why use password hashing", "", "Why use password hashing?"),
        ("Wie geht das?", "", "Wie geht das?"),
        ("How to install on Linux", "", "How do I install on Linux?"),
        ("Declare a header", "", "How do I declare a header?"),
        ("Configuring the server.", "", "How do I configure the server?"),
        ("Running tests", "", "How do I run tests?"),
        ("Catalogs", "Catalogs are a workspace feature.", "What are Catalogs?"),
        ("Trait", "A trait is a set of methods.", "What is a trait?"),
        ("Summary", "This page is a summary.", ""),
        ("Do not Separate Schemas", "", ""),
        ("How Proxy Forwarded Headers Work", "", ""),
        ("Set theory", "", ""),
        ("Defining and Instantiating Structs", "", ""),
        ("Use: an example (old)", "", ""),
        ("Why?", "", ""),
        ("When to use this image?", "", ""),
        ("When to disable", "", ""),
    ],
)
def test_a_heading_is_asked(title: str, begins: str, question: str) -> None:
    assert make_question(title.rstrip("."), begins)[1] == question


def test_examples_are_of_different_documents_those_that_headings_ask_first() -> None:
    sections = [("Use snow", "", n) for n in range(40)] + [("What is snow?", "", 0), ("Why is snow white?", "", 0)]
    assert suggest_questions(sections)[0] == "What is snow?"
    assert "Why is snow white?" not in suggest_questions(sections)
    assert suggest_questions([("Use snow", "", n) for n in range(40)]) == ("How do I use snow?",)
    assert len(suggest_questions([(f"Use snow {n}", "", n) for n in range(40)])) == 6
