"""Properties of every outline: its headings are those of markdown-it, and an edit elsewhere renames none."""

from hypothesis import given
from hypothesis import strategies as st

from pageindex.blocks import read_blocks
from pageindex.dialects import COMMONMARK, open_parser
from pageindex.document import parse_document
from pageindex.formats import with_lf
from pageindex.front_matter import read_front_matter
from pageindex.outline import find_headings
from tests.tables import read_table

LINES = st.sampled_from(read_table("lines", "Of outlines"))
TEXTS = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\n", "\n\n", "\r\n", "\r", ""])), max_size=30).map(
    lambda lines: with_lf("".join(line + end for line, end in lines))
)
FULL_PARSER = open_parser(COMMONMARK)


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
    count = read_front_matter(text).lines
    blocks = read_blocks("".join(text.split("\n", count)[count:]), count + 1)
    return [(heading.level, heading.line) for heading in find_headings(blocks)]


def full_headings(text: str) -> list[tuple[int, int]]:
    """(level, line) of each top-level heading; front matter is blanked first."""
    count = read_front_matter(text).lines
    body = "\n" * count + "".join(text.split("\n", count)[count:])
    tokens = FULL_PARSER.parse(body)
    headings = [token for token in tokens if token.type == "heading_open" and not token.level]
    return [(int(token.tag[1]), (token.map or [0])[0] + 1) for token in headings]
