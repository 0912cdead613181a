"""The first words of a node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pageindex.document import parse_document
from pageindex.markdown import References
from pageindex.summary import extractive_summary


def summary(text: str, *titles: str, max_chars: int = 420) -> str:
    return extractive_summary(text, titles, References(), max_chars)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One *two* `x_y`.\nThree [four](a.md){.internal}.\n\nFive.", "One two x_y. Three four. Five."),
        ("```py\ncode\n```\nText.\n~~~\nmore", "Text."),
        ("````\n```\nstill code\n````\nText.", "Text."),
        ("Before.\n\n    code\n\nAfter.", "Before. After."),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\nText.", "Text."),
        ("a | b\n--- | ---\n1 | 2\n\nText.", "Text."),
        ("<!-- a\n\nb --> Text. <!-- c -->", "Text."),
        ("![alt](x.png)\n\n[![badge](b.svg)](c)\n\nText.", "Text."),
        ("/// note | Title\n\nText.\n\n///\n\n{* ../docs_src/a.py *}", "Text."),
        (":::tip\nText.\n:::", "Text."),
        ("> [!NOTE] Title\n> Quoted.", "Quoted."),
        ("!!! tip\n\n    Indented.", ""),
        ("{{#include a.rs}}\n\n[r]: a.md\n\n***\n\nText.", "Text."),
        ("import A from './a'\nexport const x = 1\n\nText.", "Text."),
        ("import what you need from it.", "import what you need from it."),
        ("For example:\n\n- one\n- [ ] two\n\n  more of two\n1. three", "For example: one; two; more of two; three"),
        ("<details>\n<summary>Open</summary>\n\nText.", "Open; Text."),
        ("日本語。二つ目。", "日本語。 二つ目。"),
        ("", ""),
    ],
)
def test_prose_alone(text: str, expected: str) -> None:
    assert summary(text) == expected


def test_cut_at_a_sentence_or_else_at_a_word() -> None:
    assert summary("First one. Second one. Third.", max_chars=25) == "First one. Second one."
    assert summary("A sentence that goes on and on.", max_chars=20) == "A sentence that…"
    assert summary("x" * 30, max_chars=20) == "x" * 19 + "…"


def test_titles_of_children_speak_for_a_node_without_prose() -> None:
    assert summary("```\ncode\n```", "Install", "", "Use it") == "Install; Use it"
    assert summary("Text.", "Install") == "Text."
    assert summary("", "Alpha", "Beta", "Gamma", max_chars=12) == "Alpha; Beta"


def test_nodes_of_a_document() -> None:
    text = "---\ntitle: x\n---\n\n# Title\nof two lines\n===\n\nProse of [it][r].\n\n## Sub\n\n## Other\n\n[r]: a.md\n"
    nodes = [placed.node for placed in parse_document("a.md", text.replace("# Title", "Title")).nodes]
    assert [node.summary for node in nodes] == ["Title of two lines", "Prose of it.", "", ""]


@given(st.text(alphabet="ab. `*[]()<>!|#-\n\t~:é。", max_size=200), st.integers(min_value=1, max_value=60))
def test_never_longer_than_asked_for_and_on_one_line(text: str, max_chars: int) -> None:
    found = summary(text, "a title", max_chars=max_chars)
    assert len(found) <= max_chars
    assert "\n" not in found
