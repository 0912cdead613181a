"""No word of a text is lost: what is quoted stands in its lines, and what stands there is quoted."""

import html
import re

import pytest

from pageindex.document import parse_document
from pageindex.node import UnitKind
from pageindex.units import show_block
from tests.program import PROJECT
from tests.tables import read_table

WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    return WORD.findall(html.unescape(text))


def find_missing(sought: str, held: str) -> list[str]:
    """Return the words of a text that another lacks, in which words may touch: `Enum`s is one to a reader."""
    joined = "".join(words(held))
    return [word for word in words(sought) if word not in joined]


@pytest.mark.parametrize("text", read_table("lines", "Paragraphs as people write them"))
def test_a_plain_paragraph_is_quoted_word_by_word(text: str) -> None:
    (node,) = (placed.node for placed in parse_document("a.md", f"{text}\n").nodes)
    assert words(" ".join(unit.in_full for unit in node.units)) == words(text)


@pytest.mark.parametrize("folder", ["docs", "tests/eval_corpus", "benchmarks/data/lines", "tests/data/languages"])
def test_what_documents_say_is_quoted_and_stands_in_the_cited_lines(folder: str) -> None:
    for file in (PROJECT / folder).rglob("*.md"):
        text = file.read_text("utf-8")
        lines = text.split("\n")
        for node in (placed.node for placed in parse_document(file.name, text).nodes):
            quoted = " ".join((node.title, *(unit.in_full for unit in node.units)))
            assert not find_missing(" ".join(map(show_block, node.blocks)), quoted), (file, node.span)
            for unit in node.units:
                if unit.kind in (UnitKind.FIELD, UnitKind.PROPERTY):  # a property may be a cell with its column's name
                    continue
                cited = "\n".join(lines[unit.span.first - 1 : unit.span.last])
                assert "[!" in cited or not find_missing(unit.text, cited), (file, unit.span)


def test_a_comment_in_a_table_of_html_is_not_searched() -> None:
    (node,) = (placed.node for placed in parse_document("a.md", "<table><tr><td>a<!-- b --></td></tr></table>\n").nodes)
    assert node.shown_text == "a"
