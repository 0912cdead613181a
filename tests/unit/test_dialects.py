"""Any bytes, and the pieces of all dialects in any order, are a tree or no text: nothing of them is lost."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pageindex.dialects import NAMES
from pageindex.document import find_holders, parse_document
from pageindex.formats import NotTextError, decode
from pageindex.node import Span, UnitKind
from pageindex.summary import boilerplate
from pageindex.text import count_lines
from retriever.indexing.chunk import chunk_nodes
from retriever.lexical.sections import names_of_nodes
from retriever.settings import DIALECTS
from tests.fake_encoder import FakeEncoder
from tests.tables import read_table

PIECES = st.sampled_from([*read_table("lines", "Of all dialects"), "x" * 300])
LINE_ENDS = st.sampled_from(["\n", "\n", "\n", "\n\n", "\r\n", "\r", ""])
DOCUMENTS = st.lists(st.tuples(PIECES, LINE_ENDS), max_size=12).map(
    lambda lines: "".join(piece + end for piece, end in lines).encode()
)
RAW = DOCUMENTS | st.binary(max_size=60) | st.text(max_size=60).map(str.encode)
count = FakeEncoder().count_tokens


def test_every_dialect_can_be_chosen() -> None:
    assert set(DIALECTS) == {"auto", *NAMES}


@settings(max_examples=800)
@given(RAW, st.sampled_from(NAMES))
@example(b"\xff\xfe\x00", "commonmark")
@example(b"<p>\n<script setup>\n<td>a</td>\n", "commonmark")
@example(b"---\n" * 3, "commonmark")
@example(b"\xff\xfe" + "# a\n".encode("utf-16-le") + b"\x00\xd8", "commonmark")
def test_a_document_is_read_whole(raw: bytes, dialect: str) -> None:
    try:
        text, _ = decode(raw)
    except NotTextError:
        return
    document = parse_document("a/page.md", text, dialect=dialect)
    assert "".join(placed.node.text for placed in document.nodes) == text
    nodes = [placed.node for placed in document.nodes]
    lines = [line for node in nodes if node.span for line in range(node.span.first, node.span.last + 1)]
    assert lines == list(range(1, count_lines(text) + 1))
    places = {node.id: place for place, node in enumerate(nodes)}
    assert len(places) == len({node.anchor for node in nodes}) == len(nodes)
    assert all(places[item.parent_id or ""] < places[item.node.id] for item in document.nodes[1:])
    assert all(1 <= link.line <= len(lines) and node_id in places for node_id, link in document.links)
    assert names_of_nodes(document).keys() == {node.id for node in nodes}
    assert find_holders(document.nodes).keys() <= {node.id for node in nodes}
    assert 0 <= boilerplate(nodes) <= 1
    for node, chunks in zip(nodes, chunk_nodes(nodes, count, 32, 16), strict=True):
        held = {line for chunk in chunks for line in lines_of(chunk.span)}
        pieces = [unit.span for unit in node.units if unit.kind not in (UnitKind.LIST, UnitKind.FIELD)]
        assert {line for span in pieces for line in lines_of(span)} <= held
        assert all(node.span and unit.span.first >= node.span.first for unit in node.units)
        assert all(node.span and unit.span.last <= node.span.last for unit in node.units)
        assert all(unit.text and "\n" not in unit.in_full for unit in node.units)


def lines_of(span: Span) -> range:
    return range(span.first, span.last + 1)
