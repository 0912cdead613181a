"""Documents of the pieces of all dialects, in any order: each is read whole, without an error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pageindex.blocks import BlockKind, count_lines
from pageindex.dialects import NAMES
from pageindex.document import find_holders, parse_document
from pageindex.formats import decode
from pageindex.node import Node
from pageindex.summary import boilerplate
from pageindex.tree import DocumentTree
from retriever.indexing.chunk import ChunkLengths, chunk_nodes
from retriever.lexical.names import names_of_nodes
from tests.fake_encoder import FakeEncoder

# fmt: off
PIECES = st.sampled_from([
    "", "", "Some text.", "A term: `code` and *more*.", "# Title", "## Part {#id}", "Setext", "===", "---", "+++",
    "title: Home", "tags: [a, b]", "layout: home", "{", "}", "```", "```python title=x", "~~~~", "    indented", "\tx",
    "<Home />", "<ApiDocs />", '<Redirect to="/x" />', "<Tabs>", '<TabItem value="a">', "</TabItem>", "</Tabs>",
    "import A from '@site/a'", "export const x = 1", "{/* a comment */}", "<script setup>", "</script>", "<style>",
    "<!-- a comment -->", "<!--", "-->", "%% todo %%", "%%", "%", "<details><summary>More</summary>", "</details>",
    "<table><tr><td>a</td></tr></table>", "<div>", "</div>", '<img src="a.png">', "<br>", "::: tip Read", ":::", "::::",
    ":::{note}", "```{warning} Look", ".. note::", "   :class: tip", "!!! note", "??? details", '=== "Tab"', "> [!TIP]",
    "> quote", "> # In it", "{% tabs %}", "{% endtabs %}", "{{< note >}}", "{{ x }}", "$$", "$x$", "\\begin{a}",
    "(label)=", "[[wiki|link]]", "![[embed]]", "key:: value", "^block-id", "#tag", "- [ ] task", "- item:", "  - sub",
    "1. one", "* x", "Term", ": meaning", "**Type:** int", "| a | b |", "|---|---|", "| 1 |", "+---+", "a | b", "-|-",
    "[a]: b.md", "[^1]: note", "*[HTML]: words", "[a](b.md#c)", "![](a.png)", "&nbsp;", "\\", "\ufeff", "\ufeff# Title",
    "\u2028", "\x0c", "\u200b", "日本語。", "a\\", "x" * 300,
])
# fmt: on
LINE_ENDS = st.sampled_from(["\n", "\n", "\n", "\n\n", "\r\n", "\r", ""])
DOCUMENTS = st.lists(st.tuples(PIECES, LINE_ENDS), max_size=12).map(
    lambda lines: "".join(piece + end for piece, end in lines).encode()
)
count = FakeEncoder().count_tokens


def check(raw: bytes, dialect: str) -> None:
    text, _ = decode(raw)
    document = parse_document("a/page.md", text, dialect=dialect)
    assert "".join(placed.node.text for placed in document.nodes) == text
    nodes = [placed.node for placed in document.nodes]
    lines = [line for node in nodes if node.span for line in range(node.span.first, node.span.last + 1)]
    assert lines == list(range(1, count_lines(text) + 1))
    assert len(list(DocumentTree.from_documents([document]).walk())) == 2 + len(nodes)
    assert names_of_nodes(document).keys() == {node.id for node in nodes}
    assert find_holders(document.nodes).keys() <= {node.id for node in nodes}
    assert 0 <= boilerplate(nodes) <= 1
    for node, chunks in zip(nodes, chunk_nodes(nodes, count, ChunkLengths(16, 32)), strict=True):
        held = {line for chunk in chunks for line in range(chunk.span.first, chunk.span.last + 1)}
        assert lines_with_text(node) <= held
        assert all(node.span and unit.span.first >= node.span.first for unit in node.units)
        assert all(node.span and unit.span.last <= node.span.last for unit in node.units)
        assert all(unit.text and "\n" not in unit.in_full for unit in node.units)


def lines_with_text(node: Node) -> set[int]:
    """Those that chunks hold: all but front matter, what no page shows, and the definitions of links."""
    if node.span is None:
        return set()
    first, body = node.span.first + node.front_matter_lines, node.searched_body.split("\n")
    kinds = dict.fromkeys(range(first, first + len(body)), BlockKind.OTHER)
    for block in node.blocks:
        kinds |= dict.fromkeys(range(block.first, first + len(body)), block.kind)
    return {line for line, kind in kinds.items() if kind is not BlockKind.DEFINITIONS and body[line - first].strip()}


@settings(max_examples=500)
@given(DOCUMENTS, st.sampled_from(NAMES))
def test_a_document_of_any_dialects_is_read_whole(raw: bytes, dialect: str) -> None:
    check(raw, dialect)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=20_000)
@given(DOCUMENTS, st.sampled_from(NAMES))
def test_twenty_thousand_documents_are(raw: bytes, dialect: str) -> None:
    check(raw, dialect)
