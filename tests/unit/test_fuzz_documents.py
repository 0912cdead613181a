"""Any bytes become a tree, or an error of ours; any headings an outline. What holds for all of them is stated here.

Invariants of a document: no exception but NotTextError; the spans of its nodes partition its lines; their texts joined
are its text; ids are unique; a parent comes before its children and begins above them; chunks are within the limit and
their lines hold every line that is read; what may be shown of it steers no terminal.
"""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from pageindex.document import parse_document
from pageindex.markdown import Heading, count_lines
from pageindex.outline import outline
from pageindex.text import NotTextError, decode
from retriever.display.sanitize import MAX_MARKS, sanitize, sanitize_line
from retriever.indexing.chunk import chunk_nodes
from retriever.lexical.tokens import tokenize
from retriever.settings.schema import ChunkSettings
from retriever.text import snippet
from tests.definitions import without_definitions

# fmt: off
PIECES = st.sampled_from([
    b"#", b"# ", b"###### ", b"\n", b"\n\n", b"\r", b"\r\n", b"---\n", b"+++\n", b"```", b"~~~~", b"> ", b"- ", b"1. ",
    b"    ", b"\t", b"* * *", b"===", b"| a | b |\n|--|--|\n", b"[", b"](", b")", b"[[", b"]]", b"]: ", b"<", b">",
    b"<!--", b"-->", b"<script>", b"*a **a ", b"`", b"``", b"\\", b"!", b"&#0;", b"{#a}", b"a: b\n", b"a: &x [*x]\n",
    b"a: [", b"!!python/object:x ", b"\x00", b"\xff", b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1b[31m", b"\x9b",
    b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xae", b"\xcc\x81" * 20, b"\xf0\x9f\xa6\x93", b"\xe4\xbd\xa0", b"word ",
    b"A.",
])
# fmt: on
RAW = st.lists(st.one_of(PIECES, st.binary(max_size=6)), max_size=40).map(b"".join)
HEADINGS = st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["a", "A b", "", "a-1", "\u4f60", "#~2", "x" * 150])))
LIMIT = ChunkSettings(target_tokens=20, max_tokens=48)


def counted(texts: Sequence[str]) -> list[int]:
    """Tokens of four bytes and two special ones: like a real tokenizer's, they do not quite add up."""
    return [2 + -(-len(text.encode("utf-8", "replace")) // 4) for text in texts]


@given(RAW)
@example(b"\xff\xfe\x00")
@example(b"---\n" * 3)
@example(b"\xff\xfe" + "# a\n".encode("utf-16-le") + b"\x00\xd8")
def test_any_bytes_are_a_tree_or_no_text(raw: bytes) -> None:
    try:
        text = decode(raw).text
    except NotTextError:
        return
    document = parse_document("folder/page.md", text)
    nodes = [placed.node for placed in document.nodes]
    lines = [line for node in nodes if node.span for line in range(node.span.first, node.span.last + 1)]
    assert lines == list(range(1, count_lines(text) + 1))
    assert "".join(node.text for node in nodes) == text
    places = {node.id: place for place, node in enumerate(nodes)}
    assert len(places) == len(nodes)
    assert all(places[item.parent_id] < place for place, item in enumerate(document.nodes) if item.parent_id)
    assert all(1 <= link.line <= len(lines) and node_id in places for node_id, link in document.links)


@given(RAW)
def test_chunks_hold_all_lines_within_the_limit(raw: bytes) -> None:
    text = raw.decode("utf-8", "replace").replace("\0", "").replace("\r", "\n")
    nodes = [placed.node for placed in parse_document("page.md", text).nodes]
    for node, chunks in zip(nodes, chunk_nodes(nodes, counted, LIMIT), strict=True):
        assert max(counted([chunk.embedded_text for chunk in chunks]), default=0) <= LIMIT.max_tokens
        if node.span is None:
            continue
        held = {line for chunk in chunks for line in range(chunk.span.first, chunk.span.last + 1)}
        assert all(node.span.first <= line <= node.span.last for line in held)
        first = node.span.first + node.front_matter_lines
        written = without_definitions(node.body).split("\n")
        assert {first + number for number, line in enumerate(written) if line.strip()} <= held


@given(HEADINGS, st.integers(0, 3))
def test_any_headings_are_an_outline(titles: list[tuple[int, str]], gap: int) -> None:
    headings = [
        Heading(level, title, None, 1 + gap + number * (gap + 1), 1) for number, (level, title) in enumerate(titles)
    ]
    sections = outline(headings, gap + len(headings) * (gap + 1))
    spans = [(section.span.first, section.span.last) for section in sections]
    assert [first for first, _ in spans] == [heading.line for heading in headings]
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(spans))
    assert len({section.anchor for section in sections}) == len(sections)
    assert len({(section.parent, section.slug) for section in sections}) == len(sections)
    for place, section in enumerate(sections):
        above = [number for number in range(place) if titles[number][0] < titles[place][0]]
        assert section.parent == (above[-1] if above else None)


@given(RAW, st.frozensets(st.sampled_from(["a", "word", "\u4f60", "31m"])))
def test_what_is_shown_is_inert_and_short(raw: bytes, words: frozenset[str]) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    shown = snippet(text, words, tokenize)
    assert len(shown) <= 302
    assert "\n" not in shown
    for safe in sanitize(shown), sanitize(text), sanitize_line(text):
        assert safe.encode("utf-8").decode("utf-8") == safe
        assert "\u0301" * (MAX_MARKS + 1) not in safe
