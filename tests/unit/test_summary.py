"""The first words of a node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.blocks import read_blocks
from pageindex.dialects import NAMES, get_dialect
from pageindex.document import parse_document
from pageindex.node import Node
from pageindex.summary import boilerplate, extractive_summary


def summary(text: str, *titles: str, max_chars: int = 420) -> str:
    """`mkdocs: text` is read in that dialect."""
    name, colon, rest = text.partition(": ")
    dialect, text = (name, rest) if colon and name in NAMES else ("commonmark", text)
    return extractive_summary(read_blocks(text, 1, get_dialect(dialect)), titles, max_chars)


@given(st.text(alphabet="ab. `*[]()<>!|#-\n\t~:é。", max_size=200), st.integers(min_value=1, max_value=60))
def test_never_longer_than_asked_for_and_on_one_line(text: str, max_chars: int) -> None:
    found = summary(text, "a title", max_chars=max_chars)
    assert len(found) <= max_chars
    assert "\n" not in found


def nodes(markdown: str) -> list[Node]:
    return [placed.node for placed in parse_document("page.md", markdown).nodes]


def test_titles_that_come_back_are_those_of_a_log_and_links_those_of_a_list() -> None:
    assert boilerplate(nodes("# One\n\na\n\n## Two\n\nb\n")) == 0.0
    # Four sections of one title weigh log2(4) / log2(256) each; the one above them has a title of its own.
    log = "# Log\n\n" + "## Fixes\n\nsomething\n\n" * 4
    assert boilerplate(nodes(log)) == pytest.approx(4 * (2 / 8) / 5)
    assert boilerplate(nodes("## Fixes\n\nx\n\n" * 256)) == 1.0
    assert boilerplate(nodes("## Fixes\n\n[a](b)\n\n" * 300)) == 1.0  # never more
    # A page is one of links in the mean of its sections.
    assert boilerplate(nodes("# Links\n\n[a](b)\n\n## Text\n\nword\n")) == pytest.approx(0.5)
    assert boilerplate(nodes("")) == 0.0  # no lines, nothing to rank
