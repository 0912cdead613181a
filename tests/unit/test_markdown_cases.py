"""Pages of Markdown with the outline, units or HTML that they must have; see `tests/markdown_cases/README.md`."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet  # the type of pytest.param, which pytest does not export

from pageindex.dialects import get_dialect
from pageindex.document import Document, parse_document
from pageindex.formats import decode
from pageindex.links import LinkKind
from pageindex.node import Node, Span
from pageindex.units import Unit
from retriever.serving.web.section_html import RenderOptions, render_markdown

CASES = Path(__file__).parents[1] / "markdown_cases"
CASE = re.compile(
    r"^## (.+?)\n.*?^`{9} markdown ?(\w*)\n(.*?)^`{9}\n"
    r"(?:\n+`{9} outline\n(.*?)^`{9}\n)?(?:\n+`{9} units\n(.*?)^`{9}\n)?(?:\n+`{9} html ?(\S*)\n(.*?)^`{9}$)?",
    re.DOTALL | re.MULTILINE,
)
INVISIBLE = {"→": "\t", "␍": "\r", "ⓑ": "\ufeff", "␊": "\u2028", "␌": "\f", "⎵": " ", "∎\n": ""}


def cases() -> Iterator[ParameterSet]:
    for page in sorted(CASES.glob("*.md")):
        for name, dialect, *page_and_made in CASE.findall(page.read_text("utf-8")):
            yield pytest.param(dialect or "commonmark", *page_and_made, id=f"{page.stem}: {name}")


@pytest.mark.parametrize(("dialect", "markdown", "outline", "units", "lines", "html"), list(cases()))
def test_page(dialect: str, markdown: str, outline: str, units: str, lines: str, html: str) -> None:
    for shown, meant in INVISIBLE.items():
        markdown = markdown.replace(shown, meant)
    text = decode(markdown.encode())[0]
    document = parse_document("page.md", text, dialect=dialect)
    assert outline in ("", drawn(document))
    assert units in ("", listed(document))
    assert html in ("", render_excerpt(text, dialect, lines))
    assert "".join(placed.node.text for placed in document.nodes) == text


def render_excerpt(text: str, dialect: str, lines: str) -> str:
    """Return what the page shows of lines `first-last`, which are the passage; of all without lines."""
    first, last = map(int, lines.split("-")) if lines else (1, None)
    passage = Span(first, last) if last else None
    shown = first - 1, last
    options = RenderOptions(dialect=get_dialect(dialect), resolve=resolve, passage=passage, shown=shown)
    return render_markdown(text, options)


def resolve(kind: LinkKind, path: str, anchor: str) -> str | None:
    return None if path == "missing" or ":" in path else f"/read?{path},{anchor}"


def drawn(document: Document) -> str:
    depths: dict[str | None, int] = {None: -1}
    lines = []
    for placed in document.nodes:
        depths[placed.node.id] = depths[placed.parent_id] + 1
        lines.append(f"{placed.node.span or '-'!s:<6}{'  ' * depths[placed.node.id]}{described(placed.node)}")
    for source, link in document.links:
        arrow = "=>" if link.kind is LinkKind.WIKILINK else "->"
        anchor = f"#{link.anchor}" if link.anchor else ""
        lines.append(f"link {link.line} in {source} {arrow} {link.target_path}{anchor}")
    lines += [f"field {key}: {value}" for key, value in document.fields]
    lines += [f"warning: {warning}" for warning in document.warnings]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def listed(document: Document) -> str:
    return "".join(f"{describe(unit)}\n" for placed in document.nodes for unit in placed.node.units)


def describe(unit: Unit) -> str:
    """`item 3 term| lead / text`"""
    return f"{unit.kind.value} {unit.span} {unit.term}| {unit.lead}{' / ' if unit.lead else ''}{unit.text}"


def described(node: Node) -> str:
    fragment = node.id.partition("#")[2]
    if not fragment:
        return node.title
    anchor = "" if node.anchor == fragment.rpartition("/")[2] else f" anchor {node.anchor}"
    return f"{'#' * node.level} {node.title} ({fragment}){anchor}"
