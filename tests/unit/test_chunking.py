"""Chunks of any text; tests/markdown_cases/chunks.md shows where usual ones are cut."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from retriever.indexing.chunk import CountTokens, chunk_nodes
from tests.fake_encoder import FakeEncoder
from tests.sections import make_node

count = FakeEncoder().count_tokens


def test_a_line_of_a_megabyte_is_cut_without_being_counted_whole() -> None:
    longest = 0

    def counter(texts: Sequence[str]) -> list[int]:
        nonlocal longest
        longest = max(longest, *map(len, texts), 0)
        return [1] * len(texts)

    (chunks,) = chunk_nodes([make_node("x" * 1_000_000)], counter)
    assert sum(chunk.text.count("x") for chunk in chunks) == 1_000_000
    assert longest <= 16 * 256


def test_an_overlong_breadcrumb_loses_its_outer_titles_visibly() -> None:
    titles = tuple(f"title number {number}" for number in range(5))
    node = make_node("Text.\n", title="Own", breadcrumb=titles)
    ((chunk,),) = chunk_nodes([node], count, 24, 8)
    assert chunk.text == "… title number 4 > Own\nText."
    assert count([chunk.text])[0] <= 24


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
    node = make_node(page, first=first)
    (chunks,) = chunk_nodes([node], counter, most, target)
    assert all(length <= most for length in counter([chunk.text for chunk in chunks]))
    assert all(chunk.text for chunk in chunks)
    for unit in node.units:
        held = [chunk.text for chunk in chunks if chunk.span.overlap(unit.span)]
        shown = iter(sign for text in held for sign in text)
        assert all(sign in shown for sign in unit.text if sign.isalnum())
