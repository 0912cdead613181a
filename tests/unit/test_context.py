"""Contexts of random documents: exact lines, none twice, never over the budget, every quotation in a fence."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pageindex.document import parse_document
from pageindex.node import Node, Span
from retriever.answering.context import Piece, build_context, load_token_counter
from retriever.display import phrases
from retriever.display.phrases import code, sanitize
from retriever.errors import UsageError
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


@dataclass(frozen=True)
class Found:
    texts: Mapping[str, str]
    nodes: Mapping[str, Node]
    hits: tuple[str, ...]
    """Node ids, best first."""

    @property
    def sections(self) -> list[Piece]:
        return [section_of(self.nodes[node_id], rank) for rank, node_id in enumerate(self.hits, start=1)]


def cite(
    node_id: str, folder: str, file: str, span: Span, titles: tuple[str, ...], text: str, rank: int, *spans: Span
) -> Piece:
    return Piece(titles, text, rank, spans, node_id=node_id, folder=folder, file=file, span=span)


def section_of(node: Node, rank: int) -> Piece:
    assert node.span is not None
    lines = range(node.span.first, node.span.last + 1)
    matched = lines[len(lines) // 2]
    spans = tuple(Span(line, line) for line in sorted(lines, key=lambda line: (abs(line - matched), line)))
    titles = (*node.breadcrumb, node.title)
    return cite(node.id, "/docs", node.path, node.span, titles, node.text, rank, *spans)


@st.composite
def documents(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(BLOCKS)), min_size=1, max_size=8))
    texts = [
        f"{'#' * level} Title `{place}`\n\n{block}\n" if level else block for place, (level, block) in enumerate(parts)
    ]
    return "\n".join(texts) + draw(st.sampled_from(["", "\n", "\n\n"]))


@st.composite
def founds(draw: st.DrawFn) -> Found:
    texts = {f"{name}.md": draw(documents()) for name in "ab"}
    parsed = [parse_document(path, text) for path, text in texts.items()]
    nodes = {placed.node.id: placed.node for document in parsed for placed in document.nodes if placed.node.span}
    hits = draw(st.permutations(list(nodes)))[: draw(st.integers(0, len(nodes)))]
    return Found(texts, nodes, tuple(hits))


def words(text: str) -> int:
    return len(text.split())


@settings(max_examples=80)
@given(founds(), st.integers(100, 900), st.sampled_from(VERDICTS))
def test_the_page_is_within_its_budget_and_quotes_exact_lines_once_in_fences(
    found: Found, max_tokens: int, verdict: Verdict
) -> None:
    context = build_context(found.sections, verdict, max_tokens, words)
    assert context.tokens == words(context.markdown) <= max_tokens
    for piece in context.pieces:
        lines = found.texts[piece.file].split("\n")[piece.span.first - 1 : piece.span.last]
        assert piece.text == "".join(f"{line}\n" for line in lines)
    lines_of_all = [
        (piece.file, line) for piece in context.pieces for line in range(piece.span.first, piece.span.last + 1)
    ]
    assert len(set(lines_of_all)) == len(lines_of_all)
    fences = [token.content for token in MarkdownIt().parse(context.markdown) if token.type == "fence"]
    assert fences == [sanitize(piece.text) for piece in context.pieces]
    assert sanitize(context.markdown) == context.markdown
    quoted = {piece.node_id for piece in context.pieces}
    left_out = [section.node_id for section in context.left_out]
    first = {section.text.strip(): section.node_id for section in reversed(found.sections)}  # each text once
    assert set(first.values()) == quoted | set(left_out)
    assert quoted.isdisjoint(left_out)


@settings(max_examples=40)
@given(founds())
def test_documents_stand_by_their_best_hit_and_pieces_in_document_order(found: Found) -> None:
    pieces = build_context(found.sections, "answered", 100_000, words).pieces
    documents = [list(of_one) for _, of_one in groupby(pieces, key=attrgetter("file"))]
    assert len({of_one[0].file for of_one in documents}) == len(documents)
    best = [min(piece.rank for piece in of_one) for of_one in documents]
    assert best == sorted(best)
    for of_one in documents:
        assert all(one.span.last < other.span.first for one, other in pairwise(of_one))


def long_section() -> Piece:
    lines = [f"line {number} of a very long section" for number in range(1, 1001)]
    around = sorted(range(96), key=lambda place: abs(place - 50))
    spans = tuple(Span(101 + 10 * place, 110 + 10 * place) for place in around)
    text = "".join(f"{line}\n" for line in lines)
    return cite("long.md", "/docs", "long.md", Span(101, 1100), ("Long",), text, 1, *spans)


def test_a_section_longer_than_the_budget_is_cut_around_its_chunk() -> None:
    context = build_context([long_section()], "answered", 400, words)
    (piece,) = context.pieces
    assert piece.span.first <= 601 <= 610 <= piece.span.last
    assert piece.cut_from == Span(101, 1100)
    assert piece.text.startswith(f"line {piece.span.first - 100} of")
    assert f"`long.md:{piece.span}` `Long`, cut: the section has the lines 101-1100" in context.markdown
    assert 330 < context.tokens <= 400
    assert context.left_out == ()


@pytest.mark.parametrize("edge", ["|", ""])
def test_rows_of_a_cut_table_come_with_the_names_of_its_columns(edge: str) -> None:
    rows = ["plant | blooms", "--- | ---", *(f"plant {number} | in month {number}" for number in range(1, 200))]
    text = "Plants of the garden:\n\n" + "".join(f"{edge}{row}{edge}\n" for row in rows)
    spans = (Span(100, 100), Span(101, 102), Span(103, 213))
    section = cite("a.md", "/d", "a.md", Span(11, 213), ("Plants",), text, 1, *spans)
    pieces = build_context([section], "answered", 250, words).pieces
    assert [piece.citation for piece in pieces] == ["a.md:13-14", "a.md:100-102"]
    assert pieces[0].text == f"{edge}plant | blooms{edge}\n{edge}--- | ---{edge}\n"


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    section = cite("a.md", "/d", "a.md", Span(1, 1), ("A",), "word " * 500, 1, Span(1, 1))
    context = build_context([section], "answered", 100, words)
    assert context.pieces == ()
    assert context.left_out == (section,)
    assert context.markdown.endswith("no room for them here: 1.\n")


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_page_without_room_is_within_the_least_budget(verdict: Verdict) -> None:
    crowd = [
        cite(f"{number}.md", "/d", f"{number}.md", Span(1, 1), ("Title " * 30,), f"{number} " * 500, number)
        for number in range(1, 101)
    ]
    context = build_context(crowd, verdict, 100, load_token_counter())
    assert context.tokens <= 100
    assert len(context.left_out) == 100
    with pytest.raises(UsageError, match="at least 100 tokens, got 99"):
        build_context([], verdict, 99, load_token_counter())


def test_the_verdict_is_said_first_and_nothing_found_is_said() -> None:
    doubted = build_context([long_section()], "none", 400, words).markdown
    assert doubted.split("\n")[2] == phrases.VERDICTS["none"]
    assert build_context([long_section()], "answered", 400, words).markdown.split("\n")[2].startswith("## ")
    assert build_context([], "none", 400, words).markdown == "No section of the documents was found for the question.\n"


@pytest.mark.parametrize("text", ["a", "`", "a `b` c", "``", "a\nb", "# x\x1b[0m", ""])
def test_a_code_span_is_one_line_that_holds_just_that_text(text: str) -> None:
    (inline,) = [token for token in MarkdownIt().parse(f"x {code(text)}") if token.type == "inline"]
    spans = [child.content for child in inline.children or () if child.type == "code_inline"]
    assert spans == ([sanitize(text).replace("\n", "\\x0a")] if text else [])
