"""Long texts with few headings: where they are divided, what their parts are called, and what is found in them."""

from pathlib import Path

import pytest

from pageindex.document import Document, parse_document
from pageindex.outline import MAX_SECTION_CHARS, PART_CHARS
from tests.shelf import open_pages

WORDS = ("letters", "stamps", "parcels", "trains", "bridges", "lanterns", "harbours", "orchards", "mills", "wells")


def paragraph(number: int) -> str:
    return "\n".join(f"Sentence {number}.{place} speaks of {word}." for place, word in enumerate(WORDS))


LONG = "\n\n".join(map(paragraph, range(80)))


def parts_of(text: str) -> list[tuple[str, str]]:
    """(id, title) of the parts of a document; what holds of all of them is checked."""
    document = parse_document("long.md", text)
    texts = [placed.node.text for placed in document.nodes]
    assert "".join(texts) == text, "the nodes are the document's lines, in their order"
    parts = [placed.node for placed in document.nodes if placed.node.is_part]
    assert all(node.level == 7 and node.span and node.title.endswith("…") for node in parts)
    assert len({node.id for node in parts}) == len({node.anchor for node in parts}) == len(parts)
    return [(node.id, node.title) for node in parts]


def sizes(document: Document) -> list[int]:
    return [len(placed.node.text) for placed in document.nodes]


def test_a_text_of_usual_length_stays_whole() -> None:
    assert parts_of("# Mail\n\n" + LONG[: MAX_SECTION_CHARS - 10]) == []
    assert parts_of("\n\n".join(f"## Day {day}\n\n{paragraph(day)}" for day in range(200))) == []


def test_a_long_text_is_divided_between_its_paragraphs() -> None:
    parts = parts_of(LONG)
    assert parts[2] == (
        "long.md#sentence-300-speaks-of-letters-sentence-301-speaks-of",
        "Sentence 30.0 speaks of letters. Sentence 30.1 speaks of…",
    )
    document = parse_document("long.md", LONG)
    assert all(PART_CHARS / 2 <= size <= PART_CHARS + len(paragraph(0)) + 10 for size in sizes(document))
    assert {placed.parent_id for placed in document.nodes[1:]} == {"long.md"}
    assert document.nodes[1].node.summary.startswith("Sentence 10.0 speaks of letters. Sentence 10.1")


def test_headings_stay_what_they_are() -> None:
    """They have their ids, their anchors and their parents, with what was divided above them."""
    first = parse_document("long.md", LONG).nodes[1].node
    text = f"# Mail\n\n{LONG}\n\n### Rates\n\n[back](#mail)\n\n# Train\n\n{LONG}\n\n## {first.title}\n\nword\n"
    document = parse_document("long.md", text)
    headings = [placed for placed in document.nodes if 0 < placed.node.level < 7]
    assert [(placed.node.id, placed.parent_id) for placed in headings] == [
        ("long.md#mail", "long.md"),
        ("long.md#mail/rates", "long.md#mail"),
        ("long.md#train", "long.md"),
        (f"long.md#train/{first.anchor}~2", "long.md#train"),
    ]
    assert headings[-1].node.anchor == first.anchor, "a link means the heading"
    assert [holder for holder, _ in document.links] == ["long.md#mail/rates"]
    parts_of(text)


@pytest.mark.parametrize(
    ("line", "lines_each"),
    [("Anna: word {} and a few more of them, as people talk", 1), ("- the item {}\n  and its second line", 2)],
)
def test_a_transcript_or_a_list_without_an_empty_line(line: str, lines_each: int) -> None:
    text = "".join(f"{line.format(number)}\n" for number in range(1_000))
    assert len(parts_of(text)) > 5
    nodes = [placed.node for placed in parse_document("long.md", text).nodes]
    assert all(node.span and (node.span.first - 1) % lines_each == 0 for node in nodes), "no item is cut"
    assert max(len(node.text) for node in nodes) < PART_CHARS * 1.6


@pytest.mark.parametrize("around", ["```\n{}```\n", "| a | b |\n|---|---|\n{}", "{}"])
def test_code_tables_and_one_endless_line_are_not_cut(around: str) -> None:
    rows = {"{}": "word " * 10_000}.get(around, "| some | row |\n" * 2_000)
    assert parts_of(around.format(rows)) == []


def test_front_matter_is_no_part() -> None:
    text = f"---\ntitle: Mail\n---\n\n{LONG}\n"
    document = parse_document("long.md", text)
    assert (document.title, document.nodes[0].node.front_matter_lines) == ("Mail", 3)
    assert parts_of(text) == parts_of(LONG)


def test_several_places_of_one_long_text_are_found(tmp_path: Path) -> None:
    pages = {"long.md": LONG.replace("Sentence 11.4", "The quixotic keeper 11.4").replace("Sentence 66.1", "Quixotic")}
    with open_pages(tmp_path, pages) as retriever:
        answer = retriever.search("quixotic")
        assert sorted(hit.passage.first for hit in answer.hits[:2] if hit.passage) == [122, 727]
        whole = retriever.read("long.md")
        assert whole.text.rstrip() == pages["long.md"]
