"""Properties of every document: any bytes are a tree or an error of ours, and its headings are CommonMark's."""

from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pageindex.blocks import count_lines, read_blocks, read_markdown
from pageindex.document import parse_document
from pageindex.formats import NotTextError, decode, with_lf
from pageindex.front_matter import read_front_matter
from pageindex.outline import Heading, find_headings, outline
from pageindex.units import read_units
from retriever.display.phrases import sanitize, sanitize_line

# fmt: off
LINES = st.sampled_from([
    "# One", "## Two ##", "### Three {#id}", "###### Six", "#", "#no", "Title", "===", "---", "text",
    "text *x* `y`", "- item", "- # in item", "* x", "1. one", "  - deeper", "    indented", "\ttab", "> quote",
    "> # in quote", ">> two", "```", "````md", "~~~", "<div>", "</div>", "<!-- c", "-->", "<b>x</b>", "***",
    "+++", "[r]: a.md", "[a](b.md) [[n#h]]", "", "  ", "| a |", "title: x", "...", "[", "`", "\\", "é ü\u2028z",
    "- - - x", "1) y", "_ _ _", "<pre>", "</pre>", "a | b", "|-|-|", "> a | b", "> -|-", "  a | b", "  -|-",
])
# fmt: on
TEXTS = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\n", "\n\n", "\r\n", "\r", ""])), max_size=30).map(
    lambda lines: with_lf("".join(line + end for line, end in lines))
)
FULL_PARSER = MarkdownIt("commonmark", {"maxNesting": 200}).enable("table")


@given(TEXTS)
def test_an_edit_elsewhere_renames_nothing(text: str) -> None:
    before = [placed.node.id for placed in parse_document("a.md", "# First\n\nold\n\n# Second\n\n" + text).nodes]
    after = [
        placed.node.id for placed in parse_document("a.md", "# First\n\nnew\n## Added\n\n# Second\n\n" + text).nodes
    ]
    assert [node_id for node_id in after if node_id != "a.md#first/added"] == before


@given(TEXTS)
def test_headings_are_those_of_the_full_parser(text: str) -> None:
    assert our_headings(text) == full_headings(text)


def our_headings(text: str) -> list[tuple[int, int]]:
    return [(heading.level, heading.line) for heading in find_headings(read_markdown(text).blocks)]


def full_headings(text: str) -> list[tuple[int, int]]:
    """(level, line) of each top-level heading; front matter is blanked first."""
    count = read_front_matter(text).lines
    body = "\n" * count + "".join(text.split("\n", count)[count:])
    tokens = FULL_PARSER.parse(body)
    headings = [token for token in tokens if token.type == "heading_open" and not token.level]
    return [(int(token.tag[1]), (token.map or [0])[0] + 1) for token in headings]


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


@settings(max_examples=300)
@given(RAW | (TEXTS | TEXTS.map("---\ntitle: x\n---\n".__add__) | st.text(max_size=60)).map(str.encode))
@example(b"\xff\xfe\x00")
@example(b"---\n" * 3)
@example(b"\xff\xfe" + "# a\n".encode("utf-16-le") + b"\x00\xd8")
def test_any_bytes_are_a_tree_or_no_text(raw: bytes) -> None:
    """Spans partition the lines, texts joined are the text, ids are unique, a parent comes before its children."""
    try:
        text, _ = decode(raw)
    except NotTextError:
        return
    document = parse_document("folder/page.md", text)
    nodes = [placed.node for placed in document.nodes]
    lines = [line for node in nodes if node.span for line in range(node.span.first, node.span.last + 1)]
    assert lines == list(range(1, count_lines(text) + 1))
    assert "".join(node.text for node in nodes) == text
    assert all(count_lines(node.text) == (len(node.span) if node.span else 0) for node in nodes)
    places = {node.id: place for place, node in enumerate(nodes)}
    assert len(places) == len({node.anchor for node in nodes}) == len(nodes)
    assert all(item.parent_id in places for item in document.nodes[1:])
    assert all(places[item.parent_id] < place for place, item in enumerate(document.nodes) if item.parent_id)
    assert all(1 <= link.line <= len(lines) and node_id in places for node_id, link in document.links)


@given(HEADINGS, st.integers(0, 3))
def test_any_headings_are_an_outline(titles: list[tuple[int, str]], gap: int) -> None:
    headings = [
        Heading(level, title, None, 1 + gap + number * (gap + 1)) for number, (level, title) in enumerate(titles)
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


@given(RAW)
def test_what_is_shown_is_inert_and_on_one_line(raw: bytes) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    for unit in read_units(read_blocks(text)):
        assert "\n" not in unit.in_full
    for safe in sanitize(text), sanitize_line(text):
        assert safe.encode("utf-8").decode("utf-8") == safe


def test_a_list_is_one_block_until_another_sign_begins_another() -> None:
    blocks = read_blocks("text\n\n- a\n- b\n- c\nlazy\n\nafter\n- d\n* e\n")
    assert [(block.kind.value, block.first, block.last) for block in blocks] == [
        ("paragraph", 1, 1),
        ("list", 3, 6),
        ("paragraph", 8, 8),
        ("list", 9, 9),
        ("list", 10, 10),
    ]
