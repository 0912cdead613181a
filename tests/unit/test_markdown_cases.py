"""Pages of Markdown with what must be made of them; see `tests/markdown_cases/README.md`."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet  # the type of pytest.param, which pytest does not export

from pageindex.dialects import get_dialect
from pageindex.document import Document, parse_document
from pageindex.formats import decode
from pageindex.links import LinkKind
from pageindex.node import Node, Span, Unit
from retriever.indexing.chunk import chunk_nodes
from retriever.serving.section_html import RenderOptions, cut_lines, render_markdown, widen
from tests.fake_encoder import FakeEncoder

CASES = Path(__file__).parents[1] / "markdown_cases"
PART = re.compile(r"^## ([^\n]+)$|^`{9} (\w+) ?([^\n]*)\n(.*?)^`{9}$", re.DOTALL | re.MULTILINE)
INVISIBLE = {"→": "\t", "␍": "\r", "ⓑ": "\ufeff", "␊": "\u2028", "␌": "\f", "⎵": " ", "∎\n": ""}
Fence = tuple[str, str, str]
"""Its content, what stands behind it, and its text."""


def cases() -> Iterator[ParameterSet]:
    for page in sorted(CASES.glob("*.md")):
        fences: dict[str, list[Fence]] = {}
        for heading, *fence in PART.findall(page.read_text("utf-8")):
            if heading:
                case = fences[heading] = []
            else:
                case.append(fence)
        yield from (pytest.param(found, id=f"{page.stem}: {name}") for name, found in fences.items())


@pytest.mark.parametrize("fences", list(cases()))
def test_page(fences: Sequence[Fence]) -> None:
    (_, dialect, markdown), *made = fences
    dialect = dialect or "commonmark"
    for shown, meant in INVISIBLE.items():
        markdown = markdown.replace(shown, meant)
    text = decode(markdown.encode())[0]
    document = parse_document("page.md", text, dialect=dialect)
    assert "".join(placed.node.text for placed in document.nodes) == text
    show: dict[str, Callable[[str], str]] = {
        "outline": lambda _: draw(document),
        "units": lambda _: list_units(document),
        "chunks": lambda lengths: list_chunks(document, lengths),
        "html": lambda lines: render_excerpt(document, text, dialect, lines),
    }
    assert made
    for kind, given, expected in made:
        assert show[kind](given) == expected


def list_chunks(document: Document, lengths: str) -> str:
    """Return `first-last text` of each chunk; lengths are those to fill and not to exceed, in words."""
    target, most = map(int, lengths.split())
    nodes = [placed.node for placed in document.nodes]
    made = chain(*chunk_nodes(nodes, FakeEncoder().count_tokens, most, target))
    return "".join(f"{chunk.span} {chunk.text.partition(chr(10))[2] or chunk.text}\n" for chunk in made)


def render_excerpt(document: Document, text: str, dialect: str, lines: str) -> str:
    """Return what the page shows of lines `first-last`; of all without lines."""
    if lines:
        units = list(chain.from_iterable(placed.node.units for placed in document.nodes))
        span = widen(Span(*map(int, lines.split("-"))), units)
        text = cut_lines(text.split("\n"), span.first - 1, span.last)
    return render_markdown(text, RenderOptions(dialect=get_dialect(dialect), resolve=resolve))


def resolve(kind: LinkKind, path: str, anchor: str) -> str | None:
    return None if path == "missing" or ":" in path else f"/read?{path},{anchor}"


def draw(document: Document) -> str:
    depths: dict[str | None, int] = {None: -1}
    lines = []
    for placed in document.nodes:
        depths[placed.node.id] = depths[placed.parent_id] + 1
        lines.append(f"{placed.node.span or '-'!s:<6}{'  ' * depths[placed.node.id]}{describe_node(placed.node)}")
    for source, link in document.links:
        arrow = "=>" if link.kind is LinkKind.WIKILINK else "->"
        anchor = f"#{link.anchor}" if link.anchor else ""
        lines.append(f"link {link.line} in {source} {arrow} {link.target_path}{anchor}")
    lines += [f"field {key}: {value}" for key, value in document.fields]
    lines += [f"warning: {warning}" for warning in document.warnings]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def list_units(document: Document) -> str:
    return "".join(f"{describe(unit)}\n" for placed in document.nodes for unit in placed.node.units)


def describe(unit: Unit) -> str:
    """`item 3 term| lead / text`"""
    return f"{unit.kind.value} {unit.span} {unit.term}| {unit.lead}{' / ' if unit.lead else ''}{unit.text}"


def describe_node(node: Node) -> str:
    fragment = node.id.partition("#")[2]
    if not fragment:
        return node.title
    anchor = "" if node.anchor == fragment.rpartition("/")[2] else f" anchor {node.anchor}"
    return f"{'#' * node.level} {node.title} ({fragment}){anchor}"
