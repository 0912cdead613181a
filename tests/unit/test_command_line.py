"""What a command line means, and how it ends."""

import json
import re
import signal
import threading
from typing import Any, Literal, get_args, get_origin

import pytest

from retriever.command_line.program import main, note_interrupts
from retriever.errors import DocumentsError, IndexLockedError, NoIndexError, ProfileError, QuestionError
from retriever.retriever import Retriever
from retriever.settings.schema import Setting, list_settings, nest
from tests.answers import HIT, answer, hit
from tests.program import Cli
from tests.sample_library import Sample


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
def test_what_is_asked(library: Sample, arguments: list[str], question: str, cli: Cli) -> None:
    cli(*arguments)
    assert library.asked == [question]


@pytest.mark.parametrize("arguments", [["tree"], ["-q", "tree"], ["tree", "-q"], ["-v", "tree"]])
def test_a_bare_command_name_is_the_command(library: Sample, arguments: list[str], cli: Cli) -> None:
    assert "After the response  guide/mail.md:3-5" in cli(*arguments).out
    assert library.asked == []


def test_nothing_at_all_shows_the_help(cli: Cli) -> None:
    out, err = cli(code=2)
    assert out == ""
    assert "Examples:" in err


def test_h_is_help_everywhere(cli: Cli) -> None:
    for command in ((), ("ask",), ("index",)):
        assert cli(*command, "-h").out == cli(*command, "--help").out != ""


def test_what_is_opened(library: Sample, cli: Cli) -> None:
    cli("--docs", "a", "--docs", "b", "--index", "i", "--profile", "recall", "q")
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
def test_every_setting_has_a_flag(library: Sample, setting: Setting, cli: Cli) -> None:
    arguments, value = sample(setting)
    cli(*arguments, "q")
    assert library.opened[0]["settings"] == nest(setting.path, value)


def test_several_settings_of_one_section_stay_together(library: Sample, cli: Cli) -> None:
    cli("index", "docs", "--ignore", "a", "--documents-max-file-bytes", "9", "--encoder-kind", "none")
    expected = {"encoder": {"kind": "none"}, "documents": {"ignore": ("a",), "max_file_bytes": 9}}
    assert library.opened[0]["settings"] == expected


# A command line that cannot be meant, and what its one line says.
EMPTY = "error: the question is empty: write it in quotes"
MISUSED = [
    ([""], EMPTY), (["   "], EMPTY), (["\n\t"], EMPTY), (["ask"], EMPTY), (["--docs", "docs"], EMPTY),
    (["--index", "x", "status"], "error: status is a command, and a command comes first"),
    (["--top-k", "0", "q"], "--top-k"), (["--top-k", "ten", "q"], "--top-k"), (["--rrf-k", "nan", "q"], "--rrf-k"),
    (["--semantic-weight", "inf", "q"], "--semantic-weight"), (["--parent-decay", "1.5", "q"], "--parent-decay"),
    (["--neighbors", "some", "q"], "--neighbors"), (["--vector-topn", "5", "q"], "--vector-topn"),
    (["-x", "q"], "comes after --"), (["-q", "-v", "q"], "-q and -v are opposites"),
    (["--run", "out.jsonl", "q"], "--run goes with --batch"), (["--all", "--index", "a", "q"], "leave out --index"),
    (["--batch", "q.jsonl", "why?"], "leave out the question"), (["--batch", "q.jsonl", "--json"], "leave out --json"),
    (["--batch", "q.jsonl", "--server", "http://127.0.0.1:1"], "leave out --server"),
    (["--server", "http://127.0.0.1:1", "--top-k", "3", "q"], "leave out the settings"),
    (["--batch", "none.jsonl"], "error: none.jsonl: cannot be read: No such file or directory"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "says"), MISUSED, ids=str)
def test_what_cannot_be_meant_is_said_in_a_line(library: Sample, cli: Cli, arguments: list[str], says: str) -> None:
    out, err = cli(*arguments, code=2)
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert says in err
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
def test_how_an_error_ends(library: Sample, cli: Cli, error: BaseException, code: int, message: str) -> None:
    library.error = error
    out, err = cli("--json", "q", code=code)
    assert out == ""
    assert err.startswith(message)
    assert "Traceback" not in err
    assert "\x1b" not in err


def test_a_bug_is_traced_when_verbose(library: Sample, cli: Cli) -> None:
    library.error = ZeroDivisionError("why")
    err = cli("-v", "q", code=1).err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("error: this is a bug")


def test_nothing_found_is_no_error_unless_asked(library: Sample, cli: Cli) -> None:
    library.answers = [answer()]
    assert json.loads(cli("--json", "q").out)["hits"] == []
    out, err = cli("--fail-on-none", "q", code=3)
    assert out == ""
    assert err.startswith("nothing found: try other words")
    library.answers = [answer(HIT, verdict="none")]
    cli("--fail-on-none", "q", code=3)
    cli("q")
    library.answers = [answer(HIT, verdict="weak")]
    cli("--fail-on-none", "q")


def test_results_and_remarks_are_apart(library: Sample, cli: Cli) -> None:
    library.answers = [answer(HIT, degraded=("semantic: the model cannot be loaded",))]
    loud = cli("q")
    quiet = cli("-q", "q")
    assert loud.out == quiet.out
    assert quiet.err == ""
    first, last = loud.err.splitlines()
    assert first == "note: semantic: the model cannot be loaded"
    assert last.startswith("searched 1,203 sections of 155 files in /docs | balanced | ")


def test_what_is_read_is_inert_and_exact_for_programs(library: Sample, cli: Cli) -> None:
    out, err = cli("read", "odd.md:3")
    assert out == "a\tb\ufffd[31m\ufffdc\n"
    assert err.endswith("/docs/odd.md:3 | \ufffd]0;title\ufffd of it\n")
    assert json.loads(cli("read", "odd.md:3", "--json").out)["text"] == "a\tb\x1b[31m\u202ec\n"
    assert cli("tree", "odd.md#0title-of-it").out == "\ufffd]0;title\ufffd of it  odd.md:1-3\n"


def test_index_and_status_say_what_there_is(library: Sample, cli: Cli) -> None:
    out, err = cli("index", "docs", "--index", "i")
    assert re.match(r"indexed 2 files, 3 sections in \d\.\d s\n", out)
    assert err.startswith("skipped bad.md: ")
    assert library.opened == [{"docs": ("docs",), "index": "i", "profile": "balanced", "settings": {}}]
    out = cli("status").out
    assert "holds         2 files, 3 sections, 3 chunks (0% with a vector)\n" in out
    assert "freshness     up to date\n" in out
    assert re.search(r"size          .* kB, snapshot 1\n", out)


@pytest.mark.parametrize("command", ["q", "index docs", "tree", "read odd.md", "status", "profiles", "profiles fast"])
def test_json_is_one_object(library: Sample, cli: Cli, command: str) -> None:
    library.answers = [answer(hit(title="\u6771\u4eac\x1b"))]
    out = cli(*command.split(), "--json").out
    assert out.endswith("}\n")
    assert out.count("\n") == 1
    assert json.loads(out)["schema_version"] == 2
    assert next(iter(json.loads(out))) == "schema_version"


def half_loaded(*_: object, **__: object) -> Retriever:
    """As a native module that was interrupted while it was loaded."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise AttributeError("module 'native' has no attribute 'Fail'") from None
    raise AssertionError("it was not interrupted")


def test_another_error_that_it_becomes_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("retriever.api.open_retriever", half_loaded)
    assert main(["what is it?"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_it_is_ignored_it_stays_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with note_interrupts() as came:
            signal.raise_signal(signal.SIGINT)
        assert came == []
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_thread_has_none() -> None:
    outcomes: list[list[int]] = []

    def work() -> None:
        with note_interrupts() as came:
            outcomes.append(came)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert outcomes == [[]]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
