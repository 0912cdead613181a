"""Documents that break parsers: each must be read, without loss, in time that grows with its length alone.

The timeout is the limit of time: each takes less than a second, and anything quadratic minutes.
"""

import pytest

from pageindex.document import parse_document
from retriever.indexing.chunk import chunk_nodes

pytestmark = pytest.mark.timeout(15)

BAD = {
    "3,000 headings": ("".join(f"{'#' * (1 + n % 6)} h{n}\n\ntext\n" for n in range(3_000)), 3_001),
    "lists nested 10,000 deep in one line": ("- " * 10_000 + "x\n\n# After\n", 1),
    "bullets in one another, with lines": ("- " * 3_000 + "end\n" + "  more\n" * 30, 1),
    "numbers in one another, with lines": ("1. " * 3_000 + "end\n" + "  more\n" * 30, 1),
    "quotes nested 200,000 deep": (">" * 200_000 + " x\n\n# After\n", 2),
    "lines that continue deep quotes": (">" * 200 + " x\n" + "a\n" * 600 + "\n# After\n", 2),
    "10,000 open brackets": ("[" * 10_000 + "\n\n# After\n", 2),
    "stars in a heading": ("# " + "*a **a " * 270, 2),
    "links without an end": ("[](<" * 50_000, 1),
    "wikilinks without an end": ("[[a|" * 5_000, 1),
    "backtick runs of every length": ("".join("`" * n + " " for n in range(1500)) + "[a]", 1),
    "comments without an end": ("<!-- " * 50_000, 1),
    "an unclosed fence": ("# A\n```\n" + "# no\n" * 50_000, 2),
    "an unclosed HTML block": ("# A\n<script>\n" + "# no\n\n" * 50_000, 2),
    "12,000 lines": ("a\n" * 12_000, 8),
    "a line of 9 MB": ("x" * 9_000_000, 1),
    "a table of 20,000 columns": ("|a" * 20_000 + "|\n" + "|-" * 20_000 + "|\n", 1),
    "20,000 paragraphs": ("a\n\n" * 20_000, 20),
    "a definition whose title does not end": ('[a]: b "\n' * 5_000, 1),
    "spaces": ("# a" + " " * 200_000 + "b {.c}\n\nc." + " " * 200_000 + "d", 3),
    "dashes and stars": ("- - - - " * 2000 + "x\n" + "* * " * 2000 + "x", 1),
}


@pytest.mark.parametrize("name", BAD)
def test_read_without_loss(name: str) -> None:
    text, nodes = BAD[name]
    document = parse_document("a.md", text)
    assert len(document.nodes) == nodes
    assert "".join(placed.node.text for placed in document.nodes) == text


@pytest.mark.parametrize(("dialect", "opening"), [("myst", ":::note"), ("hugo", "{{< highlight sh >}}")])
def test_openings_that_nothing_closes_are_text(dialect: str, opening: str) -> None:
    text = f"{opening}\n\n" * 10_000
    assert len(parse_document("a.md", text, dialect=dialect).nodes) > 10


@pytest.mark.parametrize("mark", ["- ", "> "])
def test_containers_in_one_another_lose_nothing(mark: str) -> None:
    for depth in range(1, 25):
        text = f"# A\n\n{mark * depth}deep{depth}\n\nAfter.\n"
        _, section = parse_document("a.md", text).nodes
        (chunks,) = chunk_nodes([section.node], lambda texts: [len(text) // 3 + 2 for text in texts])
        held = [line for chunk in chunks for line in range(chunk.span.first, chunk.span.last + 1)]
        assert {3, 5} <= set(held)
        assert sum(f"deep{depth}" in chunk.text for chunk in chunks) == 1


def test_what_is_kept_of_long_headings_and_lists_is_short() -> None:
    document = parse_document("a.md", f"# {'x' * 200_000}\n# {'x' * 200_000}\n")
    assert [len(placed.node.id) for placed in document.nodes] == [4, 105, 107]
    assert len(document.nodes[1].node.title) == 200_000
