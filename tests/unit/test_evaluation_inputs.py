"""Files of questions: every mistake is named with its line."""

import json
from pathlib import Path

import pytest

from retriever.errors import UsageError
from retriever.evaluation.measures import Gold, Question, read_questions

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
