"""Questions out of documents: a page of Markdown, and what it asks."""

import json
from pathlib import Path

import pytest

from hybrid_retrieve import main
from pageindex.document import parse_document
from retriever.evaluation.formats import read_questions
from retriever.evaluation.own_questions import format_question, make_own_questions, sample

GUIDE = """# Guide

Intro.

## Drying wild mushrooms

Slice them thinly, and lay them on a rack in a warm and airy room for two days, or in an oven at forty degrees
for six hours. How long they keep afterwards is told in [the page on storage](storage.md#keeping-dried-food).

- [the page on storage](storage.md)

## Usage

Short words in the title ask nothing, even when the section goes on and on for more than twenty words, as this one does
by saying nothing much at all.

## Keeping a long title without text

Too short.
"""

STORAGE = """# Storage

## Keeping dried food

Dried food keeps for a year in a jar that closes well, away from light, and longer in a freezer. Look at it every month,
and throw away what smells; the [[guide|mushrooms of the guide]] must be broken before they bend.
"""


def made() -> list[dict[str, object]]:
    documents = [parse_document("guide.md", GUIDE), parse_document("storage.md", STORAGE)]
    return [json.loads(format_question(question)) for question in make_own_questions(documents)]


def test_headings_and_links_ask() -> None:
    assert [(item["kind"], item["question"]) for item in made()] == [
        ("heading", "Drying wild mushrooms"),
        ("heading", "Keeping dried food"),
        ("link", "How long they keep afterwards is told in the page on storage."),
        (
            "link",
            "Look at it every month, and throw away what smells; the mushrooms of the guide must be broken before "
            "they bend.",
        ),
    ]


def test_the_gold_is_what_a_link_leads_to_and_its_own_section_is_left_out() -> None:
    _, _, to_section, to_file = made()
    assert to_section["gold"] == [{"file": "storage.md", "start_line": 3, "end_line": 6}]
    assert to_section["exclude"] == [{"file": "guide.md", "start_line": 5, "end_line": 11}]
    assert to_file["gold"] == [{"file": "guide.md", "start_line": 1, "end_line": 4}]


def test_a_sample_keeps_the_order_and_is_always_the_same() -> None:
    questions = make_own_questions([parse_document("guide.md", GUIDE), parse_document("storage.md", STORAGE)])
    assert sample(questions, 10) == questions
    two = sample(questions, 2)
    assert two == [question for question in questions if question in two]
    assert set(sample(questions, 1)) <= set(two), "fewer are a part of more"


def test_the_command_writes_what_eval_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "guide.md").write_text(GUIDE, encoding="utf-8")
    (docs / "storage.md").write_text(STORAGE, encoding="utf-8")
    (docs / "bad.md").write_bytes(b"\0\0")
    out = tmp_path / "questions.jsonl"
    assert main(["questions", str(docs), "--out", str(out), "--limit", "3"]) == 0
    assert len(read_questions(out).questions) == 3
    error = capsys.readouterr().err
    assert "made 3 questions of 4" in error
    assert "skipped bad.md" in error
    assert main(["questions", str(docs)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_wishes_that_cannot_be_met(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["questions", str(tmp_path / "missing")]) == 1
    (tmp_path / "a.md").write_text("Nothing to ask.\n")
    assert main(["questions", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "no heading or link of it makes a question" in error
