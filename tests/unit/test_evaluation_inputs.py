"""Files of questions: every mistake is named with its line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from retriever.errors import UsageError
from retriever.evaluation.questions import Gold, Question, read_questions
from scripts.make_questions import main

GOLD = {"file": "a.md", "start_line": 3, "end_line": 9}


def write(path: Path, *lines: object) -> Path:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_questions_with_gold_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path / "set.jsonl",
        {"id": "7", "question": "why?", "kind": "direct", "gold": [GOLD], "style": "plain"},
        "",
        {"id": "x", "question": "is it?", "gold": []},
    )
    questions = read_questions(path)
    assert questions.name == "set"
    first, second = questions.questions
    assert first == Question("7", "why?", (Gold("a.md", 3, 9),), "direct")
    assert not second.is_answerable


def test_every_malformed_line_is_named(tmp_path: Path) -> None:
    path = write(
        tmp_path / "set.jsonl", {"id": "1", "question": "fine", "gold": []}, "not json",
        {"id": "1", "question": "again", "gold": []}, {"id": "2", "question": " ", "gold": []},
        {"id": "3", "question": "q"}, {"id": "4", "question": "q", "gold": [{**GOLD, "end_line": 2}]},
        {"id": "5", "question": "q", "gold": [{**GOLD, "start_line": "3"}]},
        {"id": True, "question": "q", "gold": []}, "[]",
    )  # fmt: skip
    with pytest.raises(UsageError) as caught:
        read_questions(path)
    lines = str(caught.value).splitlines()
    assert [line.removeprefix(f"{path}:").split(":")[0] for line in lines] == [str(number) for number in range(2, 10)]
    for part in (
        "Invalid JSON", "a line above already", "4: question: ", "5: gold: Field required", "not a span",
        "7: gold.0.start_line: Input should be a valid integer",
    ):  # fmt: skip
        assert part in str(caught.value)


@pytest.mark.parametrize("name", ["missing.jsonl", "empty.jsonl", "latin.jsonl"])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    (tmp_path / "latin.jsonl").write_bytes('{"id": "é"}'.encode("latin-1"))
    with pytest.raises(UsageError, match=name):
        read_questions(tmp_path / name)


GUIDE = """# Guide

Intro.

## Drying wild mushrooms

Slice them thinly, and lay them on a rack in a warm and airy room for two days, or in an oven at forty degrees
for six hours. How long they keep afterwards is told in [the page on storage](storage.md#keeping-dried-food).

## Usage

Short words in the title ask nothing, even when the section goes on and on for more than twenty words, as this one does
by saying nothing much at all.

## Keeping a long title without text

Too short.
"""


def test_the_script_prints_what_eval_reads(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text(GUIDE, encoding="utf-8")
    (tmp_path / "docs" / "bad.md").write_bytes(b"\0\0")
    done = CliRunner().invoke(main, [str(tmp_path / "docs")])
    assert done.exit_code == 0
    assert "skipped bad.md" in done.stderr
    (question,) = read_questions(write(tmp_path / "questions.jsonl", *done.stdout.splitlines())).questions
    assert (question.kind, question.question) == ("heading", "Drying wild mushrooms")
    assert question.gold == (Gold("guide.md", 5, 9),)
