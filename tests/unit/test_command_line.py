"""What a command line means, and how it ends; the library behind it is a stand-in."""

import json
from dataclasses import replace
from typing import Any, Literal, get_args, get_origin

import pytest

from hybrid_retrieve import main
from retriever.errors import DocumentsError, IndexLockedError, NoIndexError, ProfileError, QuestionError
from retriever.settings.schema import Setting, list_settings, nest
from tests.answers import HIT, answer, hit
from tests.fake_library import FakeLibrary


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        (["how is it fused?"], "how is it fused?"),
        (["ask", "how is it fused?"], "how is it fused?"),
        (["how", "is", "it", "fused?"], "how is it fused?"),
        (["--top-k", "3", "how is it fused?"], "how is it fused?"),
        (["how is it fused?", "--top-k", "3"], "how is it fused?"),
        (["ask", "status"], "status"),
        (["-v", "ask", "status"], "status"),
        (["the status of an index"], "the status of an index"),
        (["--index", "x", "status of an index"], "status of an index"),
        (["--", "-q does what?"], "-q does what?"),
        (["' OR 1=1 {{}} $where *"], "' OR 1=1 {{}} $where *"),
    ],
)
def test_what_is_asked(library: FakeLibrary, arguments: list[str], question: str) -> None:
    assert main(arguments) == 0
    assert library.asked == [question]


@pytest.mark.parametrize("arguments", [["tree"], ["-q", "tree"], ["tree", "-q"], ["-v", "tree"]])
def test_a_bare_command_name_is_the_command(library: FakeLibrary, arguments: list[str]) -> None:
    assert main(arguments) == 0
    assert library.asked == []
    library.retriever.tree.assert_called_once_with("", None)


def test_a_command_behind_options_is_no_question(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--index", "x", "status"]) == 2
    assert library.asked == []
    assert capsys.readouterr().err.startswith("error: status is a command, and a command comes first")


@pytest.mark.parametrize("arguments", [[""], ["   "], ["\n\t"], ["ask"], ["--docs", "docs"]])
def test_an_empty_question_says_what_to_do(
    library: FakeLibrary, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: the question is empty: write it in quotes")
    assert library.opened == []


def test_nothing_at_all_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Examples:" in err


def test_what_is_opened(library: FakeLibrary) -> None:
    assert main(["--docs", "a", "--docs", "b", "--index", "i", "--profile", "recall", "q"]) == 0
    assert library.opened == [{"docs": ("a", "b"), "index": "i", "profile": "recall", "settings": {}}]


def sample(setting: Setting) -> tuple[list[str], Any]:
    """Arguments that set it to another value than its default, and that value."""
    kind = get_args(setting.type)[0] if get_args(setting.type) else setting.type
    if setting.type is bool:
        return [f"--no-{setting.flag[2:]}" if setting.default else setting.flag], not setting.default
    if get_origin(setting.type) is Literal:
        value: Any = next(choice for choice in get_args(setting.type) if choice != setting.default)
        return [setting.flag, value], value
    if get_origin(setting.type) is tuple:
        return [setting.flag, "x", setting.flag, "y"], ("x", "y")
    if kind is str:
        return [setting.flag, "x"], "x"
    value = kind(setting.default + 1) if setting.default > 1 or kind is int else kind(setting.default / 2 + 0.25)
    return [setting.flag, str(value)], value


@pytest.mark.parametrize("setting", list(list_settings()), ids=lambda setting: setting.key)
def test_every_setting_has_a_flag(library: FakeLibrary, setting: Setting) -> None:
    arguments, value = sample(setting)
    assert main([*arguments, "q"]) == 0
    assert library.opened[0]["settings"] == nest(setting.path, value)


def test_several_settings_of_one_section_stay_together(library: FakeLibrary) -> None:
    assert main(["index", "docs", "--ignore", "a", "--documents-max-file-bytes", "9", "--encoder-kind", "none"]) == 0
    expected = {"encoder": {"kind": "none"}, "documents": {"ignore": ("a",), "max_file_bytes": 9}}
    assert library.opened[0]["settings"] == expected


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--top-k", "0"], "--top-k"),
        (["--top-k", "-1"], "--top-k"),
        (["--top-k", "ten"], "--top-k"),
        (["--top-k", "1.5"], "--top-k"),
        (["--rrf-k", "0"], "--rrf-k"),
        (["--rrf-k", "nan"], "--rrf-k"),
        (["--semantic-weight", "inf"], "--semantic-weight"),
        (["--parent-decay", "1.5"], "--parent-decay"),
        (["--neighbors", "some"], "--neighbors"),
        (["--vector-topn", "5"], "--vector-topn"),
        (["-x"], "-x"),
        (["-q", "-v"], "-q"),
        (["--run", "out.jsonl"], "--run"),
        (["--batch", "questions.jsonl"], "--batch"),
    ],
)
def test_a_wrong_flag_is_named(
    library: FakeLibrary, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    assert main([*arguments, "q"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert named in err
    assert library.opened == []


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (NoIndexError("none yet; begin with: hybrid_retrieve.py index FOLDER"), 1, "error: none yet; begin with"),
        (DocumentsError("docs: holds no document"), 1, "error: docs: holds no document\n"),
        (IndexLockedError("locked by process 7"), 1, "error: locked by process 7\n"),
        (QuestionError("nothing to read in it"), 2, "error: nothing to read in it\n"),
        (ProfileError(("a.yaml: x: bad", "a.yaml: y: bad")), 2, "error: a.yaml: x: bad\nerror: a.yaml: y: bad\n"),
        (PermissionError(13, "Permission denied", "secret"), 1, "error: [Errno 13] Permission denied: 'secret'\n"),
        (EOFError("no data left"), 1, "error: this is a bug, please report it with the output of -v: EOFError("),
        (ZeroDivisionError("\x1b[2J"), 1, "error: this is a bug, please report it with the output of -v: ZeroDiv"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_how_an_error_ends(
    library: FakeLibrary, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, message: str
) -> None:
    library.error = error
    assert main(["--json", "q"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(message)
    assert "Traceback" not in err
    assert "\x1b" not in err


def test_a_bug_is_traced_when_verbose(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    library.error = ZeroDivisionError("why")
    assert main(["-v", "q"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("error: this is a bug")


def test_nothing_found_is_no_error_unless_asked(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    library.answers = [answer()]
    assert main(["--json", "q"]) == 0
    assert json.loads(capsys.readouterr().out)["hits"] == []
    assert main(["--fail-on-none", "q"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("nothing found: try other words")
    library.answers = [answer(HIT, verdict="none")]
    assert main(["--fail-on-none", "q"]) == 3
    assert main(["q"]) == 0
    library.answers = [answer(HIT, verdict="weak")]
    assert main(["--fail-on-none", "q"]) == 0


def test_results_and_remarks_are_apart(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    library.answers = [answer(HIT, degraded=("semantic: the model cannot be loaded",))]
    assert main(["q"]) == 0
    loud = capsys.readouterr()
    assert main(["-q", "q"]) == 0
    quiet = capsys.readouterr()
    assert loud.out == quiet.out
    assert quiet.err == ""
    first, last = loud.err.splitlines()
    assert first == "note: semantic: the model cannot be loaded"
    assert last.startswith("searched 1,203 sections of 155 files in /docs | balanced | ")


def test_read_prints_the_text_alone(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    library.retriever.read.return_value = replace(library.retriever.read.return_value, text="a\tb\x1b[31m\r\u202ec\n")
    assert main(["read", HIT.node_id]) == 0
    out, err = capsys.readouterr()
    assert out == "a\tb\ufffd[31m\ufffd\ufffdc\n"
    assert err == "/docs/guide/mail.md:12-34 | Mail > After the response\n"
    assert main(["read", HIT.node_id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "a\tb\x1b[31m\r\u202ec\n"


def test_tree_is_inert(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    library.retriever.tree.return_value = "/\n  a\x1b]0;title\x07.md"
    assert main(["tree", "guide", "--depth", "2"]) == 0
    assert capsys.readouterr().out == "/\n  a\ufffd]0;title\ufffd.md\n"
    library.retriever.tree.assert_called_once_with("guide", 2)


def test_index_names_what_it_skipped(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", "docs", "--index", "i"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "indexed 155 files, 1,203 sections in 4.1 s"
    assert err == "skipped bad.md: it holds NUL bytes\n"
    assert library.opened == [{"docs": ("docs",), "index": "i", "profile": "balanced", "settings": {}}]


def test_status_says_what_it_found(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    out = capsys.readouterr().out
    assert "holds         155 files, 1,203 sections, 3,204 chunks (100% with a vector)\n" in out
    assert "freshness     up to date\n" in out
    assert "size          22.9 MB, snapshot 7\n" in out


@pytest.mark.parametrize("command", ["ask q", "index docs", "tree", "read x", "status", "profiles", "profiles fast"])
def test_json_is_one_object(library: FakeLibrary, capsys: pytest.CaptureFixture[str], command: str) -> None:
    library.answers = [answer(hit(title="\u6771\u4eac\x1b"))]
    assert main([*command.split(), "--json"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("}\n")
    assert out.count("\n") == 1
    assert json.loads(out)["schema_version"] == 2
    assert next(iter(json.loads(out))) == "schema_version"
