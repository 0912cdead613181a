"""Many questions in one process."""

import io
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from retriever.errors import EncoderError
from tests.answers import HIT, answer
from tests.program import Cli
from tests.sample_library import Sample

TWO = b'{"id": "a", "question": "first"}\n\n{"id": 7, "question": "second", "kind": "direct"}\n'


@pytest.fixture(autouse=True)
def _questions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("questions.jsonl").write_bytes(TWO)


def test_a_run_has_a_line_for_each_question_in_their_order(library: Sample, cli: Cli) -> None:
    library.answers = [answer(), answer(HIT)]
    out, err = cli("--batch", "questions.jsonl", "--run", "hits.jsonl", "--top-k", "30")
    hit = {"node_id": HIT.node_id, "file": "guide/mail.md", "start_line": 12, "end_line": 34, "score": 0.0312}
    lines = [json.loads(line) for line in Path("hits.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == [
        {"id": "a", "verdict": "none", "confidence": 0.0, "hits": []},
        {"id": 7, "verdict": "answered", "confidence": 0.875, "hits": [hit]},
    ]
    assert library.asked == ["first", "second"]
    assert library.opened[0]["settings"] == {"top_k": 30}
    assert out == ""
    assert err == "asked 2 questions; no section answers 1 of them\n"
    assert sorted(path.name for path in Path().iterdir()) == ["hits.jsonl", "questions.jsonl"]


def test_a_batch_whose_questions_all_fail_says_so(library: Sample, cli: Cli) -> None:
    lines = ('{"id": 1, "question": "mail in:nowhere"}\n', '{"id": 2, "question": "since:soon"}\n')
    Path("questions.jsonl").write_text("".join(lines))
    printed = cli("--batch", "questions.jsonl", "-q", code=2)
    assert printed.err.startswith("error: --batch: questions.jsonl: none of the questions can be asked: ")
    assert ["error" in json.loads(line) for line in printed.out.splitlines()] == [True, True]
    Path("questions.jsonl").write_text("".join((*lines, '{"id": 3, "question": "mail"}\n')))
    assert "; 2 could not be asked" in cli("--batch", "questions.jsonl").err


def test_dashes_are_the_standard_streams(library: Sample, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TWO)))
    out, err = cli("--batch", "-", "--run", "-", "-q")
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["a", 7]
    assert err == ""


def test_every_malformed_line_is_named_before_anything_runs(library: Sample, cli: Cli) -> None:
    lines = [
        b'{"id": "a", "question": "fine"}', b"not json", b'["a", "b"]', b'{"question": "no id"}',
        b'{"id": true, "question": "no id"}', b'{"id": "b", "question": "  "}', b'{"id": "c", "question": 3}',
        b'{"id": "a", "question": "again"}', b'{"id": "d", "question": "\xff"}', b"[" * 100_000,
    ]  # fmt: skip
    Path("questions.jsonl").write_bytes(b"\n".join(lines))
    err = cli("--batch", "questions.jsonl", "--run", "hits.jsonl", code=2).err
    assert [line.split(":")[2] for line in err.splitlines()] == [str(number) for number in range(2, 11)]
    assert "the id 'a' stands in line 1 already" in err
    assert library.opened == []
    assert not Path("hits.jsonl").exists()


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_no_question_is_a_mistake(library: Sample, content: bytes, cli: Cli) -> None:
    Path("questions.jsonl").write_bytes(content)
    assert "questions.jsonl: holds no question" in cli("--batch", "questions.jsonl", code=2).err


def test_a_byte_order_mark_and_windows_line_ends_are_read(library: Sample, cli: Cli) -> None:
    Path("questions.jsonl").write_bytes(b'\xef\xbb\xbf{"id": 1, "question": "q"}\r\n')
    assert json.loads(cli("--batch", "questions.jsonl").out)["id"] == 1


@pytest.mark.parametrize("error", [EncoderError("gone"), KeyboardInterrupt(), ValueError("bug")])
def test_a_failed_run_leaves_what_was_there(library: Sample, error: BaseException, cli: Cli) -> None:
    Path("hits.jsonl").write_text("old", encoding="utf-8")
    library.error = error
    cli("--batch", "questions.jsonl", "--run", "run.jsonl", code={1, 130})
    cli("--batch", "questions.jsonl", "--run", "hits.jsonl", code=2)
    assert Path("hits.jsonl").read_text(encoding="utf-8") == "old"
    assert sorted(path.name for path in Path().iterdir()) == ["hits.jsonl", "questions.jsonl"]


def test_a_run_goes_into_a_device_and_through_no_link(library: Sample, cli: Cli) -> None:
    Path("real.jsonl").write_text("old", encoding="utf-8")
    Path("link.jsonl").symlink_to("real.jsonl")
    cli("--batch", "questions.jsonl", "--run", "link.jsonl", code=2)
    assert Path("link.jsonl").is_symlink()
    assert Path("real.jsonl").read_text(encoding="utf-8") == "old"
    cli("--batch", "questions.jsonl", "--run", os.devnull)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_run_that_cannot_be_written_opens_no_index(library: Sample, cli: Cli) -> None:
    assert "no/hits.jsonl: cannot be written" in cli("--batch", "questions.jsonl", "--run", "no/hits.jsonl", code=1).err
    assert library.opened == []


def test_failing_on_none(library: Sample, cli: Cli) -> None:
    library.answers = [answer(HIT), answer()]
    cli("--batch", "questions.jsonl", "--run", "hits.jsonl", "--fail-on-none", code=3)
    assert Path("hits.jsonl").is_file()
