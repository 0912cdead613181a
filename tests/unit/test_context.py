"""Contexts of random documents: exact lines, none twice, never over the budget, every quotation in a fence."""

from dataclasses import replace
from itertools import groupby, pairwise
from operator import attrgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pageindex.document import parse_document
from pageindex.node import Node, Span
from retriever.answering.context import Piece, build_context
from retriever.display import code, sanitize
from retriever.errors import UsageError
from retriever.text import estimate_tokens
from retriever.types import Verdict

BLOCKS = (
    "Some words of prose.\nAnd a second line of it.",
    "```python\nprint('# no heading')\n```",
    "`````\n```` many backticks ```\n`````",
    "A line with a stray \x1b[31m sequence and a \u202e turn.",
    "- a list\n- of things\n\n",
    "~~~\n```\n~~~",
    "word " * 120,
)
VERDICTS: tuple[Verdict, ...] = ("answered", "weak", "none")


def make_piece(
    text: str, *units: Span, title: str = "A", file: str = "a.md", node_id: str = "a.md", first: int = 1, rank: int = 1
) -> Piece:
    span = Span(first, first + max(text.count("\n"), 1) - 1)
    passage = units[0] if units else span
    return Piece((title,), text, rank, passage, units, node_id=node_id, folder="/docs", file=file, span=span)


def make_hit(node: Node, rank: int) -> Piece:
    """A section whose middle line matched; each line is a unit."""
    assert node.span is not None
    lines = range(node.span.first, node.span.last + 1)
    matched = lines[len(lines) // 2]
    units = [Span(line, line) for line in sorted(lines, key=lambda line: (abs(line - matched), line))]
    return make_piece(node.text, *units, file=node.path, node_id=node.id, first=node.span.first, rank=rank)


@st.composite
def documents(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(BLOCKS)), min_size=1, max_size=8))
    texts = [
        f"{'#' * level} Title `{place}`\n\n{block}\n" if level else block for place, (level, block) in enumerate(parts)
    ]
    return "\n".join(texts) + draw(st.sampled_from(["", "\n", "\n\n"]))


@st.composite
def hits(draw: st.DrawFn) -> list[Piece]:
    """Sections of two documents, best first."""
    parsed = [parse_document(path, draw(documents())) for path in ("a.md", "b.md")]
    nodes = [placed.node for document in parsed for placed in document.nodes if placed.node.span]
    found = draw(st.permutations(nodes))[: draw(st.integers(0, len(nodes)))]
    return [make_hit(node, rank) for rank, node in enumerate(found, start=1)]


@settings(max_examples=80)
@given(hits(), st.integers(100, 900), st.sampled_from(VERDICTS))
def test_the_page_is_within_its_budget_and_quotes_exact_lines_once_in_fences(
    found: list[Piece], max_tokens: int, verdict: Verdict
) -> None:
    context = build_context(found, verdict, max_tokens)
    assert context.tokens == estimate_tokens(context.markdown) <= max_tokens
    texts = {piece.node_id: piece for piece in found}
    quoted = []
    for piece in context.pieces:
        section = texts[piece.node_id]
        lines = section.text.split("\n")[piece.span.first - section.span.first :][: len(piece.span)]
        assert piece.text == "".join(f"{line}\n" for line in lines)
        quoted += [(piece.file, line) for line in range(piece.span.first, piece.span.last + 1)]
    assert len(set(quoted)) == len(quoted)
    fences = [token.content for token in MarkdownIt().parse(context.markdown) if token.type == "fence"]
    assert fences == [sanitize(piece.text) for piece in context.pieces]
    assert sanitize(context.markdown) == context.markdown


@settings(max_examples=40)
@given(hits(), st.integers(100, 900))
def test_each_text_is_quoted_or_left_out_once(found: list[Piece], max_tokens: int) -> None:
    context = build_context(found, "answered", max_tokens)
    quoted = {piece.node_id for piece in context.pieces}
    left_out = {section.node_id for section in context.left_out}
    first = {section.text.strip(): section.node_id for section in reversed(found)}
    assert quoted | left_out == set(first.values())
    assert quoted.isdisjoint(left_out)


@settings(max_examples=40)
@given(hits())
def test_documents_stand_by_their_best_hit_and_pieces_in_document_order(found: list[Piece]) -> None:
    pieces = build_context(found, "answered", 100_000).pieces
    documents = [list(of_one) for _, of_one in groupby(pieces, key=attrgetter("file"))]
    assert len({of_one[0].file for of_one in documents}) == len(documents)
    best = [min(piece.rank for piece in of_one) for of_one in documents]
    assert best == sorted(best)
    for of_one in documents:
        assert all(one.span.last < other.span.first for one, other in pairwise(of_one))


def test_a_section_longer_than_the_budget_is_cut_around_its_passage() -> None:
    text = "".join(f"line {number} of a very long section\n" for number in range(1, 1001))
    units = [Span(101 + 10 * place, 110 + 10 * place) for place in range(96)]
    section = replace(make_piece(text, *units, first=101), passage=units[50])
    context = build_context([section], "answered", 1000)
    (piece,) = context.pieces
    assert piece.span.first <= 601 <= 610 <= piece.span.last
    assert piece.cut_from == Span(101, 1100)
    assert piece.text.startswith(f"line {piece.span.first - 100} of")
    assert f"`a.md:{piece.span}` `A`, cut: the section has the lines 101-1100" in context.markdown
    assert 850 < context.tokens <= 1000
    assert context.left_out == ()


def test_each_hit_is_quoted_before_the_first_is_quoted_whole() -> None:
    lines = [Span(number, number) for number in range(1, 101)]
    texts = {name: f"a line of {name}\n" * 100 for name in ("oak", "elm")}
    hits = [make_piece(text, *lines, file=name, rank=rank) for rank, (name, text) in enumerate(texts.items(), start=1)]
    assert build_context(hits, "answered", 300).left_out == ()


@pytest.mark.parametrize("edge", ["|", ""])
def test_rows_of_a_cut_table_come_with_the_names_of_its_columns(edge: str) -> None:
    rows = ["plant | blooms", "--- | ---", *(f"plant {number} | in month {number}" for number in range(1, 200))]
    text = "Plants of the garden:\n\n" + "".join(f"{edge}{row}{edge}\n" for row in rows)
    section = make_piece(text, Span(100, 100), Span(101, 102), Span(103, 213), first=11)
    pieces = build_context([section], "answered", 250).pieces
    assert [piece.citation for piece in pieces] == ["a.md:13-14", "a.md:100-102"]
    assert pieces[0].text == f"{edge}plant | blooms{edge}\n{edge}--- | ---{edge}\n"


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_page_without_room_is_within_the_least_budget_and_counts_what_is_left_out(verdict: Verdict) -> None:
    crowd = [
        make_piece(f"{number} " * 500, title="Title " * 30, file=f"{number}.md", rank=number)
        for number in range(1, 101)
    ]
    context = build_context(crowd, verdict, 100)
    assert context.tokens <= 100
    assert context.left_out == tuple(crowd)
    assert context.markdown.endswith("no room for them here: 100.\n")
    assert ("answers this" in context.markdown) == (verdict != "answered")


def test_a_smaller_budget_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 100 tokens, got 99"):
        build_context([], "none", 99)


@pytest.mark.parametrize("text", ["a", "`", "a `b` c", "``", "a\nb", "# x\x1b[0m", ""])
def test_a_code_span_is_one_line_that_holds_just_that_text(text: str) -> None:
    (inline,) = [token for token in MarkdownIt().parse(f"x {code(text)}") if token.type == "inline"]
    spans = [child.content for child in inline.children or () if child.type == "code_inline"]
    assert spans == ([sanitize(text).replace("\n", "\\x0a")] if text else [])
