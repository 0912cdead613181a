import pytest

from pageindex.boilerplate import boilerplate, link_density
from pageindex.document import parse_document
from pageindex.node import Node


def nodes(markdown: str) -> list[Node]:
    return [placed.node for placed in parse_document("page.md", markdown).nodes]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", 0.0),
        ("  \n\n", 0.0),
        ("no link at all", 0.0),
        ("# [a](b)\n", 0.0),  # a heading says nothing of what is below it
        ("[a](b)", 1.0),
        ("x [a](b)", 6 / 7),
        ("- [a](b)\n- [c](d)\n", 12 / 14),
        ("https://x.org/y and", 15 / 18),
        ("<https://x.org>", 13 / 15),
        ("[not a link] (b)", 0.0),
        ("![picture](p.png)", 16 / 17),
    ],
)
def test_link_density(text: str, share: float) -> None:
    assert link_density(text) == pytest.approx(share)


def test_titles_that_come_back_are_those_of_a_log() -> None:
    assert boilerplate(nodes("# One\n\na\n\n## Two\n\nb\n")) == 0.0
    # Four sections of one title weigh log2(4) / log2(256) each; the one above them has a title of its own.
    log = "# Log\n\n" + "## Fixes\n\nsomething\n\n" * 4
    assert boilerplate(nodes(log)) == pytest.approx(4 * (2 / 8) / 5)
    assert boilerplate(nodes("## Fixes\n\nx\n\n" * 256)) == 1.0
    assert boilerplate(nodes("## Fixes\n\n[a](b)\n\n" * 300)) == 1.0  # never more


def test_a_page_of_links_is_one_in_the_mean_of_its_sections() -> None:
    page = "# Links\n\n[a](b)\n\n## Text\n\nword\n"
    assert boilerplate(nodes(page)) == pytest.approx(0.5)
    assert boilerplate(nodes("")) == 0.0  # no lines, nothing to rank


def test_nothing_takes_long() -> None:
    for sign in ("[", "[a](", "https://", "[](", "("):
        assert 0.0 <= link_density(sign * 300_000) <= 1.0
