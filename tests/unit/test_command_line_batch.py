"""Many questions in one process."""

import io
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from hybrid_retrieve import main
from retriever.command_line.ask import Question, read_questions
from retriever.errors import EncoderError, UsageError
from tests.answers import HIT, answer
from tests.fake_library import FakeLibrary

TWO = b'{"id": "a", "question": "first"}\n\n{"id": 7, "question": "second", "kind": "direct"}\n'


@pytest.fixture(autouse=True)
def _questions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("questions.jsonl").write_bytes(TWO)


def test_a_run_has_a_line_for_each_question_in_their_order(
    library: FakeLibrary, capsys: pytest.CaptureFixture[str]
) -> None:
    library.answers = [answer(), answer(HIT)]
    assert main(["--batch", "questions.jsonl", "--run", "hits.jsonl", "--top-k", "30"]) == 0
    hit = {"node_id": HIT.node_id, "file": "guide/mail.md", "start_line": 12, "end_line": 34, "score": 0.0312}
    lines = [json.loads(line) for line in Path("hits.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == [
        {"id": "a", "verdict": "none", "confidence": 0.0, "hits": []},
        {"id": 7, "verdict": "answered", "confidence": 0.875, "hits": [hit]},
    ]
    assert library.asked == ["first", "second"]
    assert library.opened[0]["settings"] == {"top_k": 30}
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "asked 2 questions; no section answers 1 of them\n"
    assert sorted(path.name for path in Path().iterdir()) == ["hits.jsonl", "questions.jsonl"]


def test_dashes_are_the_standard_streams(
    library: FakeLibrary, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TWO)))
    assert main(["--batch", "-", "--run", "-", "-q"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["a", 7]
    assert err == ""


def test_every_malformed_line_is_named_before_anything_runs(
    library: FakeLibrary, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        b'{"id": "a", "question": "fine"}',
        b"not json",
        b'["a", "b"]',
        b'{"question": "no id"}',
        b'{"id": true, "question": "no id"}',
        b'{"id": "b", "question": "  "}',
        b'{"id": "c", "question": 3}',
        b'{"id": "a", "question": "again"}',
        b'{"id": "d", "question": "\xff"}',
        b"[" * 100_000,
    ]
    Path("questions.jsonl").write_bytes(b"\n".join(lines))
    assert main(["--batch", "questions.jsonl", "--run", "hits.jsonl"]) == 2
    err = capsys.readouterr().err
    assert [line.split(":")[2] for line in err.splitlines()] == [str(number) for number in range(2, 11)]
    assert "the id 'a' stands in line 1 already" in err
    assert library.opened == []
    assert not Path("hits.jsonl").exists()


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_no_question_is_a_mistake(content: bytes) -> None:
    with pytest.raises(UsageError, match=r"questions.jsonl: holds no question"):
        read_questions(content, "questions.jsonl")


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    assert read_questions(b'\xef\xbb\xbf{"id": 1, "question": "q"}\r\n', "x") == [Question(1, "q")]


@pytest.mark.parametrize("error", [EncoderError("gone"), KeyboardInterrupt(), ValueError("bug")])
def test_a_failed_run_leaves_what_was_there(library: FakeLibrary, error: BaseException) -> None:
    Path("hits.jsonl").write_text("old", encoding="utf-8")
    library.error = error
    assert main(["--batch", "questions.jsonl", "--run", "hits.jsonl"]) in {1, 130}
    assert Path("hits.jsonl").read_text(encoding="utf-8") == "old"
    assert sorted(path.name for path in Path().iterdir()) == ["hits.jsonl", "questions.jsonl"]


def test_a_run_through_a_link_replaces_the_file_behind_it(library: FakeLibrary) -> None:
    Path("real.jsonl").write_text("old", encoding="utf-8")
    Path("link.jsonl").symlink_to("real.jsonl")
    assert main(["--batch", "questions.jsonl", "--run", "link.jsonl"]) == 0
    assert Path("link.jsonl").is_symlink()
    assert Path("real.jsonl").read_text(encoding="utf-8").count("\n") == 2


def test_a_device_is_written_not_replaced(library: FakeLibrary) -> None:
    assert main(["--batch", "questions.jsonl", "--run", os.devnull]) == 0
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--batch", "none.jsonl"], 2, "error: --batch: none.jsonl: cannot be read: No such file or directory"),
        (["--batch", "questions.jsonl", "--run", "no/hits.jsonl"], 1, "error: no/hits.jsonl: cannot be written"),
        (["--batch", "questions.jsonl", "--json"], 2, "leave out --json"),
        (["--batch", "questions.jsonl", "why?"], 2, "leave out the question"),
    ],
)
def test_what_cannot_be_batched(
    library: FakeLibrary, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert main(arguments) == code
    assert message in capsys.readouterr().err
    assert library.opened == []


def test_failing_on_none(library: FakeLibrary) -> None:
    library.answers = [answer(HIT), answer()]
    assert main(["--batch", "questions.jsonl", "--run", "hits.jsonl", "--fail-on-none"]) == 3
    assert Path("hits.jsonl").is_file()
