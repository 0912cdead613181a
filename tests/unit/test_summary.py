"""The first words of a node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.document import parse_document
from pageindex.node import Node
from pageindex.summary import MAX_SUMMARY_CHARS, boilerplate


@given(st.text(alphabet="ab. `*[]()<>!|#-\n\t~:é。", max_size=2000))
def test_never_longer_than_it_may_be_and_on_one_line(text: str) -> None:
    found = [node.summary for node in nodes(text)]
    assert max(map(len, found)) <= MAX_SUMMARY_CHARS
    assert "\n" not in "".join(found)


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
