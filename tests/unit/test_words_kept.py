"""No word of a text is lost: what is quoted stands in its lines, and what stands there is quoted."""

import html
import re
from pathlib import Path

import pytest

from pageindex.dialects import COMMONMARK
from pageindex.document import parse_document
from pageindex.node import UnitKind
from tests.program import PROJECT
from tests.tables import read_table

WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    return WORD.findall(html.unescape(text))


def find_missing(sought: list[str], held: list[str]) -> str:
    """The first word that does not stand behind those before it; empty where all do."""
    rest = iter(held)
    return next((word for word in sought if word not in rest), "")


@pytest.mark.parametrize("text", read_table("lines", "Paragraphs as people write them"))
def test_a_plain_paragraph_is_quoted_word_by_word(text: str) -> None:
    (node,) = (placed.node for placed in parse_document("a.md", f"{text}\n").nodes)
    assert words(" ".join(unit.text for unit in node.units)) == words(text)
    assert node.shown_text is None  # all of it is searched


@pytest.mark.parametrize("folder", ["docs", "tests/eval_corpus", "benchmarks/data/lines", "tests/data/languages"])
def test_what_is_quoted_of_documents_stands_in_the_cited_lines(folder: str) -> None:
    for file in (PROJECT / folder).rglob("*.md"):
        check_units(file)


def check_units(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    lines = text.split("\n")
    for placed in parse_document(file.name, text, dialect=COMMONMARK.name).nodes:
        for unit in placed.node.units:
            if unit.kind in (UnitKind.FIELD, UnitKind.PROPERTY):  # a property may be a cell with its column's name
                continue
            cited = "\n".join(lines[unit.span.first - 1 : unit.span.last])
            joined = "".join(words(cited))  # `Enum`s is one word to a reader
            missing = find_missing(words(unit.text), words(cited))
            assert missing == "" or missing in joined or "[!" in cited, (file, unit.span, missing)


def test_a_comment_in_a_table_of_html_is_not_searched() -> None:
    (node,) = (placed.node for placed in parse_document("a.md", "<table><tr><td>a<!-- b --></td></tr></table>\n").nodes)
    assert node.shown_text == "<table><tr><td>a</td></tr></table>\n"
