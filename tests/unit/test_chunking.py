import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.markdown import BlockKind, read_blocks
from pageindex.node import Node, NodeKind, Span
from retriever.errors import EncoderError
from retriever.indexing.chunk import ChunkPiece, CountTokens, chunk_nodes, split
from retriever.settings.schema import ChunkSettings
from retriever.types import Chunk
from tests.fake_encoder import FakeEncoder

SMALL = ChunkSettings(target_tokens=8, max_tokens=24)
count = FakeEncoder().count_tokens


def section(text: str, *, title: str = "Title", breadcrumb: tuple[str, ...] = ("Guide",), first: int = 1) -> Node:
    span = Span(first, first + text.rstrip("\n").count("\n"))
    return Node("guide.md#title", NodeKind.SECTION, "guide.md", title, 2, breadcrumb, span, text)


def chunk_node(node: Node, counter: CountTokens, settings: ChunkSettings) -> tuple[Chunk, ...]:
    return chunk_nodes([node], counter, settings)[0]


def lines_of(chunks: Sequence[Chunk]) -> list[tuple[str, str]]:
    return [(str(chunk.span), chunk.text) for chunk in chunks]


def test_small_blocks_are_put_together_and_the_title_is_said_once() -> None:
    node = section("## Title {#t}\n\nOne two.\n\nThree four.\n\nFive six seven eight.\n", first=11)
    assert chunk_node(node, count, SMALL) == (
        Chunk(
            node.id, Span(11, 15), "## Title {#t}\n\nOne two.\n\nThree four.", "Guide > Title\nOne two.\n\nThree four."
        ),
        Chunk(node.id, Span(17, 17), "Five six seven eight.", "Guide > Title\nFive six seven eight."),
    )


def test_a_heading_alone_is_one_chunk_and_a_node_without_body_has_none() -> None:
    heading = section("Title\n=====\n\n", first=3)
    empty = Node("a.md", NodeKind.FILE, "a.md", "A", 0, (), None, "")
    only_front_matter = Node("b.md", NodeKind.FILE, "b.md", "B", 0, (), Span(1, 3), "---\nx: 1\n---\n", 3)
    assert chunk_nodes([heading, empty, only_front_matter], count, SMALL) == [
        (Chunk(heading.id, Span(3, 4), "Title\n=====", "Guide > Title"),),
        (),
        (),
    ]


def test_a_text_without_blocks_is_one_chunk() -> None:
    """As of a node whose maker, not Markdown's parser, says what its blocks are."""
    node = replace(section("Some text.\nAnd more.\n"), blocks=())
    assert lines_of(chunk_node(node, count, SMALL)) == [("1-2", "Some text.\nAnd more.")]


def test_front_matter_is_left_out_and_its_lines_are_counted() -> None:
    node = Node("a.md", NodeKind.FILE, "a.md", "A", 0, (), Span(1, 5), "---\nx: 1\n---\n\nText.\n", 3)
    assert chunk_node(node, count, SMALL) == (Chunk("a.md", Span(5, 5), "Text.", "A\nText."),)


def test_a_block_is_kept_whole_while_it_fits() -> None:
    code = "```python\none = two\n\nthree = four\n```"
    node = section(f"Before it one two three.\n\n{code}\n\nAfter it one two three.\n")
    assert lines_of(chunk_node(node, count, SMALL)) == [
        ("1", "Before it one two three."),
        ("3-7", code),
        ("9", "After it one two three."),
    ]


def test_long_code_is_cut_at_blank_lines_first() -> None:
    node = section("```\na = b + c + d\ne = f + g + h\n\ni = j + k + l\nm = n + o + p\n```\n")
    assert lines_of(chunk_node(node, count, SMALL)) == [
        ("1-3", "```\na = b + c + d\ne = f + g + h"),
        ("5-7", "i = j + k + l\nm = n + o + p\n```"),
    ]


def test_a_split_table_repeats_its_header() -> None:
    rows = "".join(f"| {word} | {word} |\n" for word in ("one", "two", "three", "four"))
    node = section(f"| a | b |\n|---|---|\n{rows}")
    settings = ChunkSettings(target_tokens=22, max_tokens=32)
    header = "| a | b |\n|---|---|\n"
    assert lines_of(chunk_node(node, count, settings)) == [
        ("1-3", f"{header}| one | one |"),
        ("4", f"{header}| two | two |"),
        ("5", f"{header}| three | three |"),
        ("6", f"{header}| four | four |"),
    ]


def test_a_header_of_more_than_half_a_chunk_is_not_repeated() -> None:
    header = "| one two three four five six seven eight |\n|---|\n"
    node = section(f"{header}| nine ten |\n| eleven twelve |\n")
    chunks = chunk_node(node, count, SMALL)
    assert [chunk.text for chunk in chunks] == [f"{header}| nine ten |", "| eleven twelve |"]


def test_a_long_list_is_cut_at_its_items_the_outermost_first() -> None:
    beta = "- beta one two three four\n  seven eight nine ten"
    node = section(f"- alpha one two three\n  - inner four five six\n{beta}\n- gamma one two\n")
    assert lines_of(chunk_node(node, count, ChunkSettings(target_tokens=10, max_tokens=20))) == [
        ("1-2", "- alpha one two three\n  - inner four five six"),
        ("3-4", beta),
        ("5", "- gamma one two"),
    ]


def test_a_long_paragraph_is_cut_at_sentences_then_between_words_then_inside_one() -> None:
    sentences = "First sentence here. Second sentence is here. " + "word " * 30
    chunks = chunk_node(section(sentences + "\n"), count, ChunkSettings(target_tokens=10, max_tokens=20))
    assert chunks[0].text == "First sentence here. Second sentence is here."
    assert {str(chunk.span) for chunk in chunks} == {"1"}
    assert re.findall("word", " ".join(chunk.text for chunk in chunks[1:])) == ["word"] * 30

    by_characters = ChunkSettings(target_tokens=20, max_tokens=40)
    chunks = chunk_node(section("x" * 100 + "\n"), lambda texts: [len(text) for text in texts], by_characters)
    assert "".join(chunk.text for chunk in chunks) == "x" * 100


def test_a_line_of_a_megabyte_is_cut_without_being_counted_whole() -> None:
    longest = 0

    def counter(texts: Sequence[str]) -> list[int]:
        nonlocal longest
        longest = max(longest, *map(len, texts), 0)
        return [1] * len(texts)

    chunks = chunk_node(section("x" * 1_000_000), counter, ChunkSettings())
    assert "".join(chunk.text for chunk in chunks) == "x" * 1_000_000
    assert longest <= 16 * 256


def test_an_overlong_breadcrumb_loses_its_outer_titles_visibly() -> None:
    titles = tuple(f"title number {number}" for number in range(5))
    (chunk,) = chunk_node(section("Text.\n", breadcrumb=titles, title="Own"), count, SMALL)
    assert chunk.embedded_text == "… > title number 3 > title number 4 > Own\nText."
    assert count([chunk.embedded_text])[0] <= SMALL.max_tokens


def test_a_title_that_had_to_be_cut_is_said_in_full_by_the_text() -> None:
    title = " ".join(f"w{number}" for number in range(40))
    chunks = chunk_node(section(f"# {title}\n\nText.\n", title=title), count, SMALL)
    assert all(re.match(r"w0 .*…\n", chunk.embedded_text) for chunk in chunks)
    said = " ".join(chunk.embedded_text.partition("\n")[2] for chunk in chunks)
    assert said.split() == ["#", *title.split(), "Text."]


def test_what_the_parser_drops_or_has_no_token_for_is_kept() -> None:
    nested = "".join("  " * depth + f"- level{depth}\n" for depth in range(40))
    text = f"Para.\n\n[one]: http://a.example\n[two]: http://b.example\n\n{nested}"
    chunks = chunk_node(section(text), count, ChunkSettings())
    assert all(f"level{depth}\n" in "\n".join([*(c.text for c in chunks), ""]) for depth in range(40))
    assert [piece.kind for piece in pieces(text)] == [BlockKind.PARAGRAPH, BlockKind.DEFINITIONS, BlockKind.LIST]


def test_where_links_lead_is_not_read_by_the_encoder() -> None:
    text = "Read [the page][one] first.\n\n[one]: a.md#alpha\n[two]: b.md\n\nThen [two].\n\n[three]: c.md\n"
    assert [(chunk.text, str(chunk.span)) for chunk in chunk_node(section(text), count, ChunkSettings())] == [
        ("Read [the page][one] first.", "1"),
        ("Then [two].", "6"),
    ]
    alone = chunk_node(section("[one]: a.md\n"), count, ChunkSettings())
    assert [chunk.embedded_text for chunk in alone] == ["Guide > Title"]
    footnote = chunk_node(section("[^1]: Alpha\n"), count, ChunkSettings())
    assert [chunk.text for chunk in footnote] == ["[^1]: Alpha"]


def test_a_tokenizer_whose_counts_do_not_add_up_is_believed_at_the_end() -> None:
    def more_than_its_parts(texts: Sequence[str]) -> list[int]:
        return [len(text.split()) + (5 if ">" in text and "\n" in text else 0) for text in texts]

    node = section("one two three four five six seven eight nine ten eleven twelve thirteen\n")
    settings = ChunkSettings(target_tokens=16, max_tokens=16)
    chunks = chunk_node(node, more_than_its_parts, settings)
    assert len(chunks) == 2
    assert max(more_than_its_parts([chunk.embedded_text for chunk in chunks])) <= 16
    assert " ".join(chunk.text for chunk in chunks) == node.text.strip()


def test_what_cannot_be_cut_is_an_error() -> None:
    with pytest.raises(EncoderError, match="make chunks longer"):
        chunk_node(section("text\n"), lambda texts: [100 if text else 2 for text in texts], SMALL)
    with pytest.raises(ValueError, match="single character"):
        split("x", pieces("x")[0])


def pieces(page: str) -> list[ChunkPiece]:
    """The blocks of a page from character to character, each with the blank lines after it."""
    blocks = read_blocks(page)
    lines = page.split("\n")
    starts = [len("\n".join([*lines[: block.line - 1], ""])) for block in blocks]
    ends = pairwise([*starts, len(page)])
    return [ChunkPiece(start, end, block.kind) for (start, end), block in zip(ends, blocks, strict=True)]


def without_definitions(page: str) -> str:
    """The page with blanks where the definitions of its links are."""
    found = pieces(page)
    texts = [page[piece.start : piece.end] for piece in found]
    return page[: found[0].start if found else len(page)] + "".join(
        re.sub(r"[^\n]", " ", text) if piece.kind is BlockKind.DEFINITIONS else text
        for piece, text in zip(found, texts, strict=True)
    )


WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=12), max_size=25)
MARKDOWN_LINES = st.one_of(
    st.sampled_from(["", "```", "~~~~", "- item", "  - inner", "1. one", "    code", "> quote", "***", "=====", "---"]),
    st.sampled_from(
        ["| a | b |", "|---|---|", "| 1 | 2 |", "<!-- x", "-->", "<div>", "[a]: http://x", "One. Two! Three?"]
    ),
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
    chunks = chunk_node(node, counter, ChunkSettings(target, most))
    assert all(length <= most for length in counter([chunk.embedded_text for chunk in chunks]))
    lines, shown = page.split("\n"), without_definitions(page)
    place = 0
    for chunk in chunks:
        covered = "\n".join(lines[chunk.span.first - first : chunk.span.last - first + 1])
        own = chunk.text if chunk.text in covered else chunk.text.split("\n", 2)[2]
        assert own in covered
        assert own.strip()
        line = len("\n".join([*lines[: chunk.span.first - first], ""]))  # its words may stand in a definition before
        found = page.index(own, max(place, line))
        assert not shown[place:found].strip()
        place = found + len(own)
    assert not shown[place:].strip()


@given(st.lists(PAGES, max_size=4))
def test_many_nodes_give_what_each_gives_alone(pages: list[str]) -> None:
    nodes = [
        Node(f"{number}.md", NodeKind.FILE, "a.md", f"Page {number}", 0, (), Span(1, page.count("\n") + 1), page)
        for number, page in enumerate(pages)
    ]
    assert chunk_nodes(nodes, count, SMALL) == [chunk_node(node, count, SMALL) for node in nodes]
