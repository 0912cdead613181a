"""Properties of every document: no line is lost, no id comes twice, headings are CommonMark's."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pageindex.document import parse_document
from pageindex.files import CorpusOptions, list_files, read_document
from pageindex.front_matter import read_front_matter
from pageindex.markdown import count_lines, parse_markdown, read_blocks
from pageindex.text import with_lf

CORPORA = Path(__file__).parents[2] / "../shared/eval/corpora"

# fmt: off
LINES = st.sampled_from([
    "# One", "## Two ##", "### Three {#id}", "###### Six", "#", "#no", "Title", "===", "---", "text",
    "text *x* `y`", "- item", "- # in item", "* x", "1. one", "  - deeper", "    indented", "\ttab", "> quote",
    "> # in quote", ">> two", "```", "````md", "~~~", "<div>", "</div>", "<!-- c", "-->", "<b>x</b>", "***",
    "+++", "[r]: a.md", "[a](b.md) [[n#h]]", "", "  ", "| a |", "title: x", "...", "[", "`", "\\", "é ü\u2028z",
    "- - - x", "1) y", "_ _ _", "<pre>", "</pre>", "a | b", "|-|-|", "> a | b", "> -|-", "  a | b", "  -|-",
])
# fmt: on
TEXTS = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\n", "\n\n", "\r\n", "\r", ""])), max_size=30).map(
    lambda lines: with_lf("".join(line + end for line, end in lines))
)
FULL_PARSER = MarkdownIt("commonmark", {"maxNesting": 200})
"""CommonMark with inline rules; its default of 20 levels drops what is deeper, headings after it included."""


@given(st.one_of(TEXTS, TEXTS.map("---\ntitle: x\n---\n".__add__), st.text(max_size=60).map(with_lf)))
def test_spans_partition_the_lines(text: str) -> None:
    nodes = [placed.node for placed in parse_document("a/b.md", text).nodes]
    spans = [node.span for node in nodes if node.span]
    covered = [line for span in spans for line in range(span.first, span.last + 1)]
    assert covered == list(range(1, count_lines(text) + 1))
    assert "".join(node.text for node in nodes) == text
    assert all(count_lines(node.text) == (len(node.span) if node.span else 0) for node in nodes)


@given(st.one_of(TEXTS, TEXTS.map("---\ntitle: x\n---\n".__add__), TEXTS.map("---\n[\n---\n".__add__)))
@example("a | b\n--|--\n1 | 2\n===\n\n# After\n")  # a heading to CommonMark, a table where blocks are cut
@example("- " * 12 + "x\n\ntext\n\n# After\n")
def test_blocks_are_those_of_each_body_read_by_itself(text: str) -> None:
    for node in [placed.node for placed in parse_document("a.md", text).nodes if placed.node.span]:
        assert node.span is not None
        assert node.blocks == read_blocks(node.body, node.span.first + node.front_matter_lines)


@given(TEXTS)
def test_ids_and_anchors_are_unique_and_parents_come_first(text: str) -> None:
    placed = parse_document("a.md", text).nodes
    ids = [item.node.id for item in placed]
    anchors = [item.node.anchor for item in placed]
    assert len(set(ids)) == len(ids)
    assert len(set(anchors)) == len(anchors)
    assert all(item.parent_id in ids[:position] for position, item in enumerate(placed) if position)


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


@given(TEXTS, st.integers(min_value=0, max_value=60))
def test_links_stand_in_the_line_that_they_name(text: str, position: int) -> None:
    lines = text.split("\n")
    lines[min(position, len(lines) - 1)] += " [marked](marked.md)"
    for _, link in parse_document("a.md", "\n".join(lines)).links:
        if link.target_path == "marked.md":
            assert "[marked]" in lines[link.line - 1]


def corpus_texts() -> list[tuple[str, str]]:
    if not CORPORA.is_dir():
        return []
    files = list_files(CORPORA, CorpusOptions(ignore=("LICENSE*",))).files
    return [(file.path, read_document(file).text) for file in files]


@pytest.mark.slow
@pytest.mark.skipif(not CORPORA.is_dir(), reason="the evaluation data is not here")
def test_headings_of_real_documents() -> None:
    texts = corpus_texts()
    assert len(texts) > 200
    assert [path for path, text in texts if our_headings(text) != full_headings(text)] == []


def our_headings(text: str) -> list[tuple[int, int]]:
    return [(heading.level, heading.line) for heading in parse_markdown(text).headings]


def full_headings(text: str) -> list[tuple[int, int]]:
    """(level, line) of each top-level heading; front matter is blanked first."""
    count = read_front_matter(text).lines
    body = "\n" * count + "".join(text.split("\n", count)[count:])
    tokens = FULL_PARSER.parse(body)
    return [
        (int(token.tag[1]), (token.map or [0])[0] + 1)
        for token in tokens
        if is_document_heading(token.type, token.level)
    ]


def is_document_heading(kind: str, level: int) -> bool:
    return kind == "heading_open" and level == 0
