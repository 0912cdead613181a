from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.document import parse_document
from pageindex.node import Node, NodeKind, Span
from retriever.indexing.chunk import ChunkLengths, CountTokens, chunk_nodes
from retriever.types import Chunk
from tests.fake_encoder import FakeEncoder
from tests.sections import make_node

SMALL = ChunkLengths(target_tokens=8, max_tokens=24)
count = FakeEncoder().count_tokens


def section(text: str, *, title: str = "Title", breadcrumb: tuple[str, ...] = ("Guide",), first: int = 1) -> Node:
    return make_node(text, "guide.md#title", title, breadcrumb, first=first)


def chunk_node(node: Node, counter: CountTokens, settings: ChunkLengths) -> tuple[Chunk, ...]:
    return chunk_nodes([node], counter, settings)[0]


def lines_of(chunks: Sequence[Chunk]) -> list[tuple[str, str]]:
    return [(str(chunk.span), chunk.text) for chunk in chunks]


CODE = "```python\none = two\n\nthree = four\n```"
TABLE = "| a | b |\n|---|---|\n"
BETA = "- beta one two three four\n  seven eight nine ten"
ROWS = ("one", "two", "three", "four")
SENTENCES = "First sentence here. Second sentence is here."


@pytest.mark.parametrize(
    ("text", "target", "most", "chunks"),
    [
        (
            f"Before it, one two three.\n\n{CODE}\n\nAfter it, one two three.\n", 8, 40,
            [
                ("1", "Before it, one two three."),
                ("3-7", f"Before it, one two three.\n{CODE}"),
                ("9", "After it, one two three."),
            ],
        ),
        (
            TABLE + "".join(f"| {word} | {word} |\n" for word in ROWS), 15, 36,
            [("3-4", "a · b\n| one | one |\n| two | two |"), ("5-6", "a · b\n| three | three |\n| four | four |")],
        ),
        (
            f"Two of them:\n\n- alpha one two three\n  - inner four five six\n{BETA}\n", 12, 32,
            [
                ("1-3", "Two of them:\n- alpha one two three"),
                ("4", "Two of them: alpha one two three\n  - inner four five six"),
                ("5-6", f"Two of them:\n{BETA}"),
            ],
        ),
        (f"{SENTENCES}\n", 10, 12, [("1", "First sentence here."), ("1", "Second sentence is here.")]),
        (
            "Read [the page][one] first.\n\n[one]: a.md#alpha\n[two]: b.md\n\nThen [two].\n\n[three]: c.md\n", 100, 256,
            [("1-6", "Read [the page][one] first.\nThen [two].")],
        ),
        ("[^1]: Alpha\n", 100, 256, [("1", "[^1]: Alpha")]),
    ],
    ids=[
        "code comes with what introduces it", "a row with the names of its cells", "an item with what it stands below",
        "a paragraph at sentences", "definitions of links are left out", "a footnote",
    ],
)  # fmt: skip
def test_where_a_text_is_cut(text: str, target: int, most: int, chunks: list[tuple[str, str]]) -> None:
    assert lines_of(chunk_node(section(text), count, ChunkLengths(target, most))) == chunks


def test_small_blocks_are_put_together_and_the_title_is_said_once() -> None:
    node = section("## Title {#t}\n\nOne two.\n\nThree four.\n\nFive six seven eight.\n", first=11)
    assert chunk_node(node, count, SMALL) == (
        Chunk(node.id, Span(13, 15), "One two.\nThree four.", "Guide > Title\nOne two.\nThree four."),
        Chunk(node.id, Span(17, 17), "Five six seven eight.", "Guide > Title\nFive six seven eight."),
    )


def test_headings_alone_and_front_matter() -> None:
    heading = section("Title\n=====\n\n", first=3)
    empty = Node("a.md", NodeKind.FILE, "a.md", "A", 0, (), None, "")
    only_front_matter = parse_document("b.md", "---\nx: 1\n---\n").nodes[0].node
    below_it = parse_document("c.md", "---\ntitle: C\n---\n\nText.\n").nodes[0].node
    assert chunk_nodes([heading, empty, only_front_matter, below_it], count, SMALL) == [
        (Chunk(heading.id, Span(3, 4), "Guide > Title", "Guide > Title"),), (), (),
        (Chunk("c.md", Span(5, 5), "Text.", "C\nText."),),
    ]  # fmt: skip


def test_a_line_of_a_megabyte_is_cut_without_being_counted_whole() -> None:
    longest = 0

    def counter(texts: Sequence[str]) -> list[int]:
        nonlocal longest
        longest = max(longest, *map(len, texts), 0)
        return [1] * len(texts)

    chunks = chunk_node(section("x" * 1_000_000), counter, ChunkLengths())
    assert sum(chunk.text.count("x") for chunk in chunks) == 1_000_000
    assert longest <= 16 * 256


def test_an_overlong_breadcrumb_loses_its_outer_titles_visibly() -> None:
    titles = tuple(f"title number {number}" for number in range(5))
    (chunk,) = chunk_node(section("Text.\n", breadcrumb=titles, title="Own"), count, SMALL)
    assert chunk.embedded_text == "… title number 4 > Own\nText."
    assert count([chunk.embedded_text])[0] <= SMALL.max_tokens


WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=12), max_size=25)
MARKDOWN_LINES = st.one_of(
    st.sampled_from(["", "```", "~~~~", "- item", "  - inner", "1. one", "    code", "> quote", "***", "=====", "---"]),
    st.sampled_from(["| a | b |", "|---|---|", "| 1 | 2 |", "<!-- x", "-->", "<div>", "One. Two! Three?"]),
    WORDS.map(" ".join),
    st.integers(1, 200).map(lambda depth: "- " * depth + "deep"),
    st.integers(1, 3000).map(lambda length: "x" * length),
)
PAGES = st.lists(MARKDOWN_LINES, max_size=30).map("\n".join)


def characters(texts: Sequence[str]) -> list[int]:
    """A tokenizer at its worst: each character is a token, and nothing is free."""
    return [len(text) + 2 for text in texts]


@given(PAGES, st.sampled_from([count, characters]), st.integers(1, 60), st.integers(24, 80), st.integers(1, 9))
def test_nothing_is_lost_nothing_is_too_long_and_spans_are_right(
    page: str, counter: CountTokens, target: int, most: int, first: int
) -> None:
    node = section(page, first=first)
    chunks = chunk_node(node, counter, ChunkLengths(target, most))
    assert all(length <= most for length in counter([chunk.embedded_text for chunk in chunks]))
    assert all(chunk.text for chunk in chunks)
    for unit in node.units:
        held = [chunk.text for chunk in chunks if chunk.span.overlap(unit.span)]
        shown = iter(sign for text in held for sign in text)
        assert all(sign in shown for sign in unit.text if sign.isalnum())
