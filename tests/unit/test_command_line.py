"""The meaning of a command line, and how it ends; tests/output_cases/refused.md shows what is refused."""

import json
import shlex
import sys

import pytest

from retriever.errors import IndexLockedError, name_program
from tests.answers import HIT, answer
from tests.program import Cli
from tests.sample_library import Sample
from tests.tables import read_table


@pytest.mark.parametrize(("arguments", "question"), read_table("command_lines", "What is asked"))
def test_what_is_asked(library: Sample, arguments: str, question: str, cli: Cli) -> None:
    cli(*shlex.split(arguments))
    assert library.asked == [question]


def test_the_short_name_is_named_where_it_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["/nowhere/bin/hr"])
    assert name_program() == "/nowhere/bin/hr"


def test_help_has_many_names(cli: Cli) -> None:
    assert cli().out == cli("help").out == cli("-h").out == cli("--help").out


def test_what_is_opened(library: Sample, cli: Cli) -> None:
    cli("--docs", "a", "--docs", "b", "--index", "i", "--profile", "recall", "q")
    assert library.opened == [{"docs": ("a", "b"), "index": "i", "profile": "recall", "settings": {}}]
    cli("index", "docs", "--index", "i")
    assert library.opened[1] == {"docs": ("docs",), "index": "i", "profile": "balanced", "settings": {}}


@pytest.mark.parametrize(("arguments", "settings"), read_table("command_lines", "A flag and its setting"))
def test_a_flag_sets_its_setting(library: Sample, cli: Cli, arguments: str, settings: str) -> None:
    cli(*shlex.split(arguments), "q")
    assert json.loads(json.dumps(library.opened[0]["settings"])) == json.loads(settings)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (IndexLockedError("locked by process 7"), 1, "error: locked by process 7\n"),
        (PermissionError(13, "Permission denied", "secret"), 1, "error: [Errno 13] Permission denied: 'secret'\n"),
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
    verbose = cli("-v", "q", code=code).err
    assert "Traceback" in verbose
    assert verbose.endswith(err)


def test_results_and_remarks_are_apart(library: Sample, cli: Cli) -> None:
    library.answers = [answer(HIT, degraded=("semantic: the model cannot be loaded",))]
    loud, quiet = cli("q"), cli("-q", "q")
    assert loud.out == quiet.out
    assert quiet.err == ""
    first, last = loud.err.splitlines()
    assert first == "note: semantic: the model cannot be loaded"
    assert last.startswith("searched 1,203 sections of 155 files in /docs | balanced | ")


def test_no_llm_means_the_same_everywhere(library: Sample, cli: Cli) -> None:
    without = {"use_llm": False, "answer": {"kind": "extractive"}}
    cli("answer", "how to send an email?", "--no-llm", "--top-k", "3")
    assert library.opened[-1]["settings"] == {"top_k": 3, **without}
    cli("how to send an email?", "--no-llm", "--profile", "full")
    assert library.opened[-1]["settings"] == without
